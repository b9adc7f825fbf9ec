"""What a device leaves for the cache, and what follows from too little."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.models.configs import llama
from workbench.core.capacity.memory_budget import memory_budget
from workbench.core.what_if.answers import answers
from workbench.scenario.fields import Settings

GIB = 2**30
H100 = {"device_memory_bytes": 80 * GIB, "weights_bytes": 60 * GIB}


def plan_of(**values):
    return wb.resolve(model="nemotron-3-nano-30b-a3b", **values)


def test_states_of_an_estimate_may_be_too_few_where_a_request_fits_with_the_most_alone():
    plan = wb.resolve("qwen3.6-27b", device="H100")
    assert [(one.code, one.severity) for one in plan.problems] == [
        ("not_enough_memory", "warning"),
        ("max_num_seqs_above_blocks", "error"),
    ]
    assert plan.memory().starts == "no"


def codes(plan):
    return [problem.code for problem in plan.problems]


def test_the_budget_is_the_share_of_the_device_without_everything_else():
    plan = plan_of(
        **H100,
        gpu_memory_utilization=0.9,
        activation_bytes=5 * GIB,
        cuda_graph_bytes=GIB,
        max_model_len=4096,
        max_num_seqs=16,
    )
    available = math.ceil(80 * GIB * 0.9) - 66 * GIB
    assert plan.cache.available_bytes == available
    assert plan.trace.step("memory_budget").result == available
    assert plan.cache.num_blocks == available // plan.cache.grouping.bytes_per_block
    assert f"Available KV cache memory: {round(available / GIB, 2)} GiB" in plan.log_lines
    assert plan.problems == ()


def test_vllms_default_share_is_92_percent():
    assert plan_of(**H100).cache.available_bytes == math.ceil(80 * GIB * 0.92) - 60 * GIB


@pytest.mark.parametrize("explicit", [1, 80, 999_999])
def test_a_device_of_a_few_bytes_is_a_forgotten_unit(explicit):
    with pytest.raises(wb.ScenarioError, match=f"the unit is missing.*{explicit} GiB") as caught:
        wb.Scenario(device_memory_bytes=explicit)
    assert (caught.value.code, caught.value.field) == ("unit_missing", "device_memory_bytes")
    assert wb.Scenario(device_memory_bytes=10**6).device_memory_bytes == 10**6


def test_a_cache_above_its_device_is_a_warning():
    device = {"device_memory_bytes": "80 GiB", "weights_bytes": 0}
    assert codes(plan_of(**device, kv_cache_memory_bytes="80 GiB")) == []
    for too_much in (
        {"kv_cache_memory_bytes": 80 * GIB + 1},
        {"kv_cache_memory_bytes_by_rank": (70 * GIB, 80 * GIB + 1), "tensor_parallel": 2},
    ):
        plan = plan_of(**device, **too_much)
        [problem] = plan.problems
        assert (problem.code, problem.severity) == ("cache_above_device_memory", "warning")
        sizes = {"cache_bytes": 80 * GIB + 1, "device_memory_bytes": 80 * GIB, "weights_bytes": 0}
        assert problem.operands == sizes
        assert plan.remedies(problem)
        assert plan.memory().starts == "no"


def test_weights_take_their_part_of_the_device_next_to_an_explicit_cache():
    """vLLM loads them first, and never compares the size of the cache with what is left."""
    cache = {"kv_cache_memory_bytes": "20 GiB", "max_model_len": 32_768}
    plan = wb.resolve("qwen3-next-80b-a3b", device="L40S", **cache)
    assert codes(plan) == ["cache_above_device_memory"]
    assert plan.memory().starts == "no"
    assert "and the weights, 148.44 GiB" in answers(plan).blocker
    many = wb.resolve("qwen3-next-80b-a3b", device="H100", tensor_parallel=4, **cache)
    assert codes(many) == []
    assert many.memory().starts == "yes"


def test_too_few_explicit_blocks_are_answered_with_enough():
    plan = plan_of(num_gpu_blocks_override=1, max_model_len=65536)
    problem = next(found for found in plan.errors if found.code == "not_enough_memory")
    enough = plan.cache.blocks_per_request + 1
    tried = [dict(remedy.changes) for remedy in plan.remedies(problem)]
    assert {"num_gpu_blocks_override": enough} in tried


@pytest.mark.parametrize(
    ("blocks", "said"),
    [(18, "1,024 is more than the 18 blocks"), (300, "1,024 from 70 GiB, 256 on others")],
)
def test_the_defaults_of_max_num_seqs_are_a_separate_sentence(blocks, said):
    plan = plan_of(num_gpu_blocks_override=blocks, max_model_len=64)
    assert said in next(p for p in plan.problems if p.code == "max_num_seqs_above_blocks").message


def test_one_token_is_singular():
    plan = plan_of(num_gpu_blocks_override=1, max_model_len=1)
    assert "One request of 1 token needs" in plan.errors[0].message


def test_explicit_bytes_replace_the_budget_and_an_override_replaces_both():
    explicit = plan_of(**H100, kv_cache_memory_bytes=4 * GIB)
    assert explicit.cache.available_bytes == 4 * GIB
    assert "memory_budget" not in [step.rule.name for step in explicit.steps]
    assert plan_of(**H100, kv_cache_memory_bytes=4 * GIB, num_gpu_blocks_override=7).cache == (
        plan_of(num_gpu_blocks_override=7).cache
    )


def test_half_a_budget_gives_no_pool_and_says_what_is_missing():
    for given_field, missing in (
        ({"device_memory_bytes": 80 * GIB}, "weights_bytes"),
        ({"weights_bytes": 60 * GIB}, "device_memory_bytes"),
    ):
        plan = plan_of(**given_field)
        assert plan.cache.num_blocks is None
        [problem] = plan.problems
        assert problem.code == "memory_budget_incomplete"
        assert problem.field == missing
        assert missing in problem.message


def test_weights_above_the_share_leave_nothing_and_the_remedy_is_a_higher_share():
    small = {"max_model_len": 4096, "max_num_seqs": 1}
    plan = plan_of(**H100, gpu_memory_utilization=0.7, **small)
    problem = next(found for found in plan.problems if found.code == "no_memory_for_blocks")
    assert problem.operands["available_bytes"] < 0
    [remedy] = [found for found in plan.remedies(problem) if "gpu_memory" in str(found.changes)]
    share = remedy.changes["gpu_memory_utilization"]
    assert plan_of(**{**H100, "gpu_memory_utilization": share}, **small).errors == ()
    below = {**H100, "gpu_memory_utilization": round(share - 0.01, 2)}
    assert plan_of(**below, max_model_len=4096).errors


def test_no_share_is_offered_that_does_not_exist():
    plan = plan_of(device_memory_bytes=24 * GIB, weights_bytes=60 * GIB)
    problem = next(found for found in plan.problems if found.code == "no_memory_for_blocks")
    assert all("gpu_memory_utilization" not in found.changes for found in plan.remedies(problem))


@given(
    device=st.integers(1, 2**40),
    share=st.floats(0.001, 1),
    parts=st.tuples(*[st.integers(0, 2**38)] * 3),
    wanted=st.integers(1, 2**38),
)
def test_the_offered_share_is_the_smallest_hundredth_that_is_enough(device, share, parts, wanted):
    budget = memory_budget(Settings("cuda", device_memory_bytes=device, **_parts(share, parts)))
    assert budget.available_bytes + sum(parts) == budget.requested_bytes
    assert budget.requested_bytes >= device * share > budget.requested_bytes - 1
    offered = budget.utilization_for(wanted)
    if offered is None:
        assert device < wanted + sum(parts)
        return
    enough = memory_budget(Settings("cuda", device_memory_bytes=device, **_parts(offered, parts)))
    assert enough.available_bytes >= wanted - 1  # a hundredth is not an exact binary number
    less = round(offered - 0.01, 2)
    if less > 0:
        short = memory_budget(Settings("cuda", device_memory_bytes=device, **_parts(less, parts)))
        assert short.available_bytes <= wanted


def _parts(share, parts):
    names = ("weights_bytes", "activation_bytes", "cuda_graph_bytes")
    return {"gpu_memory_utilization": share, **dict(zip(names, parts, strict=True))}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("device_memory_bytes", 0, "Nearest valid value: 1"),
        ("device_memory_bytes", -5, "Nearest valid value: 1"),
        ("device_memory_bytes", 2**60, f"Nearest valid value: {2**50}"),
        ("device_memory_bytes", "80", "the unit is missing"),
        ("device_memory_bytes", "eighty", "20 GiB"),
        ("device_memory_bytes", True, "an integer"),
        ("weights_bytes", -1, "Nearest valid value: 0"),
        ("weights_bytes", 1.5, "an integer"),
        ("activation_bytes", -1, "Nearest valid value: 0"),
        ("cuda_graph_bytes", "1 furlong", "20 GiB"),
        ("gpu_memory_utilization", 0, "above 0 and at most 1"),
        ("gpu_memory_utilization", 92, "92 % is 0.92"),
        ("gpu_memory_utilization", float("nan"), "above 0 and at most 1"),
        ("gpu_memory_utilization", float("inf"), "Nearest valid value: 1"),
        ("gpu_memory_utilization", "0.9", "a number"),
        ("max_num_seqs", 0, "Nearest valid value: 1"),
        ("kv_cache_memory_bytes", -1, "Nearest valid value: 0"),
    ],
)
def test_a_size_that_cannot_be_is_refused_with_its_nearest_value(field, value, said):
    with pytest.raises(wb.ScenarioError) as caught:
        wb.Scenario(**{field: value})
    assert caught.value.field == field
    assert said in caught.value.message


def test_gb_and_gib_are_different_sizes():
    decimal = plan_of(device_memory_bytes="80 GB", weights_bytes="60 GB")
    binary = plan_of(device_memory_bytes="80 GiB", weights_bytes="60 GiB")
    assert decimal.settings.device_memory_bytes == 80 * 10**9
    assert binary.settings.device_memory_bytes == 80 * 2**30
    assert decimal.cache.num_blocks < binary.cache.num_blocks


def test_a_budget_below_one_page_says_so():
    plan = plan_of(device_memory_bytes=GIB, weights_bytes=int(0.92 * GIB) - 1000)
    problem = next(found for found in plan.problems if found.code == "not_enough_memory")
    assert plan.cache.num_blocks == 0
    assert "Not even one token fits" in problem.message


def test_more_sequences_than_blocks_only_matter_with_full_graphs():
    small = {"kv_cache_memory_bytes": 4 * GIB, "max_num_seqs": 1024, "max_model_len": 4096}
    assert codes(plan_of(**small)) == ["max_num_seqs_above_blocks"]
    assert "max_num_seqs_above_blocks" not in codes(plan_of(**small, platform="cpu"))
    for without in ({"enforce_eager": True}, {"cudagraph_mode": "PIECEWISE"}):
        assert codes(plan_of(**small, **without)) == []
    assert codes(plan_of(**small, cudagraph_mode="FULL_DECODE_ONLY")) == [
        "max_num_seqs_above_blocks"
    ]
    lightning = wb.Scenario(model="minimax-text-01", **{**small, "max_num_seqs": 2048})
    assert "max_num_seqs_above_blocks" in codes(wb.resolve(lightning))
    drafts = lightning.replace(num_speculative_tokens=2)
    assert "max_num_seqs_above_blocks" not in codes(wb.resolve(drafts))


def test_an_untyped_number_of_sequences_is_a_warning():
    [problem] = plan_of(kv_cache_memory_bytes=4 * GIB, max_model_len=4096).problems
    assert problem.code == "max_num_seqs_above_blocks"
    assert problem.severity == "warning"
    assert plan_of(kv_cache_memory_bytes=40 * GIB, max_model_len=4096).problems == ()


def test_a_length_is_not_fitted_where_no_layer_is_built():
    settings = {"kv_cache_memory_bytes": 2**26, "max_model_len": -1, "rules": "0.33"}
    fitted = wb.resolve(model=llama(), **settings)
    refused = wb.resolve(model=llama(), backend="TRITON_FLASHINFER", **settings)
    assert fitted.max_model_len < refused.max_model_len == 262144


def test_one_size_is_of_every_rank_and_the_last_of_two_is_repeated():
    ranks = {"model": "qwen3-8b", "tensor_parallel": 4}
    assert wb.resolve(**ranks, kv_cache_memory_bytes_by_rank=[16 * GIB]).problems == ()
    plan = wb.resolve(**ranks, kv_cache_memory_bytes_by_rank=[16 * GIB, 32 * GIB])
    [problem] = plan.problems
    expected = (16 * GIB, *3 * [32 * GIB])
    assert plan.remedies(problem)[0].changes == {"kv_cache_memory_bytes_by_rank": expected}


def test_states_may_be_too_few_where_the_most_of_an_estimate_alone_holds_a_request():
    plan = wb.resolve("qwen3.6-27b", device="H100")
    assert [(one.code, one.severity) for one in plan.problems] == [
        ("not_enough_memory", "warning"),
        ("max_num_seqs_above_blocks", "error"),
    ]
    assert plan.memory().starts == "no"
