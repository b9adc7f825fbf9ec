"""Run a matrix: cases in parallel, every failure kept, goldens compared or recorded again.

Its report becomes JUnit XML, which every CI service can show, and an HTML page.
"""

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any, cast
from urllib.parse import quote

from workbench.access.files import write_file
from workbench.notebooks.execute import STOP
from workbench.notebooks.expectations import Golden
from workbench.notebooks.golden import golden_of, orphans, record_goldens
from workbench.notebooks.matrix import Case, Matrix
from workbench.notebooks.problems import NotebookError, NotebookProblem, NotebookResult
from workbench.notebooks.runner import run_notebook
from workbench.notebooks.source_rules import COMMON_RULES, check_notebook_source

EXECUTED = ".executed.ipynb"
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class CaseResult:
    """One case and its run; `rerun`: the command that repeats it."""

    case: Case
    run: NotebookResult
    rerun: str

    def report(self) -> str:
        """Return text for a terminal: the run's own, under the case's name, with the command."""
        if self.run.ok:
            return f"{self.case.case_id}: {self.run.report().partition(': ')[2]}"
        return f"{self.case.case_id}\n{self.run.report()}\n  case: {self.rerun}"


@dataclass(frozen=True)
class MatrixReport:
    """All the cases that were run, in the order of the matrix."""

    results: tuple[CaseResult, ...]
    duration_s: float
    problems: tuple[str, ...]
    excluded: Mapping[str, str]

    @property
    def ok(self) -> bool:
        """Return whether every case passed and the goldens belong to cases."""
        return not self.problems and not self.failed

    @property
    def failed(self) -> tuple[CaseResult, ...]:
        """Return the cases with a problem."""
        return tuple(result for result in self.results if not result.run.ok)

    def reasons(self, name: str) -> list[str]:
        """Return every reason of all runs, of `skipped_gpu_cells` or `failed_kernel_starts`."""
        return [reason for result in self.results for reason in result.run.numbers[name]]

    def summary(self) -> str:
        """Return counts: passed, failed, skipped, started again, excluded; and the reasons."""
        count, failed = len(self.results), len(self.failed)
        skipped = self.reasons("skipped_gpu_cells")
        counts = f"{count} runs: {count - failed} ok, {failed} failed, in {self.duration_s:.0f} s"
        lines = [counts, f"{len(skipped)} GPU cells skipped"]
        lines += [f"  {number} x {reason}" for reason, number in Counter(skipped).items()]
        lines += [
            f"kernel started again: {each.case.case_id}: {'; '.join(each.run.failed_starts)}"
            for each in self.results
            if each.run.failed_starts
        ]
        lines += [f"excluded: {case_id}: {reason}" for case_id, reason in self.excluded.items()]
        return "\n".join([*lines, *self.problems])

    def write(self, template: str, path: Path) -> None:
        """Write the report as `junit.xml` or `index.html`, the names of the templates.

        The page has no scripts, and is placed next to the executed notebooks. In the XML, an
        excluded combination is a skipped test with its reason.
        """
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        environment = Environment(
            loader=FileSystemLoader(Path(__file__).with_name("templates")),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
        )

        def link(result: CaseResult, suffix: str = ".html") -> str:
            """Return the address of a file of the run, empty if the case was not run."""
            target = result.run.output_path
            stem = target.name.removesuffix(EXECUTED)
            if stem == target.name:
                return ""
            found = target.with_name(stem + suffix)
            return quote(Path(os.path.relpath(found, path.parent)).as_posix())

        text = environment.get_template(f"{template}.j2").render(report=self, link=link)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text))


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

    stop = Event()

    def run(case: Case) -> CaseResult:
        STOP.set(stop)
        golden = None if update_goldens else golden_of(matrix, case)
        result = run_case(matrix, case, output_dir, golden=golden, time_scale=time_scale)
        done(result)
        return result

    with ThreadPoolExecutor(max(1, workers)) as pool:
        try:
            results = tuple(pool.map(run, chosen))
        except BaseException:  # Ctrl-C, of which the runs in other threads do not hear
            stop.set()
            raise
    whole = {case.case_id for case in chosen} >= {case.case_id for case in matrix.cases}
    if update_goldens:
        good = [(each.case, each.run) for each in results if each.run.ok]
        record_goldens(matrix, good, whole=whole)
    return MatrixReport(
        results=results,
        duration_s=time.monotonic() - start,
        problems=tuple(orphans(matrix)) if whole else (),
        excluded=matrix.excluded if whole else {},
    )


def run_case(
    matrix: Matrix, case: Case, output_dir: str | Path, *, golden: Golden | None, time_scale: float
) -> CaseResult:
    """Run one case. Misuse, such as a parameter that does not exist, is a problem of the case."""
    budgets = case.expectations.budgets.scaled(time_scale)
    wanted = replace(case.expectations, golden=golden, budgets=budgets)
    try:
        run = _not_run(case, check_notebook_source(case.notebook, COMMON_RULES))
        if run.ok:
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
        problem = NotebookProblem(cast("Any", error.code), None, error.message)
        run = _not_run(case, (problem,))
    return CaseResult(case, run, matrix.command(case))


def _not_run(case: Case, problems: tuple[NotebookProblem, ...]) -> NotebookResult:
    path = case.notebook
    return NotebookResult(path, output_path=path, problems=problems, parameters=case.parameters)
