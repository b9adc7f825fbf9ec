"""The values that are tried or offered in place of a scenario's own."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench.core.errors import Refused
from workbench.core.prefix.hits import caching_of
from workbench.core.prefix.workload import Workload, workload_hits
from workbench.core.what_if.choices import LegalValues, tensor_parallel_sizes
from workbench.core.what_if.sensitivity import tried_changes
from workbench.core.what_if.workload_steps import workload_steps
from workbench.models import load_model


def plan_of(model="qwen3.5-4b", **fields):
    return wb.resolve(model=model, max_model_len=32768, **fields)


@pytest.mark.parametrize("shared", [1500, 4000])
def test_a_step_reuses_more_than_the_plan_and_no_two_reuse_the_same(shared):
    plan, workload = plan_of(enable_prefix_caching=True), Workload(64, shared, 700)
    steps = workload_steps(plan, workload)
    assert steps
    reused = [step.cached_tokens for step in steps]
    present = sum(workload_hits(caching_of(plan), workload).cached_tokens)
    assert min(reused) > present
    assert reused == sorted(set(reused), reverse=True)


def test_a_step_that_ends_inside_what_is_shared_is_tried():
    plan = wb.resolve(
        model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4, enable_prefix_caching=True
    )
    workload = Workload(64, 816, 600, 8)
    assert workload_hits(caching_of(plan), workload).hits == 0
    best = workload_steps(plan, workload)[0]
    assert (best.changes, best.hits.hits) == ({"max_num_batched_tokens": 816}, 56)


def test_the_heads_decide_which_ranks_there_are():
    qwen = load_model("qwen3-14b")
    assert tensor_parallel_sizes(qwen, 16) == (1, 2, 4, 5, 8, 10)  # 40 heads
    assert [tensor_parallel_sizes(qwen, most)[-1] for most in (9, 10, 11)] == [8, 10, 10]
    assert tensor_parallel_sizes(qwen) == (1, 2, 4, 5, 8, 10, 20, 40)
    assert tensor_parallel_sizes(load_model("mamba-2.8b")) == (1, 2, 4, 8, 16, 32, 64)
    assert tensor_parallel_sizes(load_model("mamba-2.8b"), 6) == (1, 2, 4)


@pytest.mark.parametrize(("ranks", "nearest"), [(3, 4), (9, 10), (7, 8), (11, 10), (1000, 40)])
def test_of_two_ranks_as_near_the_larger_is_the_nearest(ranks, nearest):
    with pytest.raises(Refused, match=f"Nearest valid value: {nearest};") as caught:
        plan_of("qwen3-14b", tensor_parallel=ranks)
    offered = [one["tensor_parallel"] for one in caught.value.candidates]
    assert offered[0] == nearest
    assert sorted(offered) == [1, 2, 4, 5, 8, 10, 20, 40]


def test_sensitivity_tries_the_ranks_of_one_machine():
    tried = [value for field, value in tried_changes(plan_of()) if field == "tensor_parallel"]
    assert tried == [2, 4, 8]  # 1 is its own


def test_sensitivity_tries_prefix_caching_where_states_are_cached_and_its_modes_with_it():
    caching = {"enable_prefix_caching", "mamba_cache_mode"}
    plans = [plan_of(), plan_of(enable_prefix_caching=True), plan_of("llama-3.1-8b")]
    found = [caching & {field for field, _ in tried_changes(plan)} for plan in plans]
    assert found == [{"enable_prefix_caching"}, caching, set()]


def test_sensitivity_tries_block_sizes_that_a_backend_takes():
    plan = plan_of("llama-3.1-8b", device="H100")
    tried = [value for field, value in tried_changes(plan) if field == "block_size"]
    legal = LegalValues(plan.model).of(plan.settings, "block_size", tried)
    assert list(legal) == tried
    assert len(set(tried)) == len(tried) > 3


def test_what_is_offered_for_a_block_above_the_budget_removes_the_error():
    code = "block_exceeds_token_budget"
    fields = {"enable_prefix_caching": True, "mamba_cache_mode": "align"}
    plan = plan_of(**fields, max_num_batched_tokens=512)
    [problem] = [one for one in plan.errors if one.code == code]
    worked = []
    for changes in problem.candidates:
        try:
            other = plan_of(**{**fields, "max_num_batched_tokens": 512, **changes})
        except Refused:
            continue  # this model has no such mode
        if code not in {one.code for one in other.errors}:
            worked.append(changes)
    assert problem.candidates[0] in worked
    assert problem.candidates[-1] in worked
    assert not plan_of(**{**fields, **problem.candidates[-1]}).enable_prefix_caching
