"""What a person's change does to the fields that it contradicts: dropped with a notice."""

from collections.abc import Callable, Mapping
from typing import Any

from workbench.core.errors import ScenarioError
from workbench.door.session import Outcome
from workbench.scenario import Scenario

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
    if scenario.backend is None or "backend" in changes or RESETS_BACKEND.isdisjoint(changes):
        return scenario, notices
    plan = evaluate(scenario).plan
    if plan is None or all(problem.code != "backend_not_valid" for problem in plan.problems):
        return scenario, notices
    lost = f"Backend {scenario.backend} is not available here; vLLM chooses the backend again."
    return scenario.replace(backend=None), (*notices, lost)


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
