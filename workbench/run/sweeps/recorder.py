"""A `Run` that tells what a stage read and wrote, so that a stage runs once for equal inputs.

The rules themselves are what is run: nothing of them is written down a second time here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from workbench.core.capacity.blocks import CachePlan, cache_plan
from workbench.core.groups.grouping import Grouping
from workbench.core.groups.of_plan import grouping_of
from workbench.core.model import Model
from workbench.core.problems import ERROR
from workbench.core.rule_set import RuleSet
from workbench.core.run import Run
from workbench.core.settings import Settings

SETTING: Final = "settings."
FIXED = frozenset(
    {"model", "rules", "settings", "steps", "problems", "log_lines", "_cache", "_grouping"}
)
"""What is no value of a point: `problems` are collected, the rest is the same for all points."""


class ReadsMoreError(BaseException):
    """A stage read what was not among its known inputs; no `except` of a stage must catch it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class _Nothing:
    """Takes what a stage tells people, and drops it."""

    def append(self, _told: object) -> None:
        """Drop it."""

    def __iadd__(self, _told: object) -> Self:
        return self


class _Settings:
    """The settings of a point; reading one is recorded."""

    __slots__ = ("_recorder",)

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        return self._recorder.read(SETTING + name)


class Recorder(Run):
    """The run of one combination of inputs. given: input -> value; what is written is kept apart.

    hidden: inputs that read as these values whatever they are. together: whether it stands for
    several combinations, with a `Many` for some numbers.
    """

    def __init__(
        self,
        model: Model,
        rules: RuleSet,
        given: Mapping[str, Any],
        hidden: Mapping[str, Any],
        *,
        together: bool = False,
    ) -> None:
        for name, value in (
            ("model", model),
            ("rules", rules),
            ("settings", _Settings(self)),
            ("log_lines", _Nothing()),
            ("given", given),
            ("hidden", hidden),
            ("together", together),
            ("written", {}),
            ("found", []),
        ):
            object.__setattr__(self, name, value)

    given: Mapping[str, Any]
    hidden: Mapping[str, Any]
    together: bool
    written: dict[str, Any]
    found: list[tuple[str, str]]

    def close(self) -> None:
        """The stage is over: what leads from the settings back to here would keep both alive."""
        object.__setattr__(self, "settings", None)

    def read(self, name: str) -> Any:
        """The value of an input. Raises ReadsMoreError for one that is not given."""
        try:
            return self.given[name]
        except KeyError:
            if name in self.hidden:
                return self.hidden[name]
            raise ReadsMoreError(name) from None

    @property
    def grouping(self) -> Grouping:
        """Built anew each time: what it reads is what the stage depends on."""
        return grouping_of(self)

    @property
    def cache(self) -> CachePlan | None:
        """Built anew each time, too."""
        return cache_plan(self)

    def forget_cache(self) -> None:
        """Nothing is kept."""

    def step(self, *_told: Any, **_operands: Any) -> None:
        """The trace of a single plan tells that."""

    def problem(self, code: str, *_told: Any, severity: str = ERROR, **_operands: Any) -> None:
        """Keep the code and the severity."""
        self.found.append((code, severity))


def _recorded(name: str) -> property:
    def read(self: Recorder) -> Any:
        return self.written[name] if name in self.written else self.read(name)

    def write(self: Recorder, value: Any) -> None:
        self.written[name] = value

    return property(read, write)


ATTRIBUTES: Final = tuple(name for name in Run.__slots__ if name not in FIXED)
"""Attributes of a run that stages decide."""

for _name in ATTRIBUTES:
    setattr(Recorder, _name, _recorded(_name))


class _Start(Recorder):
    """Tells one attribute of a run before any stage, and what that attribute was made from."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ATTRIBUTES:
            self.written[name] = value
            self.reads_of[name] = tuple(dict.fromkeys(self.reads))
            self.reads.clear()

    reads: list[str]
    reads_of: dict[str, tuple[str, ...]]

    def read(self, name: str) -> Any:
        self.reads.append(name)
        return self.given[name]


def initial(model: Model, rules: RuleSet, settings: Settings) -> _Start:
    """A run before any stage: `written` are its attributes, `reads_of` the settings behind each."""
    values = {SETTING + name: getattr(settings, name) for name in vars(settings)}
    start = _Start.__new__(_Start)
    for name, value in (("given", values), ("written", {}), ("reads", []), ("reads_of", {})):
        object.__setattr__(start, name, value)
    Run.__init__(start, model, _Settings(start), rules)  # type: ignore[arg-type]
    return start
