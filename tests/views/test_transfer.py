"""Transfer in HTML, text and JSON: both sides, what they share, and whether they are equal."""

from __future__ import annotations

import json

import pytest

from tests.views.plans import all_plans, evil_plan, plan_of
from tests.views.test_html import Page
from workbench.core.offload.remedies import BOTH, DECODE, PREFILL, transfer_remedies
from workbench.core.offload.transfer import transfer
from workbench.views.offload.transfer import transfer_dict, transfer_html, transfer_text


def nemotron(**fields):
    values = {"kv_cache_dtype": "fp8", "block_size": 32, **fields}
    return plan_of(model="nemotron-3-nano-30b-a3b", **values)


def test_unequal_blocks_are_reported():
    """Use Nemotron-3-Nano with fp8 and --block-size 32: 2,112 on four ranks, 4,192 on one."""
    words = Page(transfer_html(nemotron(tensor_parallel=4), nemotron())).words
    for said in ("heterogeneous: unequal", "2,112", "4,192", "276,672", "≠ unequal", "vllm#41037"):
        assert said in words
    assert "transfer refused" in words
    assert "not an integer" in words


def test_equal_blocks_are_reported_too():
    words = Page(transfer_html(nemotron(), nemotron(tensor_parallel=2))).words
    assert "homogeneous: equal" in words
    assert "transfer works" in words
    assert "HND" in words
    assert "Tried" not in words


@pytest.mark.parametrize(
    ("prefill", "decode", "sides"),
    [
        ({"tensor_parallel": 4}, {}, (PREFILL, DECODE)),
        ({}, {"tensor_parallel": 4}, (DECODE, DECODE)),
        ({}, {"kv_cache_dtype": "auto"}, (DECODE,)),
        ({}, {"kv_cache_dtype": "auto", "tensor_parallel": 4}, (BOTH, DECODE)),
    ],
)
def test_remedies_were_tried(prefill, decode, sides):
    there, here = nemotron(**prefill), nemotron(**decode)
    remedies = transfer_remedies(there, here)
    assert tuple(remedy.side for remedy in remedies) == sides
    for remedy in remedies:
        assert transfer(remedy.prefill, remedy.decode).is_legal
        changed = {
            PREFILL: (remedy.prefill,),
            DECODE: (remedy.decode,),
            BOTH: (remedy.prefill, remedy.decode),
        }
        for plan in changed[remedy.side]:
            for name, value in remedy.changes.items():
                assert getattr(plan.settings, name) == value
    assert str(remedies[0]) in transfer_text(there, here)


def test_sides_that_fit_need_no_remedy():
    assert transfer_remedies(nemotron(), nemotron()) == ()


def test_the_text_lists_both_sides():
    lines = transfer_text(nemotron(tensor_parallel=4), nemotron()).splitlines()
    (block,) = (line for line in lines if line.startswith("  block "))
    assert block.split() == ["block", "2,112", "tokens", "4,192", "tokens", "≠", "unequal"]
    assert "✕ heterogeneous" in "\n".join(lines)


def test_the_published_form():
    published = json.loads(json.dumps(transfer_dict(nemotron(tensor_parallel=4), nemotron())))
    assert published["is_legal"] is False
    assert published["is_homogeneous"] is False
    assert published["prefill"]["kernel_blocks_per_block"] == 33
    assert published["common_block_size"] == 276_672
    assert published["problems"][0]["code"] == "transfer_kernel_blocks"
    assert published["remedies"][0]["changes"] == {"block_size": 4192}


def test_a_side_without_kernel_block_is_reported():
    broken = nemotron(block_size=15)
    assert "Decode has no kernel block" in Page(transfer_html(nemotron(), broken)).words
    assert "Prefill has no kernel block" in transfer_text(broken, nemotron())
    assert transfer_dict(broken, nemotron())["is_legal"] is False


def test_every_plan_fits_itself_or_says_why_not():
    for plan in all_plans():
        words = Page(transfer_html(plan, plan)).words
        state, known = plan.model.state, plan.rules.offload.transferred_states
        fits = bool(plan.kernel_block_size) and (state is None or state.kind in known)
        assert ("transfer works" in words) is fits


def test_names_are_escaped():
    evil = evil_plan()
    assert "<img" not in transfer_html(evil, evil)
