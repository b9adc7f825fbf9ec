"""Lesson 1 (#37467): the alignment rule, and the order in which its parts have to run."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from workbench.core.arithmetic import cdiv
from workbench.core.errors import ScenarioError, check_kind, unknown_name_message
from workbench.core.plan import Plan
from workbench.core.stages import attention_bytes, backend_choice, block_size, hybrid_alignment
from workbench.core.versions import RULE_SETS, V0_23
from workbench.exercises.exercise import Inputs, exercise
from workbench.scenario.resolution import resolve
from workbench.scenario.start import Start

BACKEND, PHASE_1, ALIGNMENT = "backend", "preferred block", "alignment"
ORDER = (BACKEND, PHASE_1, ALIGNMENT)
"""The movable steps of a start, as vLLM 0.23 runs them."""
_FIRST, _LAST = attention_bytes.attention_token_bytes, hybrid_alignment.hybrid_alignment
_STAGES = {
    BACKEND: (backend_choice.backend_choice,),
    PHASE_1: (block_size.preferred_block_size,),
    ALIGNMENT: V0_23.stages[V0_23.stages.index(_FIRST) : V0_23.stages.index(_LAST) + 1],
}


def resolve_in_order(scenario: Start, order: Sequence[str]) -> Plan:
    """Return the plan of `scenario` under 0.23's rules, with these three steps reordered.

    Nothing else changes. Errors: ScenarioError unless `order` holds each name of ORDER once.

    >>> wb.resolve_in_order(plan.scenario, ("aligned", "kernel"))
    Traceback (most recent call last):
    workbench.core.errors.ScenarioError: ...
    """
    expected = f"a list of {', '.join(ORDER)}"
    check_kind("wb.resolve_in_order", order, Sequence, expected)
    if unknown := [name for name in order if name not in _STAGES]:
        raise ScenarioError("unknown_name", unknown_name_message("Step", unknown[0], ORDER))
    if sorted(order) != sorted(ORDER):
        raise ScenarioError(
            "order_incomplete",
            f"Invalid order {', '.join(order)}. Expected each of {', '.join(ORDER)} once.",
        )
    moved = [stage for stages in _STAGES.values() for stage in stages]
    first = min(map(V0_23.stages.index, moved))
    stages = [stage for stage in V0_23.stages if stage not in moved]
    stages[first:first] = [stage for name in order for stage in _STAGES[name]]
    name = f"0.23: {', '.join(order)}"
    RULE_SETS.add(name, replace(V0_23, name=name, title=name, stages=tuple(stages)))
    try:
        return resolve(scenario, rules=name)
    finally:
        RULE_SETS.remove(name)


def _alignments(random: Random) -> Inputs:
    yield 1024, 64, 16  # fits exactly
    yield 1025, 64, 16  # one byte more
    yield 1, 64, 16
    yield from ((533_504, 512, 32), (2_146_304, 4096, 16), (2_146_304, 4096, 64))
    yield 2_097_152, 4096, 16
    for _ in range(50):
        step, tok = 16 << random.randrange(6), 64 * random.randrange(1, 65)
        exact = step * tok * random.randrange(1, 40)
        yield exact + random.choice((0, 1, -1, 640)), tok, step


@exercise(1, "the aligned block size", _alignments)
def aligned_block_size(mamba_page_bytes: int, token_bytes: int, step_tokens: int) -> int:
    """Return the smallest multiple of the step whose tokens hold the state's bytes."""
    return step_tokens * cdiv(mamba_page_bytes, step_tokens * token_bytes)


@exercise(1, "the order of the three steps")
def start_order() -> tuple[str, ...]:
    """Return the order in which the alignment knows its granularity, and nothing overwrites it."""
    return ORDER
