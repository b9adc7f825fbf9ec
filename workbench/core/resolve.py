"""Resolve: run the stages of a rule set over a model and the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.core.built import as_built
from workbench.core.errors import Refused
from workbench.core.model import Model
from workbench.core.phases import SIZES, phases
from workbench.core.plan import Plan
from workbench.core.stages import attention_bytes, memory
from workbench.core.versions import RULE_SETS
from workbench.core.working_plan import UntracedPlan, WorkingPlan

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings


def resolve(model: Model, settings: Settings, *, trace: bool = True) -> Plan:
    """Return what the engine decides for `model` under `settings`.

    trace: without it `plan.steps` is empty, and a resolution is faster. Raises Refused where vLLM
    refuses the configuration before any block size exists; every later failure is a value in
    `plan.problems`.
    """
    rules = RULE_SETS[settings.rules]
    model = as_built(model, settings, rules)
    working = (WorkingPlan if trace else UntracedPlan)(model, settings, rules)
    try:
        for stage in phases(model, rules, trace=trace):
            stage(working)
    except Refused as refusal:
        refusal.problems = working.problems
        raise
    return working.finished()


def resolve_numbers(
    model: Model, settings: Settings, is_possible: Callable[[Plan], bool]
) -> Plan | None:
    """Return a plan without trace and without the problems of its pool.

    is_possible: whether the block sizes may be the wanted ones; None is returned where not. Most of
    many scenarios end there, before layers are grouped. Raises Refused as `resolve`.

    Sizes and groups are decided anew: of many models and settings, too few of them are the same.
    """
    rules = RULE_SETS[settings.rules]
    model = as_built(model, settings, rules)
    working = UntracedPlan(model, settings, rules)
    for stage in phases(model, rules, trace=False, apart=SIZES):
        if stage is attention_bytes.attention_page and not is_possible(working):
            return None
        stage(working)
        if stage is memory.auto_fit:  # what comes after the pool only reports problems
            break
    return working.finished()
