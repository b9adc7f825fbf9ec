"""Offload and transfer: the checks in order, both operands, pool sizes, two sides compared."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.models.configs import nemotron_nas
from workbench.core.errors import ScenarioError
from workbench.core.offload.checks import block_problem
from workbench.core.offload.plan import OffloadRequest, offload
from workbench.core.offload.pool import block_counts, layer_bytes
from workbench.core.offload.remedies import offload_remedies, request_remedies
from workbench.core.offload.request import BlockSizes, resolved_block_sizes
from workbench.core.offload.rules import OffloadRules
from workbench.core.offload.transfer import transfer
from workbench.core.problems import Problem

GIB = 2**30
POOL = OffloadRequest(cpu_bytes_to_use=10 * GIB)


@cache
def qwen(**fields):
    return wb.resolve(model="qwen3.5-4b", max_model_len=32768, **fields)


@cache
def nemotron(**fields):
    return wb.resolve(
        model="nemotron-3-nano-30b-a3b", kv_cache_dtype="fp8", block_size=32, **fields
    )


CACHED = {"enable_prefix_caching": True, "kv_cache_memory_bytes": 20 * GIB}


def the_problem(plan, request=POOL):
    (problem,) = offload(plan, request).problems
    return problem


def test_without_prefix_caching_the_hash_block_is_the_scheduler_block():
    result = offload(qwen(), POOL)
    problem = the_problem(qwen())
    assert result.block_sizes == BlockSizes(1_081_344, 1_081_344)
    assert problem.code == "offload_hash_block_size"
    assert problem.operands["hash_block_size"] == 1_081_344
    assert set(problem.operands["gpu_block_sizes"]) == {528, 32768}
    for number in ("528", "32,768", "1,081,344"):
        assert number in problem.message
    assert problem.vllm_text.startswith("gpu_block_size=")
    assert (result.factor, result.cpu_blocks, result.legal_block_sizes) == (None, None, ())


def test_prefix_caching_is_tried_and_helps():
    remedies = offload_remedies(qwen(), the_problem(qwen()), POOL)
    assert remedies[0].changes == {"enable_prefix_caching": True}
    assert all(offload(remedy.plan, POOL).is_legal for remedy in remedies)


def test_a_remedy_brings_no_new_error():
    budget = {"max_num_batched_tokens": 2048}  # less than a block: align mode stops at start
    scenario = wb.Scenario(model="nemotron-3-nano-30b-a3b", mamba_cache_mode="align", **budget)
    plan = wb.resolve(scenario)
    problem = the_problem(plan)
    remedies = offload_remedies(plan, problem, POOL)
    assert remedies
    assert all(remedy.plan.errors == () for remedy in remedies)
    assert {"enable_prefix_caching": True} not in [remedy.changes for remedy in remedies]


def test_legal_sizes_factor_and_host_blocks():
    result = offload(qwen(**CACHED), OffloadRequest(1056, 10 * GIB))
    assert result.is_legal
    assert result.legal_block_sizes[:3] == (528, 1056, 1584)
    assert result.factor == 2
    assert result.bytes_per_cpu_block == 8 * 2_162_688 * 2
    assert result.cpu_blocks == 10 * GIB // (8 * 2_162_688 * 2) == 310


def test_host_blocks_hold_all_ranks():
    one = offload(qwen(**CACHED), POOL)
    four = offload(qwen(**CACHED), OffloadRequest(cpu_bytes_to_use=10 * GIB, world_size=4))
    assert one.factor == four.factor == 1
    assert four.bytes_per_cpu_block == 4 * one.bytes_per_cpu_block
    assert four.cpu_blocks == one.cpu_blocks // 4


def test_host_blocks_do_not_depend_on_the_memory_of_the_gpu():
    result = offload(qwen(enable_prefix_caching=True), POOL)
    assert result.is_legal
    assert result.bytes_per_cpu_block == 8 * 2_162_688
    assert result.cpu_blocks == offload(qwen(**CACHED), POOL).cpu_blocks == 620


@pytest.mark.parametrize(
    ("values", "fields", "expected"),
    [
        ({"block_size": 1000}, CACHED, [{"block_size": 1056}, {"block_size": 528}]),
        ({"block_size": 100}, CACHED, [{"block_size": 528}]),
        ({"hash_block_size": 100}, CACHED, [{"hash_block_size": 88}, {"hash_block_size": None}]),
        ({"prefill_context_parallel": 2}, CACHED, [{"prefill_context_parallel": 1}]),
        ({"cpu_bytes_to_use": 0}, CACHED, []),
        ({}, {}, []),
    ],
)
def test_nearest_requests_pass_the_check(values, fields, expected):
    request = replace(POOL, **values)
    found = request_remedies(qwen(**fields), the_problem(qwen(**fields), request), request)
    assert found == tuple(replace(request, **changes) for changes in expected)


def test_an_explicit_block_needs_groups_of_one_size():
    problem = block_problem((16, 32), 64, OffloadRules())
    assert problem is not None
    assert problem.code == "offload_groups_differ"
    assert "64 tokens" in problem.message
    assert "16, 32" in problem.message
    assert block_problem((16, 32), None, OffloadRules()) is None
    assert block_problem((16, 16), 64, OffloadRules()) is None


@pytest.mark.parametrize(("requested", "near"), [(1000, "528 or 1,056"), (100, "528")])
def test_an_offloaded_block_is_a_multiple(requested, near):
    problem = the_problem(qwen(**CACHED), OffloadRequest(requested, 10 * GIB))
    assert problem.code == "offload_block_not_multiple"
    assert problem.operands == {"block_size": requested, "gpu_block_size": 528}
    assert f"{requested:,}" in problem.message
    assert problem.message.endswith(f"Nearest: {near}.")


@pytest.mark.parametrize(("bytes_", "words"), [(None, "is not given"), (0, "is 0")])
def test_the_host_pool_needs_bytes(bytes_, words):
    problem = the_problem(qwen(**CACHED), OffloadRequest(cpu_bytes_to_use=bytes_))
    assert problem.code == "offload_bytes_missing"
    assert words in problem.message
    assert problem.vllm_text == "cpu_bytes_to_use must be specified in kv_connector_extra_config"


def test_the_checks_come_in_vllms_order():
    everything = {"block_size": 1000, "cpu_bytes_to_use": 0}
    codes = [
        the_problem(qwen(), OffloadRequest(prefill_context_parallel=2, **everything)).code,
        the_problem(qwen(**CACHED), OffloadRequest(hash_block_size=7, **everything)).code,
        the_problem(qwen(), OffloadRequest(**everything)).code,
        the_problem(qwen(**CACHED), OffloadRequest(**everything)).code,
        the_problem(qwen(**CACHED), OffloadRequest(block_size=528, cpu_bytes_to_use=0)).code,
    ]
    assert codes == [
        "context_parallel_with_groups",
        "hash_block_size_not_divisor",
        "offload_hash_block_size",
        "offload_block_not_multiple",
        "offload_bytes_missing",
    ]


def test_a_hash_block_divides_every_group():
    request = OffloadRequest(cpu_bytes_to_use=GIB, hash_block_size=16)
    assert offload(qwen(**CACHED), request).block_sizes == BlockSizes(528, 16)
    problem = the_problem(qwen(**CACHED), OffloadRequest(cpu_bytes_to_use=GIB, hash_block_size=100))
    assert problem.operands == {"hash_block_size": 100, "group_block_sizes": (528,) * 4}
    assert problem.vllm_text.startswith("Invalid hash_block_size=100;")
    assert "100" in problem.message
    assert "528" in problem.message


def test_context_parallelism_multiplies_the_block_of_one_group():
    spread = {"tensor_parallel": 16, "decode_context_parallel": 2}
    plan = wb.resolve(model="llama-3.1-8b", **spread)
    request = OffloadRequest(cpu_bytes_to_use=GIB, prefill_context_parallel=2)
    result = offload(plan, request)
    assert result.block_sizes == BlockSizes(64, 64)
    assert result.gpu_block_sizes == (64,)
    problem = the_problem(qwen(tensor_parallel=8, decode_context_parallel=2), request)
    assert problem.operands == {
        "decode_context_parallel": 2,
        "prefill_context_parallel": 2,
        "groups": 4,
    }


@pytest.mark.parametrize(
    "values",
    [{"block_size": 0}, {"hash_block_size": -1}, {"world_size": 0}, {"cpu_bytes_to_use": -1}],
)
def test_impossible_requests(values):
    near = 0 if "cpu_bytes_to_use" in values else 1
    with pytest.raises(ValueError, match=f"{next(iter(values))}.*Nearest valid value: {near}"):
        OffloadRequest(**values)


@pytest.mark.parametrize(("world", "near"), [(1, 4), (5, 4), (7, 8)])
def test_the_world_is_a_multiple_of_the_tensor_parallel_ranks(world, near):
    plan = qwen(**CACHED, tensor_parallel=4)
    with pytest.raises(ScenarioError, match=f"engine's 4 ranks.*Nearest.*: {near}") as caught:
        offload(plan, replace(POOL, world_size=world))
    assert (caught.value.code, caught.value.field) == ("out_of_range", "world_size")
    assert offload(plan, replace(POOL, world_size=near)).is_legal


@given(
    requested=st.integers(1, 10_000),
    memory=st.integers(1, 2**42),
    world=st.integers(1, 16),
)
def test_every_legal_request_is_legal_and_fits(requested, memory, world):
    plan = qwen(**CACHED)
    result = offload(plan, OffloadRequest(requested, memory, world))
    assert result.is_legal == (requested % 528 == 0)
    if result.is_legal:
        assert result.factor * 528 == requested
        assert result.cpu_blocks * result.bytes_per_cpu_block <= memory
        assert (result.cpu_blocks + 1) * result.bytes_per_cpu_block > memory
    for size in result.legal_block_sizes:
        assert offload(plan, OffloadRequest(size, memory, world)).is_legal


@given(hashes=st.integers(1, 2000))
def test_a_hash_block_is_accepted_exactly_when_it_divides(hashes):
    found = resolved_block_sizes(qwen(**CACHED), OffloadRequest(hash_block_size=hashes))
    assert isinstance(found, Problem) == (528 % hashes != 0)


def test_without_context_parallelism_the_sizes_are_the_plans():
    plan = qwen(**CACHED)
    assert resolved_block_sizes(plan, OffloadRequest()) == BlockSizes(
        plan.cache.scheduler_block_size, plan.cache.hash_block_size
    )


def test_a_shape_gives_the_wrong_number_of_blocks():
    counts = block_counts(7, 33)
    assert (counts.shape_kv_first, counts.shape_blocks_first, counts.configured) == (2, 231, 7)
    assert counts.shape_is_right == (False, False)
    assert block_counts(2, 1).shape_is_right == (True, True)


@pytest.mark.parametrize(("blocks", "ratio"), [(-1, 1), (1, 0)])
def test_impossible_counts(blocks, ratio):
    with pytest.raises(ValueError, match="blocks"):
        block_counts(blocks, ratio)


def test_padding_is_not_transferred():
    layers = layer_bytes(qwen(**CACHED))
    assert len(layers) == 32
    mamba = [layer for layer in layers if layer.name.endswith("mixer")]
    attention = [layer for layer in layers if layer.name.endswith("attn")]
    assert (len(mamba), len(attention)) == (24, 8)
    assert {layer.page_bytes for layer in layers} == {2_162_688}
    assert {layer.padding_bytes for layer in attention} == {0}
    assert {layer.data_bytes for layer in mamba} == {2_146_304}


def test_every_layer_of_a_group_with_several_specs_has_its_own_page():
    """TurboQuant leaves the ends of a dense model in bfloat16; a variant of NAS has other heads."""
    packed = wb.resolve(
        model="llama-3.1-8b", backend="TURBOQUANT", kv_cache_dtype="turboquant_k8v4", **CACHED
    )
    nas = wb.resolve(model=nemotron_nas(), **CACHED)
    for plan in (packed, nas):
        specs = {
            name: spec
            for group in plan.cache.groups
            for name, spec in zip(group.layers, group.layer_specs, strict=True)
        }
        layers = layer_bytes(plan)
        assert {layer.name: layer.page_bytes for layer in layers} == {
            name: spec.page_size_bytes for name, spec in specs.items()
        }
        assert len({layer.page_bytes for layer in layers}) > 1
    first, middle = layer_bytes(packed)[0], layer_bytes(packed)[5]
    block = packed.block_size
    assert first.page_bytes == first.data_bytes == 8 * block * 2 * 128 * 2
    assert middle.page_bytes < first.page_bytes


def test_prefill_tp4_does_not_fit_decode_tp1():
    result = transfer(nemotron(tensor_parallel=4), nemotron(tensor_parallel=1))
    assert (result.prefill.block_size, result.prefill.kernel_block_size) == (2112, 64)
    assert (result.decode.block_size, result.decode.kernel_block_size) == (4192, 32)
    sides = (result.prefill, result.decode)
    assert [side.kernel_blocks_per_block for side in sides] == [33, 131]
    assert result.common_block_size == lcm(2112, 4192) == 276_672
    assert result.kernel_ratio is None
    assert not result.is_legal
    assert result.verdict.startswith("heterogeneous: unequal blocks of 2,112")
    (problem,) = result.problems
    assert problem.code == "transfer_kernel_blocks"
    assert problem.vllm_text.startswith("Local block size 32 is not divisible by remote block size")
    for number in ("32", "64", "2,112", "4,192"):
        assert number in problem.message


def test_the_other_direction_divides_but_is_refused_too():
    result = transfer(nemotron(tensor_parallel=1), nemotron(tensor_parallel=4))
    assert result.kernel_ratio == 2
    assert [problem.code for problem in result.problems] == [
        "transfer_hybrid_ratio",
        "transfer_needs_hnd",
    ]


def test_equal_blocks_fit_although_the_ranks_differ():
    result = transfer(nemotron(tensor_parallel=1), nemotron(tensor_parallel=2))
    assert result.is_legal
    assert result.kernel_ratio == 1
    assert result.verdict.startswith("homogeneous: equal")


def test_prefix_caching_needs_equal_ratios():
    sides = [nemotron(tensor_parallel=n, enable_prefix_caching=True) for n in (4, 1)]
    result = transfer(*sides)
    assert result.kernel_ratio == 1
    assert [problem.code for problem in result.problems if problem.severity == "error"] == [
        "transfer_prefix_caching"
    ]
    assert str(result.prefill.kernel_blocks_per_block) in result.problems[0].message
    assert str(result.decode.kernel_blocks_per_block) in result.problems[0].message


def test_dtypes_must_agree():
    other = wb.resolve(model="nemotron-3-nano-30b-a3b", block_size=32)
    result = transfer(nemotron(), other)
    assert result.problems[0].code == "transfer_fingerprint"
    assert result.problems[0].operands == {"kv_cache_dtype": ("fp8", other.kv_cache_dtype)}


@pytest.mark.parametrize("tensor_parallel", [1, 2, 4])
def test_a_side_fits_itself(tensor_parallel):
    plan = nemotron(tensor_parallel=tensor_parallel)
    assert transfer(plan, plan).problems == ()


def test_a_side_without_kernel_block_is_refused():
    plan = wb.resolve(model="nemotron-3-nano-30b-a3b", block_size=15)
    with pytest.raises(ValueError, match="kernel block"):
        transfer(plan, plan)


@pytest.mark.parametrize(
    ("prefill", "decode", "rules", "code"),
    [
        ({"tensor_parallel": 16}, {"tensor_parallel": 4}, "0.33", "transfer_replicated_heads"),
        ({"tensor_parallel": 4}, {"tensor_parallel": 16}, "0.23", "transfer_heads_per_rank"),
        ({"tensor_parallel": 4}, {"tensor_parallel": 16}, "0.33", None),
        (
            {"tensor_parallel": 4, "block_size": 32},
            {"tensor_parallel": 2, "block_size": 64},
            "0.33",
            "transfer_ranks_and_blocks",
        ),
    ],
)
def test_ranks_and_heads_of_both_sides(prefill, decode, rules, code):
    """Llama 3.1 8B has eight KV heads."""
    sides = [
        wb.resolve(model="llama-3.1-8b", rules=rules, **fields) for fields in (prefill, decode)
    ]
    errors = [problem.code for problem in transfer(*sides).problems if problem.severity == "error"]
    assert errors == ([] if code is None else [code])


def test_states_that_no_check_compares():
    """Ranks repeat the one group of Bamba's states; and dtypes may differ unnoticed."""
    sides = [wb.resolve(model="bamba-9b", tensor_parallel=ranks) for ranks in (1, 2)]
    assert "transfer_states_differ" in {one.code for one in transfer(*sides).problems}
    dtypes = [
        wb.resolve(model="qwen3.5-4b", mamba_ssm_cache_dtype=dtype)
        for dtype in ("float32", "bfloat16")
    ]
    assert "transfer_states_differ" in {one.code for one in transfer(*dtypes).problems}
    assert transfer(dtypes[0], dtypes[0]).problems == ()


def test_kinds_of_states_that_are_not_cut_into_parts():
    for rules, code in (("0.23", "transfer_state_kind"), ("0.33", None)):
        plan = wb.resolve(model="jamba-1.5-mini", rules=rules)
        found = {one.code for one in transfer(plan, plan).problems}
        assert found == ({code} if code else set())
