"""What holds for every scenario: the invariants of the alignment, remedies, and the trace."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from math import lcm
from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from tests.core.strategies import HYBRID, scenarios
from tests.models.configs import bamba, kimi_linear, lfm2, llama, mamba, qwen3_next
from workbench.core.arithmetic import cdiv
from workbench.core.block_sizes import accepts_kernel_block, smallest_base
from workbench.core.errors import Refused
from workbench.core.groups.built_layers import unquantized_layers
from workbench.core.resolve import resolve as core_resolve
from workbench.core.stages import (
    adapters,
    after_alignment,
    aiter_heads,
    attention_bytes,
    backend_choice,
    batch_sizes,
    block_size,
    built_backends,
    cache_mode,
    context_parallel,
    draft_backend,
    flex,
    float_caches,
    gdn_prefill,
    grouping,
    hybrid_alignment,
    layer_backends,
    layer_checks,
    memory,
    model_dtype,
    pages,
    pipeline,
    pipeline_checks,
    prefix_hits,
    quantization,
    refusals,
    speculation,
    state_pages,
)
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.outcomes import outcome_of
from workbench.core.what_if.sensitivity import sizes_of, tried_changes
from workbench.core.working_plan import WorkingPlan
from workbench.models import load_model
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.resolution import remedies_of_refusal, resolve


def plan_or_skip(scenario):
    try:
        return resolve(scenario)
    except Refused as refusal:
        event(f"refused: {refusal.code}")
        assume(False)
        raise


def rules_of(plan):
    return {step.rule.name for step in plan.trace}


def aligned_plan(scenario):
    """The plan of a scenario whose alignment ran."""
    plan = plan_or_skip(scenario)
    assume("alignment_granule" in rules_of(plan))
    event(f"mode {plan.mamba_cache_mode}")
    return plan


def was_rounded_by_xpu(plan):
    return "xpu_gdn_block_size" in rules_of(plan)


def keeps_no_padding_on_xpu(plan):
    """The quirk of 0.23: pages were equal, XPU enlarges the block and records no padding."""
    return was_rounded_by_xpu(plan) and plan.mamba_page_size_padded is None


def granularity(plan):
    """A, or in mode "all" the least common multiple of A and the chunk."""
    step = plan.trace.step("aligned_block_size")
    return step.operands["c"] if plan.mamba_cache_mode == "all" else step.operands["A"]


def rounding(plan):
    """What 0.33 rounds the aligned block up to; 1 before."""
    return plan.trace.step("aligned_block_size").operands.get("every_backend", 1)


hybrids = scenarios(families=HYBRID)
any_scenario = scenarios(memory=True)


@given(hybrids)
def test_i1_the_attention_page_covers_the_mamba_page_and_padding_makes_them_equal(scenario):
    plan = aligned_plan(scenario)
    probed = plan.block_size * plan.attention_bytes_per_token
    assert probed >= plan.mamba_page_size_bytes
    if plan.skip_page_size_padded is not None:
        assert plan.mamba_page_size_padded in {None, plan.skip_page_size_padded}
        return  # phase 3: the page of another dtype has to fit
    if (plan.layer_state_bytes or 0) > probed:
        # With drafts the layer has a larger state than the alignment counted.
        assert plan.errors
        return
    if keeps_no_padding_on_xpu(plan):
        assert plan.final_mamba_page_size_bytes < probed
    else:
        assert plan.final_mamba_page_size_bytes == probed
        assert (plan.mamba_page_size_padded is None) == (probed == plan.mamba_page_size_bytes)
    codes = {problem.code for problem in plan.problems}
    attention, mamba = plan.attention_page_size_bytes, plan.final_mamba_page_size_bytes
    scales = attention < mamba and mamba % attention == 0
    pads = RULE_SETS[scenario.rules].groups.pads_pages
    if unquantized_layers(plan) or scenario.hidden_state_layers:
        return  # these pages, too, have to fit
    assert ("pages_not_equal" in codes) == (attention != mamba and not scales and not pads)


@given(any_scenario)
def test_i2_the_kernel_block_divides_the_block_and_is_supported(scenario):
    plan = plan_or_skip(scenario)
    assume(plan.backend is not None)
    supported, size = plan.supported_kernel_block_sizes, plan.kernel_block_size
    # Where no layer has the chosen backend, those of the layers decide.
    of_layers = [sizes for _variant, _name, sizes in plan.layer_backends]
    event(f"split {plan.kernel_blocks_per_block and plan.kernel_blocks_per_block > 1}")
    possible = [
        other
        for other in range(1, plan.block_size + 1)
        if plan.block_size % other == 0
        and any(accepts_kernel_block(sizes, other) for sizes in (supported, *of_layers))
    ]
    attention = plan.model.attention
    if size is None and attention is not None and attention.indexer is not None:
        # The indexer's own kernels decide as well.
        assert "no_common_block_size" in {problem.code for problem in plan.errors}
    elif size is None:
        exact = [other for other in possible if other in supported]
        if plan.draft_backend in {None, plan.backend}:  # else its layers decide as well
            assert not exact
            assert plan.block_size not in possible
        assert "no_common_block_size" in {problem.code for problem in plan.errors}
    else:
        assert size in possible
        assert size * plan.kernel_blocks_per_block == plan.block_size


@given(hybrids)
def test_i3_no_smaller_multiple_of_the_granularity_would_do(scenario):
    plan = aligned_plan(scenario)
    shown = plan.trace.step("alignment_granule").operands
    start, mla = shown["block_size"], shown.get("mla_granule", 1)
    smallest_step = lcm(
        max(start, smallest_base(plan.supported_kernel_block_sizes), mla),
        shown.get("prefill_checkpoint_tokens", 1),
    )
    assert plan.trace.step("alignment_granule").result == smallest_step
    unit, every = granularity(plan), rounding(plan)
    aligned = plan.trace.step("aligned_block_size").result
    assert unit % smallest_step == 0
    assert aligned % every == 0
    before_every = next(n for n in range(aligned, aligned - every, -1) if n % unit == 0)
    tok = plan.attention_bytes_per_token
    assert before_every * tok >= plan.mamba_page_size_bytes > (before_every - unit) * tok
    raised = [s.result for s in plan.steps if s.rule.name == "shared_page_block_size"]
    before_rounding = max(start, aligned, *raised)
    if was_rounded_by_xpu(plan):
        assert plan.block_size == 64 * cdiv(before_rounding, 64)
    else:
        assert plan.block_size == before_rounding


@given(hybrids, st.integers(1, 4), st.integers(1, 2))
def test_i4_a_larger_mamba_page_never_gives_a_smaller_block(scenario, drafts, wider):
    smaller = aligned_plan(scenario)
    # A wider state of the same model: only the mamba page changes.
    state = smaller.model.state
    fields = {
        "conv_kernel": getattr(state, "conv_kernel", 0) + drafts,
        "state_size": getattr(state, "state_size", 0) * wider,
        "value_head_dim": getattr(state, "value_head_dim", 0) * wider,
    }
    has = {name: value for name, value in fields.items() if hasattr(state, name)}
    wide = replace(smaller.model, state=replace(state, **has))
    larger = run_stages(wide, scenario, RULE_SETS[scenario.rules].stages)
    assert larger.mamba_page_size_bytes >= smaller.mamba_page_size_bytes
    assert larger.attention_bytes_per_token == smaller.attention_bytes_per_token
    assert larger.block_size >= smaller.block_size


@given(any_scenario)
def test_i5_typing_the_chosen_block_size_changes_nothing(scenario):
    """The granularity becomes the block itself, which covers the mamba page exactly once.

    Two exceptions, alongside the block size: a first explicit size may have ruled out backends that
    take the aligned one, and XPU's missing padding is recorded now, because the pages differ
    already when the padding is computed. Phase 3 of 0.33 takes the padded page of phase 2 for its
    goal, so with it every explicit size starts a larger one.
    """
    plan = plan_or_skip(scenario)
    assume("shared_page_block_size" not in rules_of(plan))
    again = resolve(scenario.replace(block_size=plan.block_size))
    assert again.block_size == plan.block_size
    if scenario.block_size is None:
        assert again.backend == plan.backend
        assert again.kernel_block_size == plan.kernel_block_size
    if "alignment_granule" in rules_of(plan):
        assert again.mamba_block_size == plan.mamba_block_size
    if keeps_no_padding_on_xpu(plan):
        assert again.mamba_page_size_padded == plan.block_size * plan.attention_bytes_per_token
    else:
        assert again.mamba_page_size_padded == plan.mamba_page_size_padded


@given(hybrids)
def test_i6_padding_is_less_than_one_step(scenario):
    plan = aligned_plan(scenario)
    assume("shared_page_block_size" not in rules_of(plan))  # layers of two dtypes share a page
    spare_tokens = granularity(plan) + (64 if was_rounded_by_xpu(plan) else 0) + rounding(plan) - 1
    assert 0 <= plan.padding_bytes < spare_tokens * plan.attention_bytes_per_token


@given(hybrids)
def test_the_trace_shows_the_numbers_that_lead_to_the_block(scenario):
    plan = aligned_plan(scenario)
    step = {entry.rule.name: entry for entry in plan.trace}
    tok = step["attention_bytes_per_token"].result
    mamba_page = step["mamba_page_size_bytes"].result
    granularity = step["alignment_granule"].result
    aligned = step["aligned_block_size"].result
    assert (tok, mamba_page) == (plan.attention_bytes_per_token, plan.mamba_page_size_bytes)
    if plan.mamba_cache_mode == "all":
        chunk = lcm(step["aligned_block_size"].operands["base_chunk"], granularity)
        assert aligned == chunk * cdiv(cdiv(mamba_page, tok), chunk)
    else:
        every = step["aligned_block_size"].operands.get("every_backend", 1)
        assert aligned == every * cdiv(granularity * cdiv(mamba_page, granularity * tok), every)
    for entry in plan.trace:
        assert entry.rule.title
        assert entry.rule.formula
        assert entry.source.startswith("vLLM")


OVERRIDES = {
    "block_size": (
        *("preferred_block_size", "block_size"),
        *("xpu_gdn_block_size", "shared_page_block_size"),
    ),
    "kv_cache_dtype": ("kv_cache_dtype", "stored_kv_cache_dtype"),
    "mamba_block_size": ("mamba_block_size", "xpu_gdn_block_size"),
    "mamba_cache_mode": ("mamba_cache_mode",),
    "mamba_ssm_cache_dtype": ("cpu_mamba_ssm_cache_dtype",),
    "mamba_cache_dtype": (),
    "enable_prefix_caching": (),
    "max_num_batched_tokens": ("max_num_batched_tokens", "cpu_mla_max_num_batched_tokens"),
    "backend": ("backend",),
}
"""Field that may be explicit -> the steps that may change it; nothing else changes it."""


@given(any_scenario)
def test_an_explicit_value_never_changes_silently(scenario):
    plan = plan_or_skip(scenario)
    for field, rules in OVERRIDES.items():
        explicit, final = getattr(scenario, field), getattr(plan, field)
        unset = explicit is None or (explicit == "auto" and field.endswith("dtype"))
        if unset or explicit == final:
            continue
        event(f"{field} overridden")
        steps = [step for step in plan.trace if step.rule.name in rules]
        named = [step.operands.get(name) for step in steps for name in ("explicit", "before")]
        assert explicit in named, field
        assert final in {steps[-1].result, steps[-1].operands.get(field)}, field
    if scenario.dtype != "auto":
        assert plan.model_dtype == scenario.dtype
    if scenario.max_model_len not in {None, -1}:
        assert plan.max_model_len == scenario.max_model_len


def test_overrides_are_named():
    """Bug of the change that moved the alignment: an explicit mamba block size was overwritten."""
    values = {"enable_prefix_caching": True, "mamba_cache_mode": "align", "mamba_block_size": 64}
    plan = resolve(model=qwen3_next(), **values)
    step = plan.trace.step("mamba_block_size")
    assert (step.result, step.operands["explicit"], plan.mamba_block_size) == (544, 64, 544)
    assert step.note == "the explicit 64 is overwritten"
    plan = resolve(model=mamba(), backend="FLASH_ATTN")
    step = plan.trace.step("backend")
    assert (step.result, step.operands["explicit"]) == (None, "FLASH_ATTN")
    assert step.note == "the model has no attention layer"
    settings = {"mamba_ssm_cache_dtype": "bfloat16", "num_speculative_tokens": 2}
    note = resolve(model=kimi_linear(), **settings).trace.step("mamba_page_size_bytes").note
    assert "mamba_ssm_cache_dtype bfloat16 does not reach" in note
    assert "draft tokens do not change these shapes" in note


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (llama(), "no layer has a state"),
        (mamba(), "no layer has attention"),
        (bamba(attn_layer_indices=None), "no layer has attention"),
        (lfm2(conv_L_cache=1), "a state takes 0 bytes"),
    ],
)
def test_where_nothing_is_aligned_the_trace_says_why(config, reason):
    plan = resolve(model=config)
    assert plan.trace.step("block_size").note == f"no alignment needed: {reason}"
    assert plan.block_size == 16
    assert plan.errors == ()


@given(any_scenario)
def test_an_explicit_value_that_does_not_reach_the_state_is_named(scenario):
    plan = plan_or_skip(scenario)
    assume(plan.model.state is not None)
    step = plan.trace.step("mamba_page_size_bytes")
    explicit = scenario.mamba_ssm_cache_dtype
    if explicit not in {"auto", plan.mamba_state_dtypes[-1]}:
        assert explicit in step.note
    if step.operands["draft_tokens"] != scenario.num_speculative_tokens:
        assert "draft tokens" in step.note


def shuffled(draw, value):
    if isinstance(value, dict):
        return {key: shuffled(draw, value[key]) for key in draw(st.permutations(list(value)))}
    return value


@given(any_scenario, st.data())
def test_the_order_of_fields_makes_no_difference(scenario, data):
    plan = plan_or_skip(scenario)
    values = {**scenario.to_dict(), "model": shuffled(data.draw, scenario.model)}
    names = data.draw(st.permutations(tuple(FIELDS)))
    again = resolve(**{name: values[name] for name in names})
    assert again.to_dict() == plan.to_dict()


@given(scenario=scenarios(memory=True))
@settings(max_examples=100, deadline=None)
def test_without_a_trace_everything_else_is_the_same(scenario):
    plan = plan_or_skip(scenario)
    quick = core_resolve(load_model(scenario.model), scenario, trace=False)
    assert quick.steps == ()
    assert replace(quick, steps=plan.steps) == plan


@given(any_scenario)
def test_the_same_scenario_gives_the_same_plan(scenario):
    plan = plan_or_skip(scenario)
    assert resolve(scenario).to_dict() == plan.to_dict()
    assert resolve(Scenario.from_json(scenario.to_json())).to_dict() == plan.to_dict()


NEEDS = {
    cache_mode.cache_mode: {cache_mode.enable_prefix_caching, refusals.max_model_len},
    state_pages.states: {
        model_dtype.model_dtype,
        state_pages.state_dtype_field,
        state_pages.cpu_state_dtype,
    },
    cache_mode.cpu_mla_prefix_caching: {cache_mode.cache_mode},
    model_dtype.dtype_of_device: {model_dtype.model_dtype},
    block_size.cpu_block_size: {cache_mode.cache_mode},
    backend_choice.backend_choice: {
        model_dtype.model_dtype,
        refusals.kv_cache_dtype,
        state_pages.state_dtype_field,
    },
    layer_backends.layer_backends: {
        backend_choice.backend_choice,
        speculation.speculative_method,
    },
    layer_backends.layers_built: {layer_backends.layer_backends},
    aiter_heads.aiter_heads: {backend_choice.backend_choice, layer_backends.layer_backends},
    draft_backend.draft_backend: {
        layer_backends.layer_backends,
        cache_mode.cpu_mla_prefix_caching,
    },
    block_size.preferred_block_size: {draft_backend.draft_backend, cache_mode.cache_mode},
    block_size.common_block_size: {draft_backend.draft_backend, cache_mode.cache_mode},
    state_pages.cpu_state_dtype: {state_pages.state_dtype_field},
    after_alignment.aligned_block_check: {after_alignment.xpu_gdn_rounding},
    attention_bytes.attention_token_bytes: {
        model_dtype.model_dtype,
        refusals.kv_cache_dtype,
        backend_choice.backend_choice,
    },
    hybrid_alignment.hybrid_alignment: {
        layer_backends.layer_backends,
        state_pages.states,
        block_size.cpu_block_size,
        block_size.preferred_block_size,
        block_size.common_block_size,
        attention_bytes.common_token_bytes,
    },
    attention_bytes.common_token_bytes: {attention_bytes.attention_token_bytes},
    attention_bytes.shared_page: {hybrid_alignment.hybrid_alignment},
    after_alignment.xpu_gdn_rounding: {
        hybrid_alignment.hybrid_alignment,
        attention_bytes.shared_page,
    },
    layer_checks.align_budget: {
        after_alignment.xpu_gdn_rounding,
        batch_sizes.token_budget,
        batch_sizes.cpu_mla_token_budget,
    },
    batch_sizes.token_budget: {refusals.max_model_len},
    adapters.steps_of_drafts: {batch_sizes.token_budget, speculation.speculative_method},
    batch_sizes.slots_of_drafts: {adapters.steps_of_drafts},
    batch_sizes.cpu_mla_token_budget: {
        batch_sizes.token_budget,
        batch_sizes.slots_of_drafts,
        adapters.steps_of_drafts,
        refusals.max_model_len,
    },
    gdn_prefill.gdn_prefill: {cache_mode.cache_mode},
    attention_bytes.attention_page: {after_alignment.xpu_gdn_rounding},
    grouping.hidden_states: {backend_choice.backend_choice},
    grouping.packed_hidden_states: {backend_choice.backend_choice},
    grouping.cache_layout_choice: {attention_bytes.attention_page},
    pipeline_checks.drafts_over_stages: {speculation.speculative_method},
    context_parallel.spread_layers: {
        grouping.groups,
        pages.unify_pages,
        attention_bytes.attention_page,
        draft_backend.draft_backend,
    },
    built_backends.backends_as_built: {draft_backend.draft_backend},
    pipeline.pipeline_stages: {
        attention_bytes.attention_page,
        built_backends.backends_as_built,
        grouping.hidden_states,
    },
    grouping.groups: {
        pipeline.pipeline_stages,
        attention_bytes.attention_page,
        grouping.hidden_states,
        speculation.speculative_method,
    },
    pipeline_checks.shared_name: {grouping.groups},
    pages.unify_pages: {grouping.groups},
    grouping.cache_managers: {grouping.groups, pages.unify_pages},
    attention_bytes.windows_in_shared_page: {grouping.groups},
    pages.kernel_block_size: {grouping.groups},
    pages.packed_split: {grouping.groups},
    layer_checks.mamba_block_advice: {cache_mode.cache_mode, refusals.max_model_len},
    layer_checks.cpu_prefix_caching: {
        cache_mode.cache_mode,
        cache_mode.cpu_mla_prefix_caching,
    },
    layer_checks.drafted_states: {
        hybrid_alignment.hybrid_alignment,
        after_alignment.xpu_gdn_rounding,
        state_pages.states,
    },
    memory.requests: {
        grouping.groups,
        batch_sizes.token_budget,
        batch_sizes.cpu_mla_token_budget,
    },
    memory.estimates: {memory.requests, batch_sizes.graph_sizes},
    memory.capacity: {memory.requests, memory.estimates},
    memory.budget: {memory.estimates, memory.auto_fit},
    memory.auto_fit: {
        memory.capacity,
        layer_checks.mamba_block_advice,
        refusals.mamba_block_size,
    },
    memory.memory: {memory.auto_fit},
    layer_checks.nvfp4_generation: {backend_choice.backend_choice},
    flex.flex_construction: {backend_choice.backend_choice},
    flex.batch_invariance: {backend_choice.backend_choice},
    flex.flex_mask_block: {pages.kernel_block_size},
    prefix_hits.inert_prefix_caching: {memory.auto_fit, cache_mode.cpu_mla_prefix_caching},
}
"""Stage -> the stages whose results it reads."""

REFUSING = (
    context_parallel.context_ranks,
    context_parallel.shared_kv_heads,
    refusals.nvfp4_with_mla,
    refusals.mamba_block_size,
    batch_sizes.async_scheduling,
    float_caches.float_kv_cache_dtype,
    refusals.served_architecture,
    refusals.native_architecture,
    quantization.quantization_dtype,
)
"""Stages that only refuse; they read what comes before them, and nothing reads them."""


def run_stages(model, scenario, stages: Iterable):
    working = WorkingPlan(model, scenario, RULE_SETS[scenario.rules])
    for stage in stages:
        stage(working)
    return working.finished()


@given(any_scenario, st.randoms(use_true_random=False))
def test_only_the_declared_dependencies_order_the_stages(scenario, random):
    assert_any_order_gives(plan_or_skip(scenario), scenario, random)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("model", "rules"), [("qwen3.5-4b", "0.23"), ("deepseek-v3.2", "0.33")])
def test_the_memory_of_a_device_has_declared_dependencies_too(model, rules, seed):
    """Few random scenarios name a device, and its memory is read off most of a plan."""
    fields = {"device": "GB300", "tensor_parallel": 8, "enable_prefix_caching": True}
    scenario = Scenario(model=model, rules=rules, **fields)
    assert_any_order_gives(resolve(scenario), scenario, Random(seed))


def assert_any_order_gives(plan, scenario, random):
    stages = RULE_SETS[scenario.rules].stages
    waiting = [stage for stage in stages if stage not in REFUSING]
    order = []
    while waiting:
        free = [stage for stage in waiting if not NEEDS.get(stage, set()) & set(waiting)]
        order.append(random.choice(free))
        waiting.remove(order[-1])
    again = run_stages(plan.model, scenario, order)
    for field in ("steps", "problems", "log_lines"):
        given_order = sorted(map(str, getattr(plan, field)))
        assert sorted(map(str, getattr(again, field))) == given_order
    unordered = {"steps": (), "problems": (), "log_lines": ()}
    ours = replace(run_stages(plan.model, scenario, stages), **unordered)
    assert replace(again, **unordered) == ours


@given(any_scenario)
def test_every_remedy_removes_its_problem(scenario):
    plan = plan_or_skip(scenario)
    assume(plan.problems)
    before = {problem.code for problem in plan.errors}
    for problem in plan.problems:
        remedies = plan.remedies(problem)
        event(f"{problem.code}: {'remedy' if remedies else 'none'}")
        for remedy in remedies:
            again = resolve(scenario.replace(**remedy.changes))
            assert again.to_dict() == remedy.plan.to_dict()
            assert problem.code not in {other.code for other in again.problems}
            assert {other.code for other in again.errors} <= before


@given(any_scenario, st.sampled_from([3, 5, 6, 7, 16]))
def test_every_remedy_lifts_its_refusal(scenario, tensor_parallel):
    scenario = scenario.replace(tensor_parallel=tensor_parallel)
    try:
        resolve(scenario)
    except Refused as refusal:
        event(refusal.code)
        for remedy in remedies_of_refusal(scenario, refusal):
            again = resolve(scenario.replace(**remedy.changes))
            assert again.to_dict() == remedy.plan.to_dict()
            assert again.errors == ()
    else:
        assume(False)


@settings(max_examples=settings.default.max_examples // 4)  # each is dozens of plans
@given(any_scenario)
def test_sensitivity_lists_exactly_the_changes_that_matter(scenario):
    plan = plan_or_skip(scenario)
    listed = {(change.field, change.value): change for change in plan.sensitivity()}
    for change in listed.values():
        again = resolve(scenario.replace(**{change.field: change.value}))
        assert sizes_of(again) == sizes_of(change.plan) != sizes_of(plan)
    for field, value in tried_changes(plan):
        tried = outcome_of(plan.model, plan.settings, **{field: value})
        if tried.plan is not None and (field, value) not in listed:
            assert sizes_of(tried.plan) == sizes_of(plan)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.thorough)])
def test_hash_seeds_make_no_difference(every):
    code = (
        "import json, workbench as wb\n"
        "from tests.catalog import distinct_models\n"
        f"for name in [*distinct_models()][::{every}]:\n"
        "    for platform in ('cuda', 'xpu', 'cpu'):\n"
        "        plan = wb.resolve(wb.Scenario(model=name, platform=platform, block_size=48))\n"
        "        print(json.dumps(plan.to_dict()), plan.fingerprint)\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "4294967295")
    }
    assert len(outputs) == 1
    assert outputs != {b""}


def test_a_model_loads_once_for_many_scenarios():
    """A catalog model is the same object every time, so a sweep reads its file once."""
    assert load_model("nemotron-3-nano-30b-a3b") is load_model("nemotron-3-nano-30b-a3b")
