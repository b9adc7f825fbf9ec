"""Goldens: the last recorded results of every case of a matrix, one file per notebook.

A golden shows that nothing changed, not that it is right: values from other sources are in
`expect` of the matrix file, and no command rewrites them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from workbench.access.files import FileUse, write_file
from workbench.notebooks.expectations import Golden
from workbench.notebooks.matrix import Case, Matrix
from workbench.notebooks.problems import NotebookMatrixError, NotebookResult
from workbench.notebooks.result_checks import comparable
from workbench.notebooks.strict import Strict, read_strict

GOLDEN = FileUse("file of goldens", 64 * 2**20, "goldens")
Cases = Mapping[str, Mapping[str, Any]]


class GoldenCase(Strict):
    """What a case gave, and with which parameters."""

    parameters: dict[str, Any]
    results: dict[str, Any]


class GoldenFile(Strict):
    """The goldens of one notebook, by the names of its cases."""

    format: Literal[1]
    cases: dict[str, GoldenCase]


def read_goldens(path: Path) -> Cases:
    """Return case -> {"parameters", "results"}, as far as recorded. Raises NotebookMatrixError."""
    if not path.exists():
        return {}
    try:
        found = read_strict(path, GOLDEN, GoldenFile)
    except ValueError as error:
        again = "Delete it and record it with --update-goldens."
        message = f"{path} is not a file of goldens: {error}. {again}"
        raise NotebookMatrixError("golden_file", message, field="goldens") from error
    return {name: case.model_dump() for name, case in found.cases.items()}


def write_goldens(path: Path, new: Cases, keep: Iterable[str]) -> None:
    """Put new cases into the file; of the other cases only `keep` stay."""
    kept = {name: case for name, case in read_goldens(path).items() if name in set(keep)}
    cases = dict(sorted({**kept, **new}.items()))
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": 1, "cases": cases}, ensure_ascii=False, indent=1)
    write_file(path, text + "\n")


def golden_of(matrix: Matrix, case: Case) -> Golden | None:
    """Return the golden of a case; None if its notebook has none."""
    if case.golden_path is None:
        return None
    stored = read_goldens(case.golden_path).get(case.name, {})
    file = case.golden_path.relative_to(matrix.path.parent).as_posix()
    update = matrix.command(case, "--update-goldens")
    return Golden(stored.get("parameters"), stored.get("results"), file, update)


def record_goldens(
    matrix: Matrix, runs: Iterable[tuple[Case, NotebookResult]], *, whole: bool
) -> None:
    """Record these runs; remove goldens of removed cases if all cases were run."""
    new: dict[Path, dict[str, dict[str, Any]]] = {}
    for case, run in runs:
        if case.golden_path and run.results is not None:
            kept = comparable(run.results, case.expectations.volatile)
            entry = {"parameters": dict(run.parameters), "results": kept}
            new.setdefault(case.golden_path, {})[case.name] = entry
    for path, cases in new.items():
        write_goldens(path, cases, _names(matrix)[path] if whole else read_goldens(path))


def orphans(matrix: Matrix) -> Iterator[str]:
    """Return one line for each golden without a case."""
    for path, names in _names(matrix).items():
        for gone in sorted(read_goldens(path).keys() - names):
            fix = "remove it, or run the whole matrix with --update-goldens"
            why = f"{path.name} has {gone!r}, which is not a case of the matrix"
            yield f"stale_golden: {why}: {fix}"


def _names(matrix: Matrix) -> dict[Path, set[str]]:
    """Return file of goldens -> names of the cases that belong into it."""
    paths = {case.golden_path for case in matrix.cases if case.golden_path}
    return {
        path: {case.name for case in matrix.cases if case.golden_path == path} for path in paths
    }
