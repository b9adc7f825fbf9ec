"""Run a matrix: cases in parallel, every failure kept, goldens compared or recorded again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from workbench.run.notebooks.document import read_notebook
from workbench.run.notebooks.errors import NotebookError
from workbench.run.notebooks.expectations import Expectations, Golden
from workbench.run.notebooks.golden import comparable, read_goldens, write_goldens
from workbench.run.notebooks.matrix import Case, ExcludedCase, Matrix
from workbench.run.notebooks.problems import NotebookProblem, NotebookResult, ProblemKind
from workbench.run.notebooks.runner import run_notebook
from workbench.run.notebooks.source_rules import COMMON_RULES

_OF_GOLDENS = frozenset({"no_golden", "stale_golden", "golden_differs"})


@dataclass(frozen=True)
class CaseResult:
    """One case and its run; `rerun`: the command that repeats it."""

    case: Case
    run: NotebookResult
    rerun: str

    @property
    def ok(self) -> bool:
        """Return whether nothing was found."""
        return self.run.ok

    def report(self) -> str:
        """Return text for a terminal: the run's own, under the case's name, with the command."""
        if self.ok:
            return f"{self.case.case_id}: {self.run.report().partition(': ')[2]}"
        return f"{self.case.case_id}\n{self.run.report()}\n  case: {self.rerun}"


@dataclass(frozen=True)
class MatrixReport:
    """All the cases that were run, in the order of the matrix."""

    matrix: Matrix
    results: tuple[CaseResult, ...]
    duration_s: float
    problems: tuple[str, ...] = ()
    excluded: tuple[ExcludedCase, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether every case passed and the goldens belong to cases."""
        return not self.problems and all(result.ok for result in self.results)

    def summary(self) -> str:
        """Return counts in a few lines, and reasons.

        Passed, failed, GPU cells skipped, kernels started again, combinations excluded.
        """
        failed = sum(not result.ok for result in self.results)
        passed = len(self.results) - failed
        counts = f"{len(self.results)} runs: {passed} ok, {failed} failed"
        lines = [f"{counts}, in {self.duration_s:.0f} s"]
        reasons = [reason for result in self.results for reason in result.run.skipped]
        lines.append(f"{len(reasons)} GPU cells skipped")
        lines += [f"  {reasons.count(reason)} x {reason}" for reason in dict.fromkeys(reasons)]
        again = [each for each in self.results if each.run.failed_starts]
        lines += [
            f"kernel started again: {each.case.case_id}: {'; '.join(each.run.failed_starts)}"
            for each in again
        ]
        lines += [f"excluded: {each.case_id}: {each.reason}" for each in self.excluded]
        return "\n".join([*lines, *self.problems])


def run_matrix(
    matrix: Matrix,
    cases: Sequence[Case] | None = None,
    *,
    output_dir: str | Path,
    workers: int = 1,
    update_goldens: bool = False,
    time_scale: float = 1.0,
    done: Callable[[CaseResult], None] = lambda _: None,
) -> MatrixReport:
    """Run the cases (all unless given), `workers` at a time, each in a kernel of its own.

    The executed notebooks, without widget state, and their results go to `output_dir`.
    `time_scale` multiplies the budgets of time, for a machine slower than CI's; `done` is called
    after each run. With `update_goldens` the results of runs that are otherwise good become the
    goldens. Raises NotebookMatrixError for a broken file of goldens.
    """
    chosen = matrix.cases if cases is None else tuple(cases)
    start = time.monotonic()

    def run(case: Case) -> CaseResult:
        result = run_case(matrix, case, output_dir, time_scale=time_scale)
        if update_goldens:
            result = _without_goldens(result)
        done(result)
        return result

    with ThreadPoolExecutor(max(1, workers)) as pool:
        results = tuple(pool.map(run, chosen))
    whole = {case.case_id for case in chosen} >= {case.case_id for case in matrix.cases}
    if update_goldens:
        _update(matrix, results, whole=whole)
    return MatrixReport(
        matrix,
        results,
        time.monotonic() - start,
        tuple(orphans(matrix)) if whole else (),
        matrix.excluded if whole else (),
    )


def run_case(
    matrix: Matrix, case: Case, output_dir: str | Path, *, time_scale: float = 1.0
) -> CaseResult:
    """Run one case. Misuse, such as a parameter that does not exist, is a problem of the case."""
    rerun = matrix.command(case)
    stored = read_goldens(case.golden_path).get(case.name, {}) if case.golden_path else {}
    golden = None
    if case.golden_path:
        file = case.golden_path.relative_to(matrix.path.parent).as_posix()
        update = matrix.command(case, "--update-goldens")
        golden = Golden(stored.get("parameters"), stored.get("results"), file, update)
    wanted = Expectations(
        values=case.expect,
        schema=case.schema,
        golden=golden,
        volatile=case.volatile,
        budgets=case.budgets.scaled(time_scale),
        gpu_cells=case.gpu_cells,
    )
    try:
        found = source_problems(case.notebook)
        if found:
            return CaseResult(case, _not_run(case, *found), rerun)
        run = run_notebook(
            case.notebook,
            case.parameters,
            output_dir=output_dir,
            timeout_s=case.timeout_s,
            keep_widget_state=False,
            name=case.stem,
            expectations=wanted,
        )
    except NotebookError as error:
        kind = cast("ProblemKind", error.code)
        return CaseResult(case, _not_run(case, NotebookProblem(kind, None, error.message)), rerun)
    return CaseResult(case, run, rerun)


def source_problems(path: Path) -> tuple[NotebookProblem, ...]:
    """Return problems of the notebook's source: committed outputs, size, parameters."""
    notebook = read_notebook(path)
    return tuple(problem for rule in COMMON_RULES for problem in rule(notebook))


def _not_run(case: Case, *problems: NotebookProblem) -> NotebookResult:
    return NotebookResult(
        case.notebook, case.notebook, None, (), 0.0, problems=problems, parameters=case.parameters
    )


def _without_goldens(result: CaseResult) -> CaseResult:
    left = tuple(problem for problem in result.run.problems if problem.kind not in _OF_GOLDENS)
    return replace(result, run=replace(result.run, problems=left))


def _update(matrix: Matrix, results: Sequence[CaseResult], *, whole: bool) -> None:
    """Record every good run; remove goldens of removed cases if all cases were run."""
    new: dict[Path, dict[str, dict[str, Any]]] = {}
    for result in results:
        if result.ok and result.case.golden_path and result.run.results is not None:
            kept = comparable(result.run.results, result.case.volatile)
            entry = {"parameters": dict(result.run.parameters), "results": kept}
            new.setdefault(result.case.golden_path, {})[result.case.name] = entry
    for path, cases in new.items():
        names = {case.name for case in matrix.cases if case.golden_path == path}
        write_goldens(path, cases, names if whole else read_goldens(path))


def orphans(matrix: Matrix) -> Iterator[str]:
    """Return one line for each golden without a case."""
    paths = dict.fromkeys(case.golden_path for case in matrix.cases if case.golden_path)
    for path in paths:
        names = {case.name for case in matrix.cases if case.golden_path == path}
        for gone in sorted(read_goldens(path).keys() - names):
            yield (
                f"stale_golden: {path.name} has {gone!r}, which is not a case of the matrix: "
                "remove it, or run the whole matrix with --update-goldens"
            )
