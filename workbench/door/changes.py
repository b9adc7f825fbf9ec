"""What a person's change does to other fields: what it contradicts is dropped, with a notice."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from workbench.core.errors import Refused, ScenarioError, WorkbenchError
from workbench.core.plan import Plan
from workbench.core.versions import RULE_SETS
from workbench.door.session import Outcome
from workbench.interop.omnibox import hub_ids, understand
from workbench.scenario import FIELDS, Scenario
from workbench.views.settings import changes_text

RESETS_BACKEND = frozenset({"model", "platform", "device", "compute_capability", "rules"})
"""Fields that, when changed, reset a backend that is no longer available."""


DRAFTS = ("num_speculative_tokens", *(name for name, one in FIELDS.items() if one.of_drafter))
"""Fields that go together when nothing drafts."""
CACHING: Mapping[str, Any] = {"enable_prefix_caching": True}
"""The change that turns prefix caching on."""
Evaluate = Callable[[Scenario], Outcome]
"""See `Session.evaluate`."""


def needed_by(fields: Collection[str], plan: Plan) -> Mapping[str, Any]:
    """Return the caching that a cache mode is of, and the token that a method drafts."""
    caching = CACHING if "mamba_cache_mode" in fields and not plan.enable_prefix_caching else {}
    is_drafting = plan.settings.num_speculative_tokens or "speculative_method" not in fields
    return caching if is_drafting else {**caching, "num_speculative_tokens": 1}


def changed(
    present: Scenario,
    changes: Mapping[str, Any],
    evaluate: Evaluate,
    *,
    release_is_chosen: bool = False,
) -> tuple[Scenario, tuple[str, ...]]:
    """Return the changed scenario, and a sentence for every other field that was reset.

    Of a device and what contradicts it the newest counts. release_is_chosen: see `with_model`.
    Errors: ScenarioError for an invalid value.
    """
    scenario, notices = _with_device(present, changes)
    if "model" in changes:
        scenario, found = with_model(
            present, scenario, changes, evaluate, release_is_chosen=release_is_chosen
        )
        notices += found
    if scenario.backend is None or "backend" in changes or RESETS_BACKEND.isdisjoint(changes):
        return scenario, notices
    plan = evaluate(scenario).plan
    if plan is None or all(problem.code != "backend_not_valid" for problem in plan.problems):
        return scenario, notices
    lost = f"Backend {scenario.backend} is not available here; vLLM chooses the backend again."
    return scenario.replace(backend=None), (*notices, lost)


def with_model(
    present: Scenario,
    scenario: Scenario,
    said: Collection[str],
    evaluate: Evaluate,
    *,
    release_is_chosen: bool,
) -> tuple[Scenario, tuple[str, ...]]:
    """Return the scenario without what only the present model has, and a sentence for each.

    said: fields that the person names with the model, which stay. release_is_chosen: whether a
    person chose the release; if not, it is the default one, or one that has the model.
    """
    if scenario.model == present.model:
        return (scenario, ()) if "rules" in said else with_release(scenario, evaluate)
    scenario, notices = _without_values_of(present, scenario, said)
    if "rules" not in said:
        if not release_is_chosen:
            scenario = scenario.replace(rules=FIELDS["rules"].default)
        scenario, found = with_release(scenario, evaluate)
        if not found and scenario.rules != present.rules:
            now, then = RULE_SETS[scenario.rules].title, RULE_SETS[present.rules].title
            found = (f"Back to {now}: {then} was for the previous model.",)
        notices += found
    error = evaluate(scenario).error
    if isinstance(error, Refused) and error.field in DRAFTS and set(DRAFTS).isdisjoint(said):
        drafted = {name: getattr(scenario, name) for name in DRAFTS[:2]}
        scenario = _reset(scenario, DRAFTS)
        lost = f"{changes_text(drafted)} is not possible with this model; nothing drafts now."
        notices = (*notices, lost)
    return scenario, notices


def leads_to_a_plan(text: str, present: Scenario, evaluate: Evaluate) -> bool:
    """Return whether what a text says has a plan; one with a model of the hub may have one."""
    if hub_ids(text):
        return True
    try:
        found = understand(text, present)
    except WorkbenchError:
        return False
    known = (
        with_model(present, one, found.said, evaluate, release_is_chosen=False)[0]
        for one in found.scenarios
    )
    return all(evaluate(one).plan is not None for one in known)


def _without_values_of(
    present: Scenario, scenario: Scenario, said: Collection[str]
) -> tuple[Scenario, tuple[str, ...]]:
    """Drop what was measured or named for the present model, and stayed as it was."""
    gone = [
        name
        for name, field in FIELDS.items()
        if field.of_model
        and name not in said
        and getattr(scenario, name) == getattr(present, name) != field.default
    ]
    if not gone:
        return scenario, ()
    labels = ", ".join(FIELDS[name].label for name in gone)
    if any(FIELDS[name].of_drafter for name in gone):
        gone += DRAFTS
    notice = f"No longer set, because they belonged to the previous model: {labels}."
    return _reset(scenario, gone), (notice,)


def _reset(scenario: Scenario, names: Iterable[str]) -> Scenario:
    return scenario.replace(**{name: FIELDS[name].default for name in names})


def with_release(scenario: Scenario, evaluate: Evaluate) -> tuple[Scenario, tuple[str, ...]]:
    """Return the scenario under a release that has its model, and a sentence if it is another.

    Only for the default release: a person who chose one is shown what it says.
    """
    error = evaluate(scenario).error
    if scenario.rules != FIELDS["rules"].default or not isinstance(error, Refused):
        return scenario, ()
    if error.code == "architecture_not_served":
        for change in error.candidates:
            other = scenario.replace(**change)
            if evaluate(other).plan is not None:
                old, new = RULE_SETS[scenario.rules].title, RULE_SETS[other.rules].title
                return other, (f"{old} does not have this model; {new} has it and is shown.",)
    return scenario, ()


def _with_device(present: Scenario, changes: Mapping[str, Any]) -> tuple[Scenario, tuple[str, ...]]:
    if changes.get("device") is not None:
        return present.replace(**{"compute_capability": None, **changes}), ()
    try:
        return present.replace(**changes), ()
    except ScenarioError as error:
        if error.code != "contradicts_device" or "device" in changes:
            raise
    notice = f"This contradicts the device {present.device}, so no device is named now."
    return present.replace(**changes, device=None), (notice,)
