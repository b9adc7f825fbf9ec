"""What goes wrong is said with the labels of the controls, and leads to the control."""

from __future__ import annotations

import re
from html import unescape

import pytest

import workbench as wb
from tests.ui.panels import press, region
from workbench.core.errors import ScenarioError
from workbench.core.versions import RULE_SETS
from workbench.door.explanations import refused
from workbench.door.labs import LABS
from workbench.scenario import FIELDS
from workbench.scenario.scenario import random_scenarios
from workbench.ui.open_lab import shown_html
from workbench.views.settings import in_labels

UNSEEN = re.compile(r"<(style|code|pre|option|select|small|svg|title)\b.*?</\1>", re.DOTALL)
"""A name, a program's own words, or the help of a control."""
NAMES = re.compile(
    rf"(?<![\w(.'])(?:{'|'.join(name for name in FIELDS if '_' in name)})(?![\w.]|=\S)"
)
"""As a control is not named; in quotes, or with "=" and no spaces, it is vLLM's own text."""


OF_A_CONNECTOR = re.compile(r"blocks_per_chunk|of the connector")
"""Its configuration has a block_size, too."""


def bare_names(shown):
    """Return the lines of some HTML that a reader sees with the bare name of a field."""
    read = re.sub(r"<[^>]*>", "", UNSEEN.sub("", shown))
    return [line for line in unescape(read).splitlines() if NAMES.search(line)]


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize(
    "message", ["Invalid {} 'x'. Expected y.", "{} = 3 is not one of {} here."]
)
def test_a_message_calls_a_field_as_its_control_does(name, message):
    label, shown = (
        FIELDS[name].label,
        in_labels(message.replace("{}", name, 1).replace("{}", "them")),
    )
    same = label.casefold() == name.replace("_", " ")
    assert (label if same else f"{label} ({name})") in shown
    assert in_labels(shown) == shown
    assert not bare_names(shown)


def test_a_field_is_named_once_and_what_vllm_says_stays():
    said = "max_num_seqs = 9 is more than max_num_batched_tokens; max_num_seqs = 8 is not."
    assert in_labels(said) == (
        "Max sequences (max_num_seqs) = 9 is more than Max batched tokens "
        "(max_num_batched_tokens); Max sequences = 8 is not."
    )
    for own in (
        *("'block_size'=16 in kv_connector_extra_config", "with max_num_batched_tokens=2048"),
        *(
            "--kv-cache-dtype",
            "VLLM_KV_CACHE_LAYOUT",
            "a model of rules",
            "kv_cache_config.block_size",
        ),
    ):
        assert in_labels(own) == own


@pytest.mark.parametrize("name", FIELDS)
def test_a_message_leads_to_the_control_of_its_field(panel, name):
    shown = refused(ScenarioError("x", f"Invalid {name} 3.", field=name))
    assert FIELDS[name].label in shown
    assert f'data-do="open" data-arg="{name}"' in shown
    press(panel, "open", name)
    assert f'data-do="set" data-arg="{name}" data-key="chip-{name}"' in region(panel, "bar")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rules", RULE_SETS)
def test_nothing_that_is_wrong_is_said_with_the_name_of_a_field(panel, rules):
    for scenario in random_scenarios(25, 11, rules):
        panel.session.request(scenario)
        assert not bare_names(panel.view.announced)
        for view in ("hits", "fits", "start", "what_if"):
            press(panel, "view", view)
            for name in ("answers", "understood", "body"):
                assert not bare_names(region(panel, name)), (scenario, view)


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "nemotron-3-nano-30b-a3b", "max_num_batched_tokens": 64},
        {"model": "qwen3-next-80b-a3b", "device": "H100", "tensor_parallel": 4},
        {"model": "qwen3.5-4b", "kv_cache_memory_bytes": "1 MiB", "max_num_seqs": 4096},
    ],
)
def test_nothing_in_a_lab_is_said_with_the_name_of_a_field(fields):
    door = wb.explore(**fields)
    for title in LABS:
        door.open(title)
        shown = bare_names("\n".join(shown_html(door.labs.widget)))
        assert [line for line in shown if not OF_A_CONNECTOR.search(line)] == [], title
