"""The scenario that a log tells, as far as it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.core.errors import Refused, WorkbenchError
from workbench.core.plan import Plan
from workbench.interop.log_facts import entries, known_model, unfollowed
from workbench.interop.log_find import Found
from workbench.interop.log_rules import rules_for

Resolve = Callable[[Mapping[str, Any]], Plan]
"""Scenario fields -> plan; WorkbenchError where there is none."""

TYPED = "typed_arguments"
SETTLED = "engine_config"
BACKENDS = ("backend", "backend_in_words")
"""Messages whose fields are looked at apart: see `_with_backend`."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a log tells of its scenario.

    fields: as a scenario takes them; said: field -> line number that told it. plan: None where the
    model is unknown or there is no plan; refusal: what vLLM says to these fields. architecture: the
    model class, where the log names it. typed_everything: the arguments that were typed are there,
    so every other field is its default.
    """

    version: str | None
    fields: Mapping[str, Any]
    said: Mapping[str, int]
    notes: tuple[str, ...]
    plan: Plan | None = None
    refusal: WorkbenchError | None = None
    architecture: str | None = None
    typed_everything: bool = False


def reconstruct(found: Iterable[Found], resolve: Resolve) -> Told:
    """The scenario of a log, and its plan."""
    seen = [one for one in found if one.values is not None]
    version = _first(seen, "version")
    rules, note = rules_for(version)
    fields, said, notes = _fields(seen)
    notes = [*([note] if note else []), *notes]
    fields = {**fields, "rules": rules}
    architecture = _first(seen, "architecture")
    has_typed = any(one.message.name == TYPED for one in seen)
    if "model" not in fields:
        return Told(version, fields, said, tuple(notes), None, None, architecture, has_typed)
    name, assumed = known_model(str(fields["model"]))
    if assumed:
        notes.append(assumed)
    if name is None:
        notes.append(
            f"{fields['model']} is not in the catalog (`workbench models`). Give the path of its "
            "config.json as the model to compare the sizes."
        )
        return Told(version, fields, said, tuple(notes), None, None, architecture, has_typed)
    fields["model"] = name
    plan, refusal, fields, dropped = _resolved(fields, resolve)
    notes += dropped
    if plan is not None:
        plan, fields = _with_backend(plan, fields, seen, said, resolve)
    said = {field: line for field, line in said.items() if field in fields}
    return Told(version, fields, said, tuple(notes), plan, refusal, architecture, has_typed)


def _first(seen: list[Found], value: str) -> str | None:
    return next(
        (str(one.values[value]) for one in seen if one.values and value in one.values), None
    )


def _fields(seen: list[Found]) -> tuple[dict[str, Any], dict[str, int], list[str]]:
    """Fields by trust: what was typed, then what the engine settled, then single lines."""
    fields: dict[str, Any] = {}
    said: dict[str, int] = {}
    notes: list[str] = []
    for one in sorted(seen, key=_trust):
        assert one.values is not None
        if one.message.name in BACKENDS:
            continue
        for field, value in one.message.fields(one.values).items():
            if fields.get(field, "auto") == "auto":
                fields[field], said[field] = value, one.line.number
        for dump in ("arguments", "config"):
            if dump in one.values and not notes:
                notes += unfollowed(entries(str(one.values[dump])))
    return fields, said, notes


def _trust(one: Found) -> tuple[int, float, int]:
    """What was typed comes first, then what the engine settled; of the ranks' memory the least."""
    assert one.values is not None
    order = {TYPED: 0, SETTLED: 1}.get(one.message.name, 2)
    return order, float(one.values.get("available_gib", 0)), one.line.number


def _resolved(
    fields: dict[str, Any], resolve: Resolve
) -> tuple[Plan | None, WorkbenchError | None, dict[str, Any], list[str]]:
    """The plan of these fields; a field that stands in the way is left out, and said so."""
    notes: list[str] = []
    first: WorkbenchError | None = None
    while True:
        try:
            return resolve(fields), first, fields, notes
        except WorkbenchError as error:
            first = first or (error if isinstance(error, Refused) else None)
            if error.field not in fields or error.field in {"model", "rules"}:
                return None, first or error, fields, [*notes, error.message]
            notes.append(f"Left out {error.field} = {fields[error.field]}: {error.message}")
            fields = {name: value for name, value in fields.items() if name != error.field}


def _with_backend(
    plan: Plan,
    fields: dict[str, Any],
    seen: list[Found],
    said: dict[str, int],
    resolve: Resolve,
) -> tuple[Plan, dict[str, Any]]:
    """The same with the backend that the log names, where the rules would choose another one.

    A list of candidates that FlashInfer leads tells the device as well, which explains the choice.
    """
    one = next((one for one in seen if one.message.name in BACKENDS), None)
    if one is None or one.values is None or "backend" in fields:
        return plan, fields
    named = one.message.fields(one.values)
    if plan.backend == named["backend"]:
        return plan, fields
    device = {name: value for name, value in named.items() if name == "compute_capability"}
    for changes in (device, {"backend": named["backend"]}) if device else ({**named},):
        try:
            tried = resolve({**fields, **changes})
        except WorkbenchError:
            continue
        if tried.backend == named["backend"]:
            said.update(dict.fromkeys(changes, one.line.number))
            return tried, {**fields, **changes}
    return plan, fields
