"""Resolve: run the stages of a rule set over a model and the settings."""

from __future__ import annotations

from typing import TypeVar

from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.core.rules import RULE_SETS
from workbench.core.run import Run
from workbench.core.settings import Settings

PlanType = TypeVar("PlanType", bound=Plan)


def resolve(model: Model, settings: Settings, plan_type: type[PlanType] = Plan) -> PlanType:  # type: ignore[assignment]
    """Return what the engine decides for `model` under `settings`, as a plan of `plan_type`.

    Raises Refused where vLLM refuses the configuration before any block size exists; every later
    failure is a value in `plan.problems`.
    """
    rules = RULE_SETS[settings.rules]
    run = Run(model, settings, rules)
    for stage in rules.stages:
        stage(run)
    return plan_type.from_run(run)  # type: ignore[return-value]
