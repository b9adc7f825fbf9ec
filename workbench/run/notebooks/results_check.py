"""The caller's side of the results: read the file, and compare it with the expectation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.access.files import FileError, FileUse, read_text
from workbench.access.json_text import parse_json
from workbench.core.errors import nearest_names
from workbench.run.notebooks.problems import NotebookProblem
from workbench.run.notebooks.schema import file_schema, schema_errors

RESULTS = FileUse("results file", 64 * 2**20)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The results of a notebook; `problems` state why `results` is None."""

    results: dict[str, Any] | None
    skipped: tuple[str, ...] = ()
    problems: tuple[NotebookProblem, ...] = ()


def read_results(path: Path) -> Recorded:
    """Return the recorded results; a missing or malformed file is a problem, not an error."""
    if not path.exists():
        why = "the notebook recorded no results: end it with `record_results(name=value, ...)`"
        return Recorded(None, problems=(NotebookProblem("no_results", None, why),))
    try:
        text = read_text(path, RESULTS)
    except FileError as error:
        return _malformed(error.message, "")
    try:
        document = parse_json(text)
    except ValueError as error:
        return _malformed(f"it is not JSON ({error})", text)
    errors = schema_errors(document, file_schema())
    if errors:
        place, reason = errors[0]
        return _malformed(f"{reason} (at {place})", text)
    return Recorded(document["results"], tuple(document["skipped"]))


def _malformed(why: str, text: str) -> Recorded:
    message = f"the results file is malformed: {why}; write it with `record_results`"
    return Recorded(None, problems=(NotebookProblem("bad_results", None, message, text[:500]),))


def check_expected(
    results: Mapping[str, Any], expected: Mapping[str, Any], *, complete: bool = True
) -> tuple[NotebookProblem, ...]:
    """Return one problem per expected value that differs, or (if `complete`) is missing.

    Compared as JSON holds them: a tuple equals a list, 1 equals 1.0, True does not equal 1.
    """
    problems = []
    for name, wanted in expected.items():
        if name not in results:
            if complete:
                problems.append(_missing(name, results))
        elif not _same(results[name], wanted):
            message = f"result {name!r} is {results[name]!r:.200}, expected {wanted!r:.200}"
            problems.append(NotebookProblem("unexpected_result", None, message))
    return tuple(problems)


def _missing(name: str, results: Mapping[str, Any]) -> NotebookProblem:
    near = nearest_names(name, results)
    hint = f"; nearest: {', '.join(near)}" if near else ""
    recorded = ", ".join(sorted(results)) or "nothing"
    message = f"result {name!r} was expected but not recorded{hint}; recorded: {recorded}"
    return NotebookProblem("unexpected_result", None, message)


def _same(recorded: object, wanted: object) -> bool:
    if isinstance(recorded, bool) != isinstance(wanted, bool):
        return False
    return bool(recorded == json.loads(json.dumps(wanted)))
