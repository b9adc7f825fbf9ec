"""Remedies of offloads and transfers: each is tried, helps, and is as small as it can be."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

import workbench as wb
from workbench.core.offload.plan import offload
from workbench.core.offload.remedies import (
    BOTH,
    DECODE,
    PREFILL,
    offload_remedies,
    request_remedies,
    transfer_remedies,
)
from workbench.core.offload.request import OffloadRequest
from workbench.core.offload.transfer import transfer
from workbench.core.remedies import MOST

GIB = 2**30
HYBRID = {"model": "nemotron-3-nano-30b-a3b", "kv_cache_memory_bytes": 20 * GIB}
SIDES = (
    {},
    {"rules": "0.33"},
    {"kv_cache_dtype": "fp8"},
    {"tensor_parallel": 2},
    {"block_size": 32},
    {"enable_prefix_caching": True},
    {"enable_prefix_caching": True, "mamba_cache_mode": "align"},
    {"enable_prefix_caching": True, "tensor_parallel": 4, "kv_cache_dtype": "fp8"},
    {"rules": "0.33", "tensor_parallel": 4, "block_size": 2096},
    {"max_num_batched_tokens": 1024, "enable_prefix_caching": True},
)
"""What two sides of a transfer set."""
UNCACHED = {"enable_prefix_caching": False, "mamba_cache_mode": None}
REQUESTS = (
    OffloadRequest(cpu_bytes_to_use=10 * GIB),
    OffloadRequest(1000, 10 * GIB),
    OffloadRequest(1056, 10 * GIB, blocks_per_chunk=2),
    OffloadRequest(cpu_bytes_to_use=10 * GIB, blocks_per_chunk=0),
    OffloadRequest(cpu_bytes_to_use=10 * GIB, hash_block_size=100),
    OffloadRequest(cpu_bytes_to_use=10 * GIB, prefill_context_parallel=2),
)


def plan_of(**fields):
    return wb.resolve(**{**HYBRID, **fields})


def codes(*plans):
    return {error.code for plan in plans for error in plan.errors}


def is_part(smaller, larger):
    return smaller.items() <= larger.items()


def check_transfer(prefill, decode):
    """Return the remedies, after checks of what holds for all."""
    found = transfer_remedies(prefill, decode)
    if transfer(prefill, decode).is_legal:
        assert found == ()
    assert len(found) <= MOST
    for number, remedy in enumerate(found):
        changed = [plan.scenario.replace(**remedy.changes) for plan in (prefill, decode)]
        there = prefill if remedy.side == DECODE else wb.resolve(changed[0])
        here = decode if remedy.side == PREFILL else wb.resolve(changed[1])
        assert (remedy.prefill.to_dict(), remedy.decode.to_dict()) == (
            there.to_dict(),
            here.to_dict(),
        )
        assert transfer(there, here).is_legal
        assert codes(there, here) <= codes(prefill, decode)
        assert not any(is_part(one.changes, remedy.changes) for one in found[:number])
    return found


@pytest.mark.parametrize("model", ["nemotron-3-nano-30b-a3b", "llama-3.1-8b", "qwen3.5-4b"])
def test_every_remedy_of_a_transfer_helps_and_no_part_of_it_does(model):
    sides = [plan_of(model=model, **fields) for fields in SIDES]
    found = [check_transfer(*pair) for pair in product(sides, repeat=2)]
    assert any(found)
    assert not all(found)


@pytest.mark.parametrize(
    ("prefill", "decode", "first"),
    [
        ({}, {"rules": "0.33"}, (DECODE, {"rules": "0.23"})),
        ({}, {"kv_cache_dtype": "fp8"}, (DECODE, {"kv_cache_dtype": "auto"})),
        (
            {"rules": "0.33"},
            {"kv_cache_dtype": "fp8"},
            (DECODE, {"rules": "0.33", "kv_cache_dtype": "auto"}),
        ),
        ({}, {"block_size": 32}, (PREFILL, {"block_size": 2112})),
        ({"block_size": 32}, {}, (DECODE, {"block_size": 2112})),
        (
            {"kv_cache_dtype": "fp8"},
            {"block_size": 32},
            (BOTH, {"kv_cache_dtype": "fp8", "block_size": 4176}),
        ),
        (
            {"kv_cache_dtype": "fp8"},
            {"enable_prefix_caching": True},
            (BOTH, {"kv_cache_dtype": "fp8", **UNCACHED}),
        ),
        (
            {"enable_prefix_caching": True, "tensor_parallel": 4, "kv_cache_dtype": "fp8"},
            {"enable_prefix_caching": True},
            (DECODE, {"kv_cache_dtype": "fp8", "tensor_parallel": 4}),
        ),
    ],
)
def test_the_simplest_change_of_a_transfer_is_first(prefill, decode, first):
    found = check_transfer(plan_of(**prefill), plan_of(**decode))
    assert (found[0].side, found[0].changes) == first


def check_offload(plan, request):
    """Return how many remedies of the plan and of the request there are; each is checked."""
    counts = [0, 0]
    for problem in offload(plan, request).problems:
        found = offload_remedies(plan, problem, request)
        assert len(found) <= MOST
        for number, remedy in enumerate(found):
            other = wb.resolve(plan.scenario.replace(**remedy.changes))
            assert remedy.plan.to_dict() == other.to_dict()
            assert codes(other) <= codes(plan)
            left = {one.code for one in offload(other, request).problems}
            assert problem.code not in left
            assert not any(is_part(one.changes, remedy.changes) for one in found[:number])
        nearest = request_remedies(plan, problem, request)
        for other in nearest:
            assert problem.code not in {one.code for one in offload(plan, other).problems}
        counts = [counts[0] + len(found), counts[1] + len(nearest)]
    return counts


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
@pytest.mark.parametrize("model", ["nemotron-3-nano-30b-a3b", "llama-3.1-8b"])
def test_every_remedy_of_an_offload_helps_and_no_part_of_it_does(model, rules):
    plans = [plan_of(**{"model": model, **fields, "rules": rules}) for fields in SIDES]
    found = [check_offload(plan, request) for plan, request in product(plans, REQUESTS)]
    assert any(of_request for _of_plan, of_request in found)


def test_the_text_of_a_remedy_has_both_blocks():
    [remedy] = check_transfer(plan_of(), plan_of(rules="0.33"))
    sizes = remedy.prefill.block_size, remedy.decode.block_size
    assert remedy.to_dict() == {
        "side": DECODE,
        "changes": {"rules": "0.23"},
        "prefill_block_size": sizes[0],
        "decode_block_size": sizes[1],
    }
    assert str(remedy) == f"decode: rules = 0.23 (blocks of {sizes[0]:,} and {sizes[1]:,} tokens)"


def test_the_smaller_size_of_two_as_near_comes_first_and_none_is_zero():
    plan = plan_of(enable_prefix_caching=True)
    size = plan.block_size
    for given, nearest in ((size + size // 2, [size, 2 * size]), (size - 1, [size])):
        request = OffloadRequest(given, 10 * GIB)
        [problem] = offload(plan, request).problems
        found = request_remedies(plan, problem, request)
        assert found == tuple(replace(request, block_size=one) for one in nearest)
