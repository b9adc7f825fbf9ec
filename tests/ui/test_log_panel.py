"""The tab "Log": paste, explain, take the scenario over; no input is lost."""

from __future__ import annotations

from pathlib import Path

import ipywidgets as widgets
import pytest

import workbench as wb
from tests.interop.test_log_messages import LINES
from workbench.interop.logs.errors import ERRORS
from workbench.views.html import document

LOGS = Path(__file__).parents[1] / "data" / "logs"
EVIL = "<img src=x onerror=alert(1)>"
ARGUMENTS = (
    "Automatically detected platform cuda.\n"
    "non-default args: {'model': 'Qwen/Qwen3.5-4B'}\n"
    "ERROR 11-20 10:00:20 [core.py:1108] "
)
"""The start of a log whose next line is an error."""


@pytest.fixture
def tab():
    panel = wb.explore(model="jamba-1.5-mini")
    yield panel, panel.open("Log")
    assert panel.session.errors == []


def paste(log, text):
    log.text.value = text
    log.explain.click()


def log_of(name):
    return (LOGS / f"{name}.log").read_text(encoding="utf-8")


def test_a_log_is_explained_and_its_scenario_taken_over(tab):
    panel, log = tab
    paste(log, log_of("whole_start_0_23"))
    assert "the rules give 1,056 tokens" in log._lines.value
    assert 'data-verdict="agrees"' in log._lines.value
    assert panel.plan.model.name == "jamba-1.5-mini"
    [use] = log._use.children
    assert use.description == "Use this scenario"
    use.click()
    assert panel.plan.block_size == 1056
    assert panel.scenario.model == "nemotron-3-nano-30b-a3b"
    assert panel.scenario.tensor_parallel == 4
    assert panel.controls["tensor_parallel"].value == 4


def test_the_explanation_stays_while_scenarios_change(tab):
    panel, log = tab
    paste(log, log_of("whole_start_0_23"))
    before = log._lines.value
    panel.controls["tensor_parallel"].value = 2
    panel.open("Why")
    panel.open("Log")
    assert log._lines.value == before
    assert log.text.value


def test_a_size_alone_offers_a_button_for_every_candidate(tab):
    panel, log = tab
    paste(log, log_of("size_alone_528"))
    first = log._use.children[0]
    assert first.description == "Use qwen3.5-4b"
    first.click()
    assert panel.plan.block_size == 528


def test_a_size_that_differs_offers_what_would_explain_it(tab):
    panel, log = tab
    paste(
        log,
        "non-default args: {'model': 'nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16'}\n"
        "Setting attention block size to 1056 tokens to ensure that attention page size is >=",
    )
    assert [button.description for button in log._use.children][:2] == [
        "Use this scenario",
        "Use tensor_parallel = 4",
    ]
    log._use.children[1].click()
    assert panel.plan.block_size == 1056


def test_a_command_line_is_taken_over_as_well(tab):
    panel, log = tab
    paste(log, "vllm serve Qwen/Qwen3.5-4B -tp 2 --block-sise 3")
    assert "Nearest: --block-size" in log._lines.value
    log._use.children[0].click()
    assert (panel.scenario.model, panel.scenario.tensor_parallel) == ("qwen3.5-4b", 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nothing to explain"),
        ("hello", "None of the 1 lines"),
        ("a\0b", "binary data"),
        ("vllm serve Qwen/Qwen3.5-4B --kv-cache-dtype fp9", "Nearest: fp8"),
        ((LOGS / "sglang.log").read_text(encoding="utf-8"), "SGLang"),
    ],
)
def test_an_unknown_text_is_reported_and_stays(tab, text, words):
    _panel, log = tab
    paste(log, log_of("whole_start_0_23"))
    paste(log, text)
    assert words in log._error.value
    assert log.text.value == text
    assert log._lines.value == ""
    assert log._use.children == ()
    paste(log, log_of("whole_start_0_23"))
    assert log._error.value == ""


def test_clear_empties_everything(tab):
    _panel, log = tab
    paste(log, log_of("whole_start_0_23"))
    log.clear.click()
    assert (log.text.value, log._lines.value, log._scenario.value) == ("", "", "")
    assert log._use.children == ()


def test_markup_in_a_log_is_shown_not_run(tab):
    _panel, log = tab
    paste(
        log,
        f"Setting attention block size to 528 tokens to ensure {EVIL}\n"
        f"non-default args: {{'model': '{EVIL}', 'tensor_parallel_size': 2}}",
    )
    assert "<img" not in (log._lines.value + log._scenario.value).replace(document(), "")


def test_a_refused_scenario_can_be_taken_over_and_is_refused_above(tab):
    panel, log = tab
    paste(
        log,
        "non-default args: {'model': 'Qwen/Qwen3.5-4B', 'tensor_parallel_size': 3}\n"
        "ValueError: Total number of attention heads (16) must be divisible by tensor parallel "
        "size (3).",
    )
    assert "the rules give the same" in log._lines.value
    log._use.children[0].click()
    assert panel.scenario.model == "qwen3.5-4b"


@pytest.mark.parametrize("name", [message.name for message in ERRORS])
def test_a_fatal_log_never_becomes_a_scenario_without_a_problem(tab, name):
    panel, log = tab
    paste(log, ARGUMENTS + LINES[name])
    assert "The log ends with a fatal error" in log._lines.value
    log._use.children[0].click()
    found = panel._problems._list.children
    shown = "".join(part.value for part in found if isinstance(part, widgets.HTML))
    assert "No start-up problem found" not in shown
    assert 'data-severity="error"' in shown or "do not find this problem" in shown


def test_facts_of_a_log_belong_to_its_scenario_alone(tab):
    panel, log = tab
    paste(log, ARGUMENTS + LINES["hash_block_not_divisible"])
    log._use.children[0].click()
    assert "do not find this problem" in panel._problems._list.children[0].value
    panel.controls["tensor_parallel"].value = 2
    assert "No start-up problem found" in panel._problems._list.children[0].value


def test_the_whole_scenario_of_a_log_is_taken_over(tab):
    panel, log = tab
    paste(log, log_of("align_budget"))
    log._use.children[0].click()
    found = panel.scenario
    assert (found.enable_prefix_caching, found.mamba_cache_mode) == (True, "align")
    assert found.max_num_batched_tokens == 2048
    assert [problem.code for problem in panel.plan.errors] == ["block_exceeds_token_budget"]
