"""What a person's change does to other fields: what it contradicts is dropped, with a notice."""

from collections.abc import Callable, Mapping
from typing import Any

from workbench.core.errors import Refused, ScenarioError
from workbench.core.versions import RULE_SETS
from workbench.door.session import Outcome
from workbench.scenario import FIELDS, Scenario

RESETS_BACKEND = frozenset({"model", "platform", "device", "compute_capability", "rules"})
"""Fields that, when changed, reset a backend that is no longer available."""


def changed(
    present: Scenario, changes: Mapping[str, Any], evaluate: Callable[[Scenario], Outcome]
) -> tuple[Scenario, tuple[str, ...]]:
    """Return the changed scenario, and a sentence for every other field that was reset.

    Of a device and what contradicts it the newest counts. evaluate: see `Session.evaluate`.
    Errors: ScenarioError for an invalid value.
    """
    scenario, notices = _with_device(present, changes)
    if "model" in changes and "rules" not in changes:
        scenario, found = with_release(scenario, evaluate)
        notices += found
    if scenario.backend is None or "backend" in changes or RESETS_BACKEND.isdisjoint(changes):
        return scenario, notices
    plan = evaluate(scenario).plan
    if plan is None or all(problem.code != "backend_not_valid" for problem in plan.problems):
        return scenario, notices
    lost = f"Backend {scenario.backend} is not available here; vLLM chooses the backend again."
    return scenario.replace(backend=None), (*notices, lost)


def with_release(
    scenario: Scenario, evaluate: Callable[[Scenario], Outcome]
) -> tuple[Scenario, tuple[str, ...]]:
    """Return the scenario under a release that has its model, and a sentence if it is another.

    Only for the default release: a person who chose one is shown what it says. evaluate: see
    `Session.evaluate`.
    """
    error = evaluate(scenario).error
    if scenario.rules != FIELDS["rules"].default or not isinstance(error, Refused):
        return scenario, ()
    if error.code == "architecture_not_served":
        for change in error.candidates:
            other = scenario.replace(**change)
            if evaluate(other).plan is not None:
                old, new = RULE_SETS[scenario.rules].title, RULE_SETS[other.rules].title
                return other, (f"{old} does not have this model; shown is {new}, which has it.",)
    return scenario, ()


def _with_device(present: Scenario, changes: Mapping[str, Any]) -> tuple[Scenario, tuple[str, ...]]:
    if changes.get("device") is not None:
        return present.replace(**{"compute_capability": None, **changes}), ()
    try:
        return present.replace(**changes), ()
    except ScenarioError as error:
        if error.code != "contradicts_device" or "device" in changes:
            raise
    notice = f"The device {present.device} is something else; no device is named now."
    return present.replace(**changes, device=None), (notice,)
