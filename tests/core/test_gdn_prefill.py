"""Whether FlashInfer runs the prefill of gated delta nets, unset, requested and switched off."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.models.configs import olmo_hybrid, qwen3_next
from workbench.core.capacity.blocks import checkpoint_blocks
from workbench.core.prefix.hits import caching_of

ASSUMED, FALLS_BACK = "cuda_version_assumed", "gdn_prefill_falls_back"


def plan_of(model="qwen3.5-4b", **fields):
    return wb.resolve(model=model, rules="0.33", **fields)


def runs_flashinfer(plan):
    """Return whether all effects of the kernel exist: granularity, a block more, kept states."""
    [step] = [step for step in plan.steps if step.rule.name == "alignment_granule"]
    found = "prefill_checkpoint_tokens" in step.operands
    assert found == caching_of(plan).keeps_inside == (checkpoint_blocks(plan) == 1)
    return found


def codes(plan):
    return {problem.code for problem in plan.problems} & {ASSUMED, FALLS_BACK}


@pytest.mark.parametrize("capability", ["9.0", None])
def test_vllm_takes_it_on_hopper_by_itself(capability):
    plan = plan_of(compute_capability=capability)
    assert (plan.block_size, f"{plan.padding_percent:.2f}") == (576, "9.92")
    assert not codes(plan)


def test_switched_off_the_block_is_as_small_as_the_pages_allow():
    plan = plan_of(gdn_flashinfer_prefill=False)
    assert (plan.block_size, f"{plan.padding_percent:.2f}") == (528, "0.76")


@pytest.mark.parametrize(
    ("fields", "unset", "requested"),
    [
        ({"compute_capability": "8.0"}, False, False),
        ({"compute_capability": "8.6"}, False, False),
        ({"compute_capability": "8.9"}, False, False),
        ({"compute_capability": "9.0"}, True, True),
        ({"compute_capability": "10.0"}, True, True),
        ({"compute_capability": "10.3"}, True, True),
        ({"compute_capability": "11.0"}, False, False),
        ({"compute_capability": "12.0"}, True, True),
        ({"compute_capability": "12.1"}, True, True),
        ({"platform": "rocm"}, False, False),
        ({"platform": "xpu"}, False, False),
        ({"platform": "cpu"}, False, False),
        ({"model": qwen3_next(linear_key_head_dim=64)}, True, True),
        ({"model": qwen3_next(linear_key_head_dim=64), "compute_capability": "10.0"}, False, False),
        ({"model": qwen3_next(linear_key_head_dim=64), "compute_capability": "12.0"}, False, False),
    ],
)
def test_the_device_and_the_key_heads_decide(fields, unset, requested):
    assert runs_flashinfer(plan_of(**fields)) == unset
    plan = plan_of(**fields, gdn_flashinfer_prefill=True)
    assert runs_flashinfer(plan) == requested
    assert codes(plan) == (set() if requested else {FALLS_BACK})


@pytest.mark.parametrize("capability", ["10.0", "12.0"])
def test_where_cuda_decides_the_assumption_is_a_warning_with_both_answers(capability):
    plan = plan_of(compute_capability=capability)
    [problem] = [problem for problem in plan.problems if problem.code == ASSUMED]
    assert problem.severity == "warning"
    assert "CUDA 13" in problem.message
    changes = [dict(remedy.changes) for remedy in plan.remedies(problem)]
    assert {"gdn_flashinfer_prefill": True} in changes
    assert {"gdn_flashinfer_prefill": False} in changes
    for answer in (True, False):
        said = plan_of(compute_capability=capability, gdn_flashinfer_prefill=answer)
        assert not codes(said)


def test_the_trace_has_the_answer_and_what_decided():
    for fields, result in (
        ({}, True),
        ({"compute_capability": "8.9"}, False),
        ({"gdn_flashinfer_prefill": False}, False),
    ):
        [step] = [s for s in plan_of(**fields).steps if s.rule.name == "gdn_prefill"]
        assert step.result is result
        assert step.operands["key_head_dim"] == 128


@pytest.mark.parametrize("fields", [{}, {"gdn_flashinfer_prefill": True}])
def test_olmo_hybrid_always_runs_its_own_kernel(fields):
    config = olmo_hybrid()
    plan, plain = plan_of(config, **fields), plan_of(config, gdn_flashinfer_prefill=False)
    assert plan.block_size == plain.block_size
    assert plan.cache.blocks_per_request == plain.cache.blocks_per_request
    assert not caching_of(plan).keeps_inside
    assert not codes(plan)


@pytest.mark.parametrize("prefill", [None, True, False])
def test_without_align_mode_and_before_0_33_nothing_depends_on_it(prefill):
    for fields in (
        {"rules": "0.33", "enable_prefix_caching": False},
        {"rules": "0.23", "enable_prefix_caching": True},
        {"rules": "before-37467", "enable_prefix_caching": True},
    ):
        scenario = wb.Scenario(model="qwen3.5-4b", compute_capability="10.0", **fields)
        plan = wb.resolve(scenario.replace(gdn_flashinfer_prefill=prefill))
        plain = wb.resolve(scenario.replace(gdn_flashinfer_prefill=False))
        assert plan.block_size == plain.block_size
        assert plan.cache.blocks_per_request == plain.cache.blocks_per_request
        assert not codes(plan)


def test_models_without_gated_delta_nets_do_not_mention_it():
    for model in ("kimi-linear-48b-a3b", "nemotron-3-nano-30b-a3b", "llama-3.1-8b"):
        plan = plan_of(model, gdn_flashinfer_prefill=True, compute_capability="10.0")
        assert not codes(plan)
        assert "gdn_prefill" not in {step.rule.name for step in plan.steps}
