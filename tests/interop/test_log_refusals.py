"""What vLLM says where it refuses a configuration is explained without the rest of a log."""

from __future__ import annotations

import subprocess
import sys

import pytest

import workbench as wb
from workbench.core.errors import ScenarioError
from workbench.core.problems import problem_texts
from workbench.interop.logs.messages import MESSAGES
from workbench.interop.logs.refusals import PLACE, refusal_messages

REFUSALS = refusal_messages()


@pytest.mark.sampled(40)
@pytest.mark.parametrize("message", REFUSALS, ids=lambda message: message.name)
def test_every_refusal_of_the_rules_is_known_where_it_is_pasted_alone(message):
    text = problem_texts()[message.name]["vllm_text"]
    report = wb.explain_log(f"ValueError: {PLACE.sub('7', text)}")
    # a start goes on after some of them, and stops later without another text
    goes_on = any(one.begins in text and not one.is_fatal for one in MESSAGES.values())
    assert goes_on or report.failure.line == 1
    assert all(not PLACE.search(line.means) and line.means for line in report.lines)


def test_the_field_and_a_way_out_are_named():
    text = "Chunked prefill is required for mamba cache mode 'align'"
    [line] = wb.explain_log(f"pydantic_core.ValidationError: {text}").lines
    assert line.means.startswith("vLLM refuses the configuration: look at Chunked prefill first.")
    assert "Switch chunked prefill on, or prefix caching off." in line.means


def test_a_text_is_looked_for_once_although_variants_have_it():
    begun = [one.begins for one in REFUSALS]
    assert len(begun) == len(set(begun)) > 70


def test_a_log_with_messages_of_a_start_is_read_by_these_alone():
    log = (
        "INFO Setting attention block size to 528 tokens to ensure that\n"
        "WARNING The quantization method x is deprecated and will be removed in future versions\n"
    )
    assert [line.message for line in wb.explain_log(log).lines] == ["attention_block_size"]


@pytest.mark.parametrize(
    "text", ["IndexError: list index out of range", "sglang: is not supported for the current GPU."]
)
def test_errors_of_other_programs_are_not_explained(text):
    with pytest.raises(ScenarioError):
        wb.explain_log(text)


@pytest.mark.thorough
def test_spaces_before_a_refusal_are_read_once():
    """30,000 of them took minutes: each was tried as the value at the beginning of a text."""
    words = "' is not divisible by tensor parallel size (16).'"
    code = "from workbench.interop.logs.refusals import refusal_messages as known\n"
    code += f"for one in known(): one.pattern.search(' ' * 30_000 + {words})"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
