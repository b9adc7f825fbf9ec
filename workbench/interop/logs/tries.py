"""Try changes of a scenario until the rules give every number of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations, product
from typing import Any, NamedTuple

from workbench.core.errors import WorkbenchError
from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.core.resolve import resolve_numbers
from workbench.core.speculation import NGRAM
from workbench.interop.logs.message import Compare
from workbench.interop.logs.numbers import PRINTED, pool_of
from workbench.models.drafter import load_with
from workbench.scenario import FIELDS, MODEL, Scenario, Settings
from workbench.scenario.fields import changed

DRAFTS, METHOD = "num_speculative_tokens", "speculative_method"
CAPABILITY = "compute_capability"
OF_THE_MODEL = frozenset({"max_model_len"})
"""A refusal for such a field is one of the model: no change of another field lifts it."""
Changes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """A number that the log names."""

    compare: Compare
    said: Any

    def hit(self, plan: Any) -> bool:
        """Return whether the plan has it. plan: of `is_size`, `Sizes` as well."""
        return self.compare.has(plan, self.said)


class Sizes(NamedTuple):
    """What a plan has for targets that are sizes."""

    block_size: int
    padding_percent: float | None

    @classmethod
    def of(cls, plan: Plan) -> Sizes:
        """Return those of a plan."""
        return cls(plan.block_size, plan.padding_percent)


class Refusal(NamedTuple):
    """No plan: the rules refuse a value of this field."""

    field: str | None


class Outcome:
    """A change of a scenario, and what is known of it."""

    __slots__ = ("change", "count", "known")

    def __init__(self, change: Changes) -> None:
        self.change = change
        self.count = len(change.keys() - {METHOD})
        self.known: Sizes | Plan | Refusal | None = None

    def plan(self, start: Start, may_fit: Callable[[Sizes], bool]) -> Plan | Refusal | None:
        """Return the plan or its refusal; None where its sizes cannot be the wanted ones."""
        if isinstance(self.known, Plan):
            return self.known if may_fit(Sizes.of(self.known)) else None
        if isinstance(self.known, Refusal):
            return self.known
        if self.known is not None and not may_fit(self.known):
            return None

        def note(plan: Plan) -> bool:
            self.known = sizes = Sizes.of(plan)
            return may_fit(sizes)

        try:
            plan = resolve_numbers(start.model, changed(start.settings, self.change), note)
        except WorkbenchError as error:
            refusal = Refusal(error.field)  # the error itself would keep all its frames
            self.known = self.known or refusal
            return refusal
        if start.keeps_plans and plan is not None:
            self.known = plan
        return plan


Step = Callable[["Start", Changes], Iterable[Changes]]
"""What yields changes of a scenario. The second argument are fields that stay unchanged."""


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
    known: dict[Step, tuple[Outcome, ...]] = field(default_factory=dict)
    """What earlier searches from the same scenario found out."""
    keeps_plans: bool = False
    """Whether they had the same pool, too; whole plans are too large for many scenarios."""

    def outcomes(self, step: Step, fixed: Changes) -> tuple[Outcome, ...]:
        """Return the changes of a step, in its order. fixed: the same in every search."""
        if step not in self.known:
            self.known[step] = tuple(map(Outcome, step(self, fixed)))
        return self.known[step]


def start_of(fields: Changes) -> Start | None:
    """Return the scenario of these fields; None where they cannot be one."""
    try:
        settings = settings_of(fields)
        model = load_with(fields[MODEL.name], settings)
    except WorkbenchError:
        return None
    return Start(model=model, settings=settings, fields=fields)


class Tries:
    """Tries changes, `left` of them at most."""

    def __init__(self, targets: Iterable[Target], left: int) -> None:
        self.left = left
        self.near: dict[str, tuple[Outcome, dict[str, Any], Plan]] = {}
        """Model -> the first change that hits every block size, but not every other number."""
        self._targets = tuple(targets)
        sizes = self._sizes = [target for target in self._targets if target.compare.is_size]
        self._has_sizes = cache(lambda found: all(target.hit(found) for target in sizes))
        said = {target.compare.value: target.said for target in self._targets}
        self._printed = [said[name] for name in PRINTED if name in said]

    def hits(
        self, start: Start, outcomes: Iterable[Outcome]
    ) -> Iterator[tuple[Changes, dict[str, Any], Plan]]:
        """Yield the changes that hit every target, with all fields and the plan."""
        for one in outcomes:
            if self.left <= 0 or start.is_refused or one.count > (start.fewest or one.count):
                return
            self.left -= 1
            found = self._wanted(start, one)
            if isinstance(found, Refusal):
                start.is_refused = found.field in OF_THE_MODEL - one.change.keys()
            elif found is not None:
                start.fewest = one.count
                yield one.change, {**start.fields, **one.change}, found

    def _wanted(self, start: Start, one: Outcome) -> Plan | Refusal | None:
        plan = one.plan(start, self._has_sizes)
        if not isinstance(plan, Plan):
            return plan
        is_hit = self._is_hit(plan)
        if not is_hit and (start.model.name in self.near or not self._sizes):
            return None
        fields = {**start.fields, **one.change}
        try:
            Scenario.from_dict(fields)
        except WorkbenchError as error:  # what contradicts other fields
            return Refusal(error.field)
        if not is_hit:
            self.near[start.model.name] = (one, fields, plan)
        return plan if is_hit else None

    def _is_hit(self, plan: Plan) -> bool:
        """Return whether the plan has every number, and one pool all of those that depend on it."""
        cache = plan.cache
        if cache is None or cache.num_blocks is not None or len(self._printed) < len(PRINTED):
            return all(target.hit(plan) for target in self._targets)
        others = (target for target in self._targets if target.compare.value not in PRINTED)
        return all(one.hit(plan) for one in others) and pool_of(plan, *self._printed) is not None

    def lacks(self, plan: Plan) -> tuple[str, ...]:
        """Return the names of the numbers that the plan does not have."""
        return tuple(one.compare.value for one in self._targets if not one.hit(plan))


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


def backend_changes(plan: Plan, fields: Changes, named: Changes) -> Iterator[Changes]:
    """Yield what may give the backend that a log names. fields: what it says already.

    A backend that runs on other platforms only says that the log's is another: ROCm prints cuda as
    its device. A list of candidates that FlashInfer leads names the device as well, which explains
    the choice; so does a backend that runs on some devices only.
    """
    requested = {"backend": named["backend"]}
    known = plan.rules.backends
    runs_on = known[requested["backend"]].platforms if requested["backend"] in known else ()
    if runs_on and plan.platform.name not in runs_on and "device" not in fields:
        others = [{"platform": name} for name in runs_on]
        yield from others
        yield from ({**one, **requested} for one in others)
    if CAPABILITY in named:
        yield {CAPABILITY: named[CAPABILITY]}
    yield requested
    if not {CAPABILITY, "device"} & fields.keys():
        values = FIELDS[CAPABILITY].tried_values(plan.settings, plan.model)
        yield from ({CAPABILITY: value} for value in values if value is not None)
