"""The exercises themselves: solutions, hints and hidden inputs; oracles are the engine's."""

import itertools

import pytest

import workbench as wb
from workbench.core.errors import ScenarioError
from workbench.core.layouts.of_plan import plan_layout
from workbench.core.offload.plan import OffloadRequest
from workbench.core.offload.request import resolved_block_sizes
from workbench.exercises import EXERCISES
from workbench.exercises.alignment import ORDER, resolve_in_order
from workbench.exercises.compare import plain
from workbench.exercises.exercise import exercise as register
from workbench.labs.cache_views import check_ownership

FUNCTIONS = [name for name, exercise in EXERCISES.items() if exercise.inputs is not None]


pytestmark = pytest.mark.usefixtures("no_progress")


def test_every_exercise_has_hints_and_one_sentence_of_consequence():
    for exercise in EXERCISES.values():
        assert exercise.consequence.endswith(".")
        assert 40 < len(exercise.consequence) < 200
        assert 2 <= len(exercise.hints) <= 4
        assert len(set(exercise.hints)) == len(exercise.hints)


@pytest.mark.parametrize("name", EXERCISES)
def test_the_shipped_solution_is_right_and_is_not_progress(name):
    case = wb.log_case(3) if EXERCISES[name].has_cases else None
    assert wb.check(None, name, case=case, solve=True).ok is True
    assert wb.progress().solved == ()


@pytest.mark.parametrize("name", EXERCISES)
def test_no_hint_contains_the_answer(name):
    exercise = EXERCISES[name]
    if exercise.has_cases:
        log = wb.log_case(3)
        assert not any(log.meaning in hint for hint in exercise.hints)
    elif exercise.is_question:
        answer = str(list(plain(exercise.oracle())))
        assert not any(answer in hint for hint in exercise.hints)
    else:
        assert not any("return " in hint or "lambda" in hint for hint in exercise.hints)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hidden_inputs_are_many_and_the_same_for_everybody(name):
    first, again = EXERCISES[name].hidden(), EXERCISES[name].hidden()
    assert len(first) >= 10
    assert str(first) == str(again)
    assert all(tuple(operands) == EXERCISES[name].parameters for operands in first)


@pytest.mark.parametrize("model", ["nemotron-3-nano-30b-a3b", "qwen3.5-4b", "jamba-1.5-mini"])
@pytest.mark.parametrize("platform", ["cuda", "xpu", "cpu"])
def test_the_alignment_is_the_one_of_the_plan(model, platform):
    plan = wb.resolve(model=model, platform=platform)
    granularity = plan.trace.step("alignment_granule").result
    operands = (plan.mamba_page_size_bytes, plan.attention_bytes_per_token, granularity)
    found = EXERCISES["aligned_block_size"].oracle(*operands)
    assert found == plan.trace.step("aligned_block_size").result


@pytest.mark.parametrize("num_blocks", range(1, 6))
def test_the_misplaced_halves_are_those_of_real_bytes(num_blocks):
    plan = wb.resolve(model="jamba-1.5-mini", platform="rocm", backend="ROCM_ATTN")
    found = check_ownership(plan_layout(plan, num_blocks=num_blocks, rule="never")).attention
    halves = EXERCISES["misplaced_halves"].oracle(num_blocks)
    assert len(halves) * found.written_elements == 2 * num_blocks * found.misplaced_elements


@pytest.mark.parametrize("prefix_caching", [True, False])
@pytest.mark.parametrize("model", ["qwen3.5-4b", "bamba-9b", "kimi-linear-48b-a3b", "gemma-3-27b"])
def test_the_hash_block_is_the_offload_connectors(model, prefix_caching):
    plan = wb.resolve(model=model, enable_prefix_caching=prefix_caching, max_model_len=32768)
    specs = [group.spec for group in plan.cache.groups]
    found = EXERCISES["hash_block_size"].oracle(
        [spec.block_size for spec in specs if not spec.is_mamba],
        [spec.block_size for spec in specs if spec.is_mamba],
        plan.block_size,
    )
    assert found == resolved_block_sizes(plan, OffloadRequest()).hash


def test_the_order_of_the_solution_is_the_only_one_that_works():
    xpu = wb.Scenario(model="nemotron-3-nano-30b-a3b", platform="xpu", tensor_parallel=4)
    good = wb.resolve(xpu)
    works = [
        order
        for order in itertools.permutations(ORDER)
        if (plan := resolve_in_order(xpu, order)).block_size == good.block_size and not plan.errors
    ]
    assert works == [ORDER]
    assert resolve_in_order(xpu, ORDER).block_size == 1088
    early = resolve_in_order(xpu, ("alignment", "backend", "preferred block"))
    before = wb.resolve(xpu.replace(rules="before-37467"))
    assert (early.block_size, early.mamba_page_size_padded) == (64, 540_672)
    assert [p.code for p in early.problems] == [p.code for p in before.problems]


@pytest.mark.parametrize(
    "order", [("backend",), (*ORDER, "backend"), ("backend", "alignmnt", "preferred block")]
)
def test_an_order_that_is_none_is_refused(order):
    with pytest.raises(ScenarioError, match="alignment"):
        resolve_in_order(wb.Scenario(model="qwen3.5-4b"), order)


def test_a_name_is_an_exercise_once():
    again = register(3, "again")
    with pytest.raises(ValueError, match="twice"):
        again(EXERCISES["slot_of"].oracle)
