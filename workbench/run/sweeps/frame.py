"""The state of a whole grid of scenarios, stage by stage: each stage runs once for equal inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core.errors import WorkbenchError
from workbench.core.model import Model
from workbench.core.rule_set import RuleSet
from workbench.core.settings import Settings
from workbench.run.sweeps.arrays import Codes, narrowed
from workbench.run.sweeps.columns import (
    Collected,
    Combinations,
    along,
    combinations,
    constant,
    from_choice,
)
from workbench.run.sweeps.paths import Path, Paths
from workbench.run.sweeps.recorder import ATTRIBUTES, SETTING, ReadsMoreError, Recorder, initial

Work = Callable[[Recorder], None]
Problems = Sequence[tuple[str, str]]
MAX_PROBLEMS = 63
NOTHING: Mapping[str, Any] = {}

_known_reads: dict[Any, tuple[str, ...]] = {}
"""What stages were seen to read: saves the next sweep from finding out; never changes a result."""


class Frame:
    """One model and one rule set over a grid of settings.

    axes: (field, values) in the order of the grid. columns: value of every setting and attribute.
    bits: (code, severity) -> bit in `problems`. checked: called between runs of stages, may raise.
    evaluations: how often a stage really ran.
    """

    def __init__(
        self,
        model: Model,
        rules: RuleSet,
        settings: Settings,
        axes: Sequence[tuple[str, Sequence[Any]]],
        bits: dict[tuple[str, str], int],
        checked: Callable[[], None] = lambda: None,
    ) -> None:
        self.model, self.rules, self.bits = model, rules, bits
        self.checked = checked
        self.shape = tuple(len(values) for _, values in axes)
        self.evaluations = 0
        self.problems: list[npt.NDArray[np.int64]] = []
        self._errors: list[tuple[Codes, tuple[Exception, ...]]] = []
        size = len(axes)
        self.columns = {
            SETTING + name: constant(size, getattr(settings, name)) for name in vars(settings)
        }
        for index, (field, values) in enumerate(axes):
            self.columns[SETTING + field] = along(index, size, values)
        self._start(settings)

    def _start(self, settings: Settings) -> None:
        """The attributes of a run before any stage, each from the settings behind it."""
        first = initial(self.model, self.rules, settings)
        for name in ATTRIBUTES:
            if name not in first.reads_of:
                continue
            reads = first.reads_of[name]
            while True:
                found = combinations([self.columns[read] for read in reads], len(self.shape))
                values, more = [], set()
                for row in found.rows:
                    given = {
                        read.removeprefix(SETTING): self.columns[read].values[code]
                        for read, code in zip(reads, row, strict=True)
                    }
                    run = initial(self.model, self.rules, _with(settings, given))
                    more |= set(run.reads_of[name]) - set(reads)
                    values.append(run.written[name])
                if not more:
                    break
                reads = (*reads, *sorted(more))
            self.columns[name] = from_choice(found.which, values)

    def value(self, name: str, point: Sequence[int]) -> Any:
        """The value of one column at one point."""
        column = self.columns[name]
        place = tuple(
            0 if length == 1 else at for at, length in zip(point, column.codes.shape, strict=True)
        )
        return column.values[column.codes[place]]

    def apply(
        self,
        work: Work,
        *,
        hidden: Mapping[str, Any] = NOTHING,
        writes: Sequence[str] = (),
        families: Sequence[str] = (),
    ) -> None:
        """Run a stage over the whole grid. hidden: inputs that it sees as these values.

        writes: columns that it adds besides attributes of a run; families: those of them whose
        values stay together, with the numbers of many points inside.
        """
        reads = tuple(
            name
            for name in _known_reads.get(work, ())
            if name in self.columns and name not in hidden
        )
        while True:
            try:
                found, paths = self._run_all(work, reads, hidden)
            except ReadsMoreError as more:
                if more.name not in self.columns:
                    raise KeyError(f"a stage read {more.name!r}, which no stage wrote") from more
                reads = (*reads, more.name)
                continue
            self.checked()
            written = {name for path in paths for name in path.run.written}
            self.checked()
            partly = {
                name
                for name in written - set(reads) - set(writes)
                if any(name not in path.run.written for path in paths)
            }
            if not partly:
                break
            reads = (*reads, *sorted(partly))
        _known_reads[work] = reads
        for name in sorted({*written, *writes}):
            collected = Collected(len(found.rows), keeps_families=name in families)
            for path in paths:
                self.checked()
                told = path.run.written
                collected.add(path.points, told[name] if name in told else path.run.given.get(name))
            self.checked()
            self.columns[name] = collected.column(found.which)
        self.checked()
        self._keep_problems(found, paths)
        self._keep_errors(found, paths)

    def _run_all(
        self, work: Work, reads: tuple[str, ...], hidden: Mapping[str, Any]
    ) -> tuple[Combinations, list[Path]]:
        columns = [self.columns[name] for name in reads]
        found = combinations(columns, len(self.shape), self.checked)
        runs = Paths(
            work,
            reads,
            columns,
            lambda given, *, together: Recorder(
                self.model, self.rules, given, hidden, together=together
            ),
            self.checked,
        )
        paths = list(runs.over(found.rows))
        self.evaluations += len(paths)
        return found, paths

    def _keep_problems(self, found: Combinations, paths: Sequence[Path]) -> None:
        if any(path.run.found for path in paths):
            masks = np.zeros(len(found.rows), dtype=np.int64)
            for path in paths:
                masks[path.points] = self.mask(path.run.found)
            self.problems.append(narrowed(masks[found.which]))

    def _keep_errors(self, found: Combinations, paths: Sequence[Path]) -> None:
        failed = [path for path in paths if path.error is not None]
        if failed:
            numbers = np.full(len(found.rows), -1, dtype=np.int32)
            for number, path in enumerate(failed):
                numbers[path.points] = number
            errors = tuple(path.error for path in failed if path.error is not None)
            self._errors.append((narrowed(numbers[found.which]), errors))

    def mask(self, problems: Problems) -> int:
        """The bits of these problems."""
        bits = 0
        for problem in problems:
            number = self.bits.setdefault(problem, len(self.bits))
            if number >= MAX_PROBLEMS:
                raise OverflowError(f"more than {MAX_PROBLEMS} kinds of problems in one sweep")
            bits |= 1 << number
        return bits

    def all_problems(self) -> npt.NDArray[np.int64]:
        """The bits of every point, in a shape that broadcasts to the grid's."""
        total = np.zeros([1] * len(self.shape), dtype=np.int64)
        for part in sorted(self.problems, key=lambda part: part.size):
            total = total | part
        return total

    def refusals(self, codes: dict[str, int]) -> npt.NDArray[np.int16]:
        """For each point the number of the code that refused it first, -1 for none; it broadcasts.

        A stage also ran for points that an earlier one had refused; what it raised there, no
        single resolution would have met. What it raises elsewhere is raised here.
        """
        refused = np.full([1] * len(self.shape), -1, dtype=np.int16)
        for which, errors in self._errors:
            table = np.full(len(errors) + 1, -1, dtype=np.int16)
            for index, error in enumerate(errors):
                if isinstance(error, WorkbenchError):
                    table[index] = codes.setdefault(error.code, len(codes))
                elif ((which == index) & (refused < 0)).any():
                    raise error
            refused = np.where(refused < 0, table[which], refused)
        return refused


def _with(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """A copy without any check: the values were checked when the sweep was described."""
    return Settings(**{**vars(settings), **changes})
