"""Try changes of a scenario until the rules give every number of a log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.core.resolve import resolve_numbers
from workbench.core.speculation import NGRAM
from workbench.interop.logs.message import Compare
from workbench.models import load_model
from workbench.models.drafter import with_drafter
from workbench.scenario import FIELDS, MODEL, Scenario, Settings
from workbench.scenario.fields import changed

DRAFTS, METHOD = "num_speculative_tokens", "speculative_method"
OF_THE_MODEL = frozenset({"max_model_len"})
"""A refusal for such a field is one of the model: no change of another field lifts it."""
Changes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """A number that the log names."""

    compare: Compare
    said: Any

    def hit(self, plan: Plan) -> bool:
        """Return whether the plan has it."""
        return self.compare.has(plan, self.said)


@dataclass(slots=True)
class Start:
    """A scenario whose changes are tried."""

    model: Model
    settings: Settings
    fields: Changes
    fewest: int | None = None
    """Fields that the first hit changed; changes of more are not tried."""
    is_refused: bool = False
    """Whether no change can lift its refusal."""


def start_of(fields: Changes) -> Start | None:
    """Return the scenario of these fields; None where they cannot be one."""
    try:
        settings = settings_of(fields)
        model = with_drafter(load_model(fields[MODEL.name]), settings.draft_model)
    except WorkbenchError:
        return None
    return Start(model, settings, fields)


class Tries:
    """Tries changes, `left` of them at most."""

    def __init__(self, targets: Iterable[Target], left: int) -> None:
        self.left = left
        self._targets = tuple(targets)
        self._sizes = [target for target in self._targets if target.compare.is_size]

    def hits(
        self, start: Start, changes: Iterable[Changes]
    ) -> Iterator[tuple[Changes, dict[str, Any], Plan]]:
        """Yield the changes that hit every target, with all fields and the plan."""
        for change in changes:
            count = len(change.keys() - {METHOD})
            if self.left <= 0 or start.is_refused or count > (start.fewest or count):
                return
            self.left -= 1
            try:
                plan = self._plan(start, change)
            except WorkbenchError as error:
                start.is_refused = error.field in OF_THE_MODEL - change.keys()
                continue
            if plan is not None:
                start.fewest = count
                yield change, {**start.fields, **change}, plan

    def _plan(self, start: Start, change: Changes) -> Plan | None:
        found = resolve_numbers(start.model, changed(start.settings, change), self._has_sizes)
        if found is None or not all(target.hit(found) for target in self._targets):
            return None
        Scenario.from_dict({**start.fields, **change})  # refuses what contradicts other fields
        return found

    def _has_sizes(self, plan: Plan) -> bool:
        return all(target.hit(plan) for target in self._sizes)


def choices(
    name: str, known: Iterable[str], start: Start, *, few: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the changes of one field; drafts with the method that the rules choose, and ngram.

    few: the values of the default sweep, where there is one, and one method only.
    """
    if name in known:
        return
    field = FIELDS[name]
    is_short = few and name != DRAFTS and field.sweep
    for value in field.sweep if is_short else field.tried_values(start.settings, start.model):
        if value != getattr(start.settings, name):
            yield {name: value}
            if name == DRAFTS and value and not few and METHOD not in known:
                yield {name: value, METHOD: NGRAM}


def together(
    names: Iterable[str], known: Iterable[str], start: Start, counts: tuple[int, int]
) -> Iterator[dict[str, Any]]:
    """Yield the changes of several fields at once, fewest first. counts: of fields, from and to."""
    options = [list(choices(name, known, start, few=True)) for name in names]
    for count in range(counts[0], counts[1] + 1):
        for several in combinations(filter(None, options), count):
            for picked in product(*several):
                yield {name: value for change in picked for name, value in change.items()}


def settings_of(fields: Changes) -> Settings:
    """Return the settings of fields that were checked once; changed copies are not checked."""
    scenario = Scenario.from_dict(dict(fields))
    return Settings(**{name: getattr(scenario, name) for name in FIELDS if name != MODEL.name})
