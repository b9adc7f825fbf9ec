"""Resolve: run the stages of a rule set over a model and the settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.core.model import SSM, Model
from workbench.core.online import as_loaded, as_stored
from workbench.core.phases import phases, phases_of_numbers
from workbench.core.plan import Plan
from workbench.core.rule_set import RuleSet
from workbench.core.versions import RULE_SETS
from workbench.core.working_plan import UntracedPlan, WorkingPlan

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings

TRANSFORMERS = "transformers"
"""The module of vLLM that runs classes of the Transformers library."""


def resolve(model: Model, settings: Settings, *, trace: bool = True) -> Plan:
    """Return what the engine decides for `model` under `settings`.

    trace: without it `plan.steps` is empty, and a resolution is faster. Raises Refused where vLLM
    refuses the configuration before any block size exists; every later failure is a value in
    `plan.problems`.
    """
    rules = RULE_SETS[settings.rules]
    model = _built(model, settings, rules)
    working = (WorkingPlan if trace else UntracedPlan)(model, settings, rules)
    for stage in rules.stages if trace else phases(model, rules):
        stage(working)
    return working.finished()


def resolve_numbers(
    model: Model, settings: Settings, is_possible: Callable[[Plan], bool]
) -> Plan | None:
    """Return a plan without trace and without the problems of its pool.

    is_possible: whether the block sizes may be the wanted ones; None is returned where not. Most of
    many scenarios end there, before the cache is made. Raises Refused as `resolve`.
    """
    rules = RULE_SETS[settings.rules]
    model = _built(model, settings, rules)
    working = UntracedPlan(model, settings, rules)
    sizes, pool = phases_of_numbers(model, rules)
    for stage in sizes:
        stage(working)
    if not is_possible(working):
        return None
    for stage in pool:
        stage(working)
    return working.finished()


def _built(model: Model, settings: Settings, rules: RuleSet) -> Model:
    """Return the model as a release builds it, without its drafter where the settings have none."""
    # A model that was read with a drafter may be resolved without it, as a change of the scenario.
    model = as_stored(model)
    if model.drafter is not None:
        drafter = settings.draft_model and _with_derived_heads(model.drafter, rules)
        model = replace(model, drafter=drafter or None)
    model = _with_derived_heads(model, rules)
    return as_loaded(model, settings.quantization, rules.online_methods)


def _with_derived_heads(model: Model, rules: RuleSet) -> Model:
    size, served = model.derived_head_size, rules.model_registry.served
    # What the Transformers library runs has heads of the stated size, inside of wrappers too.
    is_own = served.get(model.architecture) != TRANSFORMERS
    if not (size and is_own and served.get(model.layer_class) in rules.derived_heads):
        return model
    own = (one if one.kind == SSM else one._replace(head_size=size) for one in model.layers)
    return replace(model, layers=tuple(own))
