"""The caller's side of the results: read the file, and compare it with the expectation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from workbench.access.files import FileError, FileUse, read_start
from workbench.core.errors import nearest_names
from workbench.notebooks.problems import NotebookProblem
from workbench.notebooks.strict import Strict, read_strict

RESULTS = FileUse("results file", 64 * 2**20)


class ResultsFile(Strict):
    """What `write_results` writes."""

    schema_version: Literal[1]
    results: dict[str, Any]
    skipped: list[Annotated[str, Field(min_length=1)]]


@dataclass(frozen=True, slots=True)
class ResultsRecord:
    """The results of a notebook; `problems` state why `results` is None."""

    results: dict[str, Any] | None
    skipped: tuple[str, ...] = ()
    problems: tuple[NotebookProblem, ...] = ()


def read_results(path: Path) -> ResultsRecord:
    """Return the recorded results; a missing or malformed file is a problem, not an error."""
    if not path.exists():
        why = "the notebook recorded no results: end it with `record_results(name=value, ...)`"
        return ResultsRecord(None, problems=(NotebookProblem("no_results", None, why),))
    start = ""
    try:
        start = read_start(path, 500, RESULTS).decode(errors="replace")
        found = read_strict(path, RESULTS, ResultsFile)
    except ValueError as error:
        why = error.message if isinstance(error, FileError) else str(error)
        message = f"the results file is malformed: {why}; write it with `record_results`"
        problem = NotebookProblem("bad_results", None, message, start)
        return ResultsRecord(None, problems=(problem,))
    return ResultsRecord(found.results, tuple(found.skipped))


def check_expected(
    results: Mapping[str, Any], expected: Mapping[str, Any], *, complete: bool = True
) -> tuple[NotebookProblem, ...]:
    """Return one problem per expected value that differs, or (if `complete`) is missing.

    Compared as JSON holds them: a tuple equals a list, 1 equals 1.0, True does not equal 1.
    """
    problems = []
    for name, wanted in expected.items():
        if name in results and not same_value(results[name], wanted):
            problems.append(f"result {name!r} is {results[name]!r:.200}, expected {wanted!r:.200}")
        elif name not in results and complete:
            near = nearest_names(name, results)
            hint = f"; nearest: {', '.join(near)}" if near else ""
            recorded = ", ".join(sorted(results)) or "nothing"
            problems.append(
                f"result {name!r} was expected but not recorded{hint}; recorded: {recorded}"
            )
    return tuple(NotebookProblem("unexpected_result", None, message) for message in problems)


def comparable(results: Mapping[str, Any], volatile: Iterable[str]) -> dict[str, Any]:
    """Return the results that a golden keeps."""
    omitted = set(volatile)
    return {name: value for name, value in results.items() if name not in omitted}


def same_value(new: object, old: object) -> bool:
    """Compare values as JSON holds them; non-integers may differ in the last bits."""
    if isinstance(new, bool) or isinstance(old, bool):
        return new is old
    if isinstance(new, int | float) and isinstance(old, int | float):
        return math.isclose(new, old, rel_tol=1e-9)
    if isinstance(new, list) and isinstance(old, list | tuple):
        return len(new) == len(old) and all(map(same_value, new, old))
    if isinstance(new, dict) and isinstance(old, dict):
        return new.keys() == old.keys() and all(same_value(new[name], old[name]) for name in new)
    return new == old
