"""Numbers as text."""

from __future__ import annotations

import pytest

from tests.views.plans import plan_of, small, stateless
from workbench.views.rows import plan_facts
from workbench.views.units import bytes_text, percent_text, tokens_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "none"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1,024 B (1.00 KiB)"),
        (2_162_688, "2,162,688 B (2.06 MiB)"),
        (3 * 2**30, "3,221,225,472 B (3.00 GiB)"),
        (5 * 2**40, "5,497,558,138,880 B (5120.00 GiB)"),
    ],
)
def test_bytes(size, text):
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("count", "text"), [(None, "none"), (0, "0 tokens"), (1, "1 token"), (1056, "1,056 tokens")]
)
def test_tokens(count, text):
    assert tokens_text(count) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "none"), (0.0, "0.00 %"), (0.7575, "0.76 %"), (100, "100.00 %")]
)
def test_percent(value, text):
    assert percent_text(value) == text


def facts(plan):
    return {fact.name: fact.text for fact in plan_facts(plan)}


def test_facts_of_a_hybrid_model():
    plan = plan_of(model="nemotron-3-nano-30b-a3b")
    found = facts(plan)
    assert found["attention_page_size_bytes"] == bytes_text(plan.attention_page_size_bytes)
    ratio = plan.block_size // plan.kernel_block_size
    assert found["kernel_block_size"] == f"{plan.kernel_block_size} tokens ({ratio} in a block)"


def test_parts_that_a_model_lacks_are_omitted():
    assert not any(name.startswith("mamba") for name in facts(small()))
    assert not any(name.startswith("attention") for name in facts(stateless()))


def test_no_common_kernel_block_is_reported():
    plan = plan_of(model="llama-3.1-8b", platform="cpu", block_size=15)
    assert facts(plan)["kernel_block_size"] == "none of MultipleOf(16) fits"


def test_no_backend_is_reported():
    plan = plan_of(model="nemotron-3-nano-30b-a3b", block_size=15)
    assert facts(plan)["kernel_block_size"] == "none: no backend supports this"
    assert "cuda, vLLM 0.23, no valid backend" in repr(plan)
    assert "cuda, vLLM 0.23, no attention" in repr(plan_of(model="mamba-2.8b"))
