"""The token budget and the number of sequences that vLLM takes by itself, by device."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from workbench.core.flex.plan import flex_plan, mask_memory
from workbench.core.prefix.hits import caching_of
from workbench.core.what_if.differences import compare
from workbench.models import load_model

GIB = 2**30
BUDGET, BLOCKS, SEQUENCES = (
    "block_exceeds_token_budget",
    "max_num_seqs_above_blocks",
    "max_num_seqs_above_budget",
)
NANO = {"model": "nemotron-3-nano-30b-a3b", "enable_prefix_caching": True}
"""Blocks of 2,096 tokens, more than the smallest default budget."""
ALIGN = {**NANO, "mamba_cache_mode": "align"}


def plan_of(rules="0.33", model="llama-3.1-8b", **fields):
    return wb.resolve(model=model, rules=rules, **fields)


def sizes(plan):
    return plan.max_num_batched_tokens, plan.max_num_seqs


def problem_of(plan, code):
    return next((problem for problem in plan.problems if problem.code == code), None)


@pytest.mark.parametrize(
    ("memory", "capability", "in_0_23", "in_0_33"),
    [
        (None, "9.0", (2048, 256), (2048, 256)),
        (24 * GIB, "8.6", (2048, 256), (2048, 256)),
        (70 * GIB - 1, "9.0", (2048, 256), (2048, 256)),
        (70 * GIB, "9.0", (8192, 1024), (8192, 1024)),
        (80 * GIB, "8.0", (2048, 256), (2048, 256)),
        (95 * GIB, "12.0", (8192, 1024), (8192, 1024)),
        (119 * GIB, "12.1", (8192, 1024), (2048, 256)),
        (160 * GIB - 1, "9.0", (8192, 1024), (8192, 1024)),
        (160 * GIB, "10.0", (8192, 1024), (16384, 1024)),
        (160 * GIB, "8.0", (2048, 256), (16384, 1024)),
    ],
)
def test_the_defaults_follow_the_memory_of_the_device(memory, capability, in_0_23, in_0_33):
    fields = {"device_memory_bytes": memory, "compute_capability": capability}
    assert sizes(plan_of("before-37467", **fields)) == in_0_23
    assert sizes(plan_of("0.23", **fields)) == in_0_23
    assert sizes(plan_of("0.33", **fields)) == in_0_33


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
@pytest.mark.parametrize("platform", ["rocm", "xpu"])
def test_other_accelerators_have_the_same_table_without_exceptions(rules, platform):
    for memory, expected in (
        (None, (2048, 256)),
        (64 * GIB, (2048, 256)),
        (80 * GIB, (8192, 1024)),
    ):
        assert sizes(plan_of(rules, platform=platform, device_memory_bytes=memory)) == expected


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
@pytest.mark.parametrize("memory", [None, 512 * GIB])
def test_a_cpu_has_its_own_for_every_rank(rules, memory):
    for ranks in (1, 2, 4):
        plan = plan_of(rules, platform="cpu", tensor_parallel=ranks, device_memory_bytes=memory)
        assert sizes(plan) == (2048 * ranks, 128 * ranks)


@given(
    st.sampled_from(["0.23", "0.33"]),
    st.sampled_from([None, 24 * GIB, 80 * GIB, 192 * GIB]),
    st.none() | st.integers(1, 5000),
    st.none() | st.integers(1, 20_000),
    st.none() | st.integers(1, 5000),
)
def test_a_default_is_never_more_than_what_the_other_allows(rules, memory, seqs, tokens, length):
    plan = plan_of(
        rules,
        device_memory_bytes=memory,
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        max_model_len=length,
    )
    plain = sizes(plan_of(rules, device_memory_bytes=memory))
    sequences = seqs or plain[1]
    budget = tokens or min(plain[0], sequences * plan.max_model_len)
    assert sizes(plan) == (budget, seqs or min(sequences, budget))
    assert (problem_of(plan, SEQUENCES) is not None) == (plan.max_num_seqs > budget)


def test_a_known_device_refuses_a_block_above_its_default_and_an_unknown_one_warns():
    for memory in (24 * GIB, 69 * GIB):
        assert problem_of(
            plan_of("0.23", **ALIGN, device_memory_bytes=memory), BUDGET
        ).severity == ("error")
    assert problem_of(plan_of("0.23", **ALIGN, device_memory_bytes=80 * GIB), BUDGET) is None
    problem = problem_of(plan_of("0.23", **ALIGN), BUDGET)
    assert problem.severity == "warning"
    for words in ("2,048", "8,192 from 70 GiB", "device_memory_bytes", "max_num_batched_tokens"):
        assert words in problem.message


@pytest.mark.parametrize("memory", [None, 24 * GIB, 80 * GIB])
def test_an_explicit_budget_below_the_block_is_an_error_on_every_device(memory):
    fields = {**ALIGN, "device_memory_bytes": memory, "max_num_batched_tokens": 2048}
    assert problem_of(plan_of("0.23", **fields), BUDGET).severity == "error"


def test_what_every_device_would_refuse_is_an_error_without_a_device():
    plan = plan_of("0.23", **ALIGN, max_num_seqs=1, max_model_len=1500)
    assert plan.max_num_batched_tokens == 1500
    assert problem_of(plan, BUDGET).severity == "error"


def test_a_cpu_knows_its_default_without_a_memory():
    fields = {**ALIGN, "platform": "cpu"}
    one, four = (plan_of("0.23", **fields, tensor_parallel=ranks) for ranks in (1, 4))
    assert problem_of(one, BUDGET).severity == "error"
    assert problem_of(four, BUDGET) is None


@pytest.mark.parametrize(
    ("fields", "severity", "compared"),
    [
        ({}, "warning", 1024),
        ({"device_memory_bytes": 80 * GIB}, "error", 1024),
        ({"device_memory_bytes": 24 * GIB}, None, 256),
        ({"device_memory_bytes": 80 * GIB, "compute_capability": "8.0"}, None, 256),
        ({"max_num_seqs": 700}, "error", 700),
        ({"max_num_batched_tokens": 500}, None, 500),
    ],
)
def test_sequences_above_the_pool_by_what_is_known_of_the_device(fields, severity, compared):
    plan = plan_of("0.23", model="qwen3.5-4b", num_gpu_blocks_override=600, **fields)
    problem = problem_of(plan, BLOCKS)
    assert (problem and problem.severity) == severity
    if problem:
        assert problem.operands["max_num_seqs"] == compared


def test_more_sequences_than_the_default_budget():
    unknown = problem_of(plan_of(max_num_seqs=4096), SEQUENCES)
    assert unknown.severity == "warning"
    assert "8,192 from 70 GiB" in unknown.message
    assert problem_of(plan_of(max_num_seqs=4096, device_memory_bytes=24 * GIB), SEQUENCES).severity
    assert problem_of(plan_of(max_num_seqs=4096, device_memory_bytes=80 * GIB), SEQUENCES) is None


def test_what_a_default_rests_on_is_in_the_trace():
    def note(name, **fields):
        return plan_of(**fields).trace.step(name).note

    for name in ("max_num_batched_tokens", "max_num_seqs"):
        assert "not given" in note(name)
        assert "A100" in note(name, compute_capability="8.0", device_memory_bytes=80 * GIB)
        assert note(name, device_memory_bytes=80 * GIB) == ""
        assert note(name, compute_capability="8.0", device_memory_bytes=40 * GIB) == ""
        assert note(name, **{name: 300}, platform="cuda") == ""


def test_what_follows_from_the_budget_follows_the_device():
    small, large = (
        plan_of(model="gemma-3-27b", device_memory_bytes=size * GIB, max_model_len=65536)
        for size in (24, 80)
    )
    assert caching_of(small).budget_tokens == 2048
    assert caching_of(large).budget_tokens == 8192
    assert large.cache.blocks_per_request > small.cache.blocks_per_request  # windows in flight
    flexes = [
        plan_of(backend="FLEX_ATTENTION", device_memory_bytes=size * GIB) for size in (24, 80)
    ]
    tables = [mask_memory(p, flex_plan(p), 1000).inverse_table_bytes for p in flexes]
    assert tables == [8 * 256 * 1000, 8 * 1024 * 1000]


def test_mla_on_a_cpu_without_amx_takes_whole_prompts():
    plan = plan_of(
        model="deepseek-v3", platform="cpu", backend="CPU_MLA", max_num_batched_tokens=4096
    )
    assert plan.max_num_batched_tokens == plan.max_model_len > 4096
    assert plan_of(model="deepseek-v3", platform="cpu").max_num_batched_tokens == 2048


def test_an_upgrade_names_the_larger_budget_of_a_large_device():
    settings = wb.Scenario(model="llama-3.1-8b", device_memory_bytes=192 * GIB)
    found = compare(load_model("llama-3.1-8b"), settings, "0.23", "0.33").differences
    budget = next(one for one in found if one.fact.name == "max_num_batched_tokens")
    assert (budget.old, budget.new) == (8192, 16384)
    assert "16,384 tokens instead of 8,192" in budget.means
    assert budget.after.rule.name == "max_num_batched_tokens"
