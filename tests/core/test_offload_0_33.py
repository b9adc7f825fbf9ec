"""Offload by the rules of 0.33: options, texts, units of hashes, and one allocation."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import lcm

import pytest

import workbench as wb
from workbench.core.groups.cache_spec import CacheSpec
from workbench.core.offload.plan import OffloadRequest, offload, window_chunks
from workbench.core.offload.pool import layer_bytes, worker_bytes
from workbench.core.offload.remedies import _candidates, request_remedies, transfer_remedies
from workbench.core.offload.request import BlockSizes, resolved_block_sizes
from workbench.core.offload.transfer import transfer
from workbench.core.problems import Problem
from workbench.views.offload.html import offload_html, offload_text

GIB = 2**30
POOL = OffloadRequest(cpu_bytes_to_use=10 * GIB)


@cache
def plan_of(model="qwen3.5-4b", **fields):
    options = {"max_model_len": 32768, "rules": "0.33", "gdn_flashinfer_prefill": False}
    return wb.resolve(**{"model": model, **options, **fields})


def the_problem(request, **fields):
    (problem,) = offload(plan_of(**fields), request).problems
    return problem


def test_align_mode_is_legal_and_hashes_the_block():
    found = offload(plan_of(), POOL)
    assert (found.is_legal, found.block_sizes) == (True, BlockSizes(528, 528))
    assert found.window_chunks == (1, 1, 1, None)
    page = worker_bytes(plan_of()).per_block
    assert found.bytes_per_cpu_block == -(-page // 4096) * 4096


def test_without_prefix_caching_the_text_has_the_new_words():
    problem = the_problem(POOL, enable_prefix_caching=False)
    assert problem.vllm_text.startswith("tokens_per_block=")
    assert "tokens_per_hash=1081344" in problem.vllm_text


MULTIPLE = (
    "'block_size'=1000 in kv_connector_extra_config must be a multiple of the GPU KV cache block "
    "size (528 tokens). Use 1056 instead, or set 'blocks_per_chunk' to express the chunk size in "
    "blocks."
)
DIVISOR = (
    "Invalid prefix_match_unit=100; prefix-cacheable KV cache group block sizes must be divisible "
    "by prefix_match_unit. Got group block sizes=[528, 528, 528, 528], "
    "prefix-cacheable=[528, 528, 528, 528]."
)


@pytest.mark.parametrize(
    ("values", "code", "text", "nearest"),
    [
        (
            {"block_size": 1056, "blocks_per_chunk": 2},
            "offload_two_chunk_sizes",
            "Specify only one of 'block_size' or 'blocks_per_chunk' in kv_connector_extra_config.",
            {"block_size": None},
        ),
        (
            {"blocks_per_chunk": 0},
            "offload_chunk_below_1",
            "'blocks_per_chunk' must be greater than 0.",
            {"blocks_per_chunk": 1},
        ),
        (
            {"block_size": 1000},
            "offload_block_not_multiple",
            MULTIPLE,
            {"block_size": 1056},
        ),
        (
            {"hash_block_size": 100},
            "hash_block_size_not_divisor",
            DIVISOR,
            {"hash_block_size": 88},
        ),
        (
            {"cpu_bytes_to_use": None},
            "offload_bytes_missing",
            "cpu_bytes_to_use must be specified in kv_connector_extra_config",
            None,
        ),
    ],
)
def test_each_check_with_its_text_and_the_nearest_that_passes(values, code, text, nearest):
    request = replace(POOL, **values)
    problem = the_problem(request)
    assert (problem.code, problem.vllm_text) == (code, text)
    found = request_remedies(plan_of(), problem, request)
    if nearest is not None:
        assert replace(request, **nearest) in found


def test_a_single_group_has_hits_on_its_block_only():
    request = replace(POOL, hash_block_size=8)
    problem = the_problem(request, model="llama-3.1-8b")
    assert problem.vllm_text == (
        "Invalid prefix_match_unit=8; with a single KV cache group, prefix-cache hits land on the "
        "block size (16). Unset it or set it to 16."
    )
    llama = plan_of("llama-3.1-8b")
    assert offload(llama, replace(request, hash_block_size=16)).is_legal
    assert request_remedies(llama, problem, request)[0].hash_block_size == 16


def test_chunks_of_several_blocks():
    found = offload(plan_of(), replace(POOL, blocks_per_chunk=3))
    same = offload(plan_of(), replace(POOL, block_size=3 * 528))
    assert found.factor == same.factor == 3
    assert found.bytes_per_cpu_block == same.bytes_per_cpu_block
    old = offload(
        wb.resolve(model="qwen3.5-4b", enable_prefix_caching=True),
        replace(POOL, blocks_per_chunk=3),
    )
    assert (old.factor, old.unread) == (1, ("blocks_per_chunk",))


@pytest.mark.parametrize(
    ("kind", "window", "chunk", "read_again", "chunks"),
    [
        ("MambaSpec", None, 528, 0, 1),
        ("FullAttentionSpec", None, 16, 0, None),
        ("SlidingWindowSpec", 1024, 256, 0, 4),
        ("SlidingWindowSpec", 1025, 256, 0, 5),
        ("SlidingWindowSpec", 1024, 256, 1, 4),
        ("SlidingWindowSpec", 1024, 256, 2, 5),
        ("ChunkedLocalAttentionSpec", 8192, 48, 0, 171),
        ("ChunkedLocalAttentionSpec", 8192, 64, 3, 128),
    ],
)
def test_how_far_a_group_reaches_back(kind, window, chunk, read_again, chunks):
    # get_sliding_window_size_in_chunks of vLLM 0.33.0 gives these numbers.
    assert window_chunks(CacheSpec(kind, 16, 1024, window), chunk, read_again) == chunks


def test_context_parallelism_spreads_attention_and_not_states():
    spread = {"tensor_parallel": 8, "decode_context_parallel": 2}
    found = offload(plan_of(**spread), POOL)
    assert sorted(set(found.gpu_block_sizes)) == [272, 544]
    assert found.block_sizes == BlockSizes(544, 272)
    alone = plan_of("llama-3.1-8b", tensor_parallel=16, decode_context_parallel=2)
    assert offload(alone, POOL).gpu_block_sizes == (32,)
    mode_none = resolved_block_sizes(plan_of(enable_prefix_caching=False, **spread), POOL)
    assert mode_none == BlockSizes(*[lcm(32768, 544)] * 2)


def test_the_one_allocation_is_counted_once():
    worker = worker_bytes(plan_of())
    assert worker.one_allocation
    assert worker.descriptors == 4
    assert worker.summed == 4 * worker.per_block
    in_0_23 = worker_bytes(wb.resolve(model="qwen3.5-4b"))
    assert in_0_23.summed == in_0_23.per_block == worker.per_block
    assert all(layer.data_bytes <= layer.page_bytes for layer in layer_bytes(plan_of()))


def test_ranks_with_the_same_latents_store_them_once():
    one, four = (
        offload(plan_of("deepseek-v3", tensor_parallel=ranks), POOL).bytes_per_cpu_block
        for ranks in (1, 4)
    )
    assert one == four
    split = offload(plan_of("deepseek-v3", tensor_parallel=4), replace(POOL, world_size=8))
    latents = worker_bytes(plan_of("deepseek-v3")).per_block
    assert split.bytes_per_cpu_block == 8 * latents  # whole pages of 4,096 bytes


def test_what_the_view_shows():
    text = offload_text(plan_of(), POOL)
    assert "an explicit prefix_match_unit divides" in text
    assert "adding them up would give" in text
    assert "vLLM 0.23 filled has different keys" in text
    assert "first dimension of [B, H, N, C]" in text
    assert "some group can be offloaded" in offload_html(plan_of(), POOL)
    two = OffloadRequest(1056, GIB, blocks_per_chunk=2)
    assert "not both block_size and blocks_per_chunk" in offload_text(plan_of(), two)


def test_two_versions_cannot_exchange_a_cache():
    old, new = (wb.resolve(model="llama-3.1-8b", rules=rules) for rules in ("0.23", "0.33"))
    found = transfer(old, new)
    assert not found.is_legal
    problem = found.problems[0]
    assert isinstance(problem, Problem)
    assert problem.code == "transfer_versions"
    assert "different hashes" in problem.message
    assert "packed" in problem.message
    assert transfer(new, new).is_legal
    assert transfer_remedies(old, new)[0].changes == {"rules": "0.23"}


def test_larger_blocks_on_the_decode_side_and_the_order_of_heads():
    there, here = (plan_of("nemotron-3-nano-30b-a3b", block_size=size) for size in (2096, 4192))
    found = transfer(there, here)
    assert (found.is_legal, found.kernel_ratio) == (True, 2)
    old = [wb.resolve(plan.scenario.replace(rules="0.23")) for plan in (there, here)]
    assert "transfer_hybrid_ratio" in [problem.code for problem in transfer(*old).problems]
    llama = {"model": "llama-3.1-8b", "tensor_parallel": 2}
    one = plan_of("llama-3.1-8b")
    assert transfer(plan_of(**llama), one).is_legal  # the connector asks for LBHNC
    explicit = plan_of(**llama, kv_cache_layout="LBNHC")
    (problem,) = transfer(explicit, one).problems
    assert problem.vllm_text == (
        "Heterogeneous TP expects same kv_cache_layout (local LBHNC, remote LBNHC)."
    )
    both = plan_of("llama-3.1-8b", kv_cache_layout="NHD")
    (problem,) = transfer(explicit, both).problems
    assert problem.code == "transfer_needs_hnd"
    assert transfer(explicit, plan_of(**llama, kv_cache_layout="NHD")).is_legal


def test_heads_of_every_rank_are_kept_and_a_latent_once():
    for model, copies in (("qwen3-8b", 2), ("deepseek-v3", 1), ("kimi-linear-48b-a3b", 2)):
        plan = plan_of(model, tensor_parallel=2)
        found = offload(plan, POOL)
        page = worker_bytes(plan).per_block * copies
        assert found.bytes_per_cpu_block == -(-page // 4096) * 4096


@pytest.mark.parametrize("caching", [True, False])
def test_one_side_with_prefix_caching_is_enough_to_try_without(caching):
    sides = [plan_of(enable_prefix_caching=one) for one in (caching, not caching)]
    changes = [changes for _side, changes in _candidates(*sides)]
    assert changes[-1]["enable_prefix_caching"] is False
    neither = plan_of(enable_prefix_caching=False)
    assert all("enable_prefix_caching" not in one for _, one in _candidates(neither, neither))
