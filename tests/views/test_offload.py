"""Offload in HTML, text and JSON: the checks in order, both operands, what the pool holds."""

from __future__ import annotations

import json

import pytest

from tests.views.plans import EVIL, all_plans, evil_plan, plan_of
from tests.views.test_html import Page
from workbench.core.offload.plan import OffloadRequest, offload
from workbench.views.offload.checks import NOT_REACHED, NOT_SET, PASSES, STOPS, check_rows
from workbench.views.offload.html import offload_html, offload_text
from workbench.views.offload.rows import (
    attention_shape,
    block_readings,
    layer_kinds,
    offload_dict,
    prompt_rows,
    remedy_rows,
)

GIB = 2**30
POOL = OffloadRequest(cpu_bytes_to_use=64 * GIB)


def qwen(**fields):
    return plan_of(model="qwen3.5-4b", **fields)


def cached(**fields):
    return qwen(enable_prefix_caching=True, **fields)


def outcomes(plan, request):
    return [row.outcome for row in check_rows(plan, request, offload(plan, request))]


def test_every_plan_can_be_shown():
    for plan in all_plans():
        page = Page(offload_html(plan, POOL))
        published = json.loads(json.dumps(offload_dict(plan, POOL)))
        if plan.cache is None:
            assert "cannot be made equal" in page.words
            assert "cannot be made equal" in offload_text(plan, POOL)
            assert published["is_legal"] is False
            continue
        found = offload(plan, POOL)
        assert ("vLLM fails at start-up" in page.words) is not found.is_legal
        assert published["is_legal"] is found.is_legal
        assert published["cpu_blocks"] == found.cpu_blocks


def test_the_failed_check_is_shown_with_both_operands():
    plan = qwen(max_model_len=32768)
    assert outcomes(plan, POOL) == [
        PASSES,
        NOT_SET,
        STOPS,
        NOT_REACHED,
        NOT_REACHED,
        NOT_REACHED,
    ]
    words = Page(offload_html(plan, POOL)).words
    for number in ("528 and 32,768", "1,081,344", "stops here", "not reached"):
        assert number in words
    assert "Prefix caching on (block size 528); then the offload is legal" in words


@pytest.mark.parametrize(
    ("values", "stops"),
    [
        ({"prefill_context_parallel": 2}, 0),
        ({"hash_block_size": 100}, 1),
        ({"block_size": 1000}, 4),
        ({"cpu_bytes_to_use": 0}, 5),
    ],
)
def test_checks_before_the_one_that_stops_passed(values, stops):
    request = OffloadRequest(**{"cpu_bytes_to_use": GIB, **values})
    found = outcomes(cached(), request)
    assert found[stops] == STOPS
    assert set(found[:stops]) <= {PASSES, NOT_SET}
    assert set(found[stops + 1 :]) <= {NOT_REACHED}


def test_an_explicit_hash_block_that_is_not_read_is_reported():
    row = check_rows(qwen(), OffloadRequest(hash_block_size=16), offload(qwen(), POOL))[1]
    assert "set to 16" in row.operands
    assert "not read here" in row.operands


def test_a_remedy_says_what_comes_next():
    request = OffloadRequest(1000, 64 * GIB)
    (_remedy, after), *_more = remedy_rows(qwen(), request, offload(qwen(), request))
    assert after.startswith("then it stops at: An offloaded block of 1,000 tokens")


def test_a_legal_offload_shows_its_sizes():
    page = Page(offload_html(cached(), OffloadRequest(1056, 64 * GIB)))
    blocks = 64 * GIB // (2 * 8 * 2_162_688)
    for words in (f"legal: {blocks:,} host blocks", "528, 1,056, 1,584", "34,603,008 B"):
        assert words in page.words


def test_memory_below_one_block_is_reported():
    shown = offload_html(cached(), OffloadRequest(cpu_bytes_to_use=1000))
    assert 'data-code="host_memory_below_one_block" data-severity="warning"' in shown
    assert "smaller than one block: nothing is ever stored" in Page(shown).words
    enough = offload_html(cached(), OffloadRequest(1056, 64 * GIB))
    assert "host_memory_below_one_block" not in enough


def test_prompts_take_the_blocks_of_the_rules():
    rows = {row.prompt_tokens: row for row in prompt_rows(cached(), offload(cached(), POOL))}
    assert (rows[1024].attention_blocks, rows[1024].state_blocks) == (1, 3)
    assert rows[1024].requests == 3971 // 4 == 992
    assert prompt_rows(qwen(), offload(qwen(), POOL)) == ()


def test_the_worked_number_of_blocks():
    """Expect 7, 231 and 7 for 7 blocks of 33 kernel blocks (#38554)."""
    plan = plan_of(
        model="nemotron-3-nano-30b-a3b",
        kv_cache_dtype="fp8",
        block_size=32,
        tensor_parallel=4,
        num_gpu_blocks_override=7,
    )
    assert [(row.blocks, row.is_right) for row in block_readings(plan)] == [
        (7, True),
        (2, False),
        (231, False),
    ]
    assert attention_shape(plan) == (231, 2, 64, 1, 128)
    page = Page(offload_html(plan, POOL))
    assert "231" in page.words
    assert "example of" not in page.words
    assert "example of 7 blocks" in offload_text(qwen(), POOL)


def test_bytes_by_kind_of_layer():
    mamba, attention = layer_kinds(cached())
    assert (mamba.layers, mamba.data_bytes, mamba.page_bytes) == (24, 2_146_304, 2_162_688)
    assert (attention.layers, attention.data_bytes) == (8, 2_162_688)
    assert "16,384" in Page(offload_html(cached(), POOL)).words


def test_the_text_has_the_verdict_and_the_remedy():
    text = offload_text(qwen(), POOL)
    assert "✕ vLLM fails at start-up" in text
    assert "tested remedy: enable_prefix_caching = yes" in text
    assert "✓ legal: 3,971 host blocks" in offload_text(cached(), POOL)


def test_other_errors_of_the_plan_are_reported():
    plan = plan_of(model="nemotron-3-nano-30b-a3b", block_size=15)
    assert plan.errors
    assert plan.errors[0].code in Page(offload_html(plan, POOL)).words


def test_names_are_escaped():
    assert "<img" not in offload_html(evil_plan(), POOL)
    assert offload_dict(evil_plan(), POOL)["model"] == EVIL
