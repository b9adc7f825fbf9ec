"""Goldens: the last recorded results of every case of a matrix, one file per notebook.

A golden shows that nothing changed, not that it is right: values from other sources are in
`expect` of the matrix file, and no command rewrites them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from workbench.access.files import FileError, FileUse, read_text
from workbench.access.json_text import parse_json
from workbench.run.notebooks.errors import NotebookMatrixError
from workbench.run.notebooks.evidence import Evidence
from workbench.run.notebooks.expectations import Golden
from workbench.run.notebooks.problems import NotebookProblem

GOLDEN = FileUse("file of goldens", 64 * 2**20, "goldens")
FORMAT = 1
Cases = Mapping[str, Mapping[str, Any]]


def read_goldens(path: Path) -> Cases:
    """Return case -> {"parameters", "results"}; empty if there is no such file.

    Raises NotebookMatrixError if the file is not valid.
    """
    if not path.exists():
        return {}
    try:
        document = parse_json(read_text(path, GOLDEN))
    except FileError as error:
        raise NotebookMatrixError("golden_file", error.message, field="goldens") from None
    except ValueError as error:
        raise _malformed(path, f"it is not JSON ({error})") from error
    match document:
        case {"format": int(number), "cases": dict(cases)} if number == FORMAT:
            wrong = [name for name, case in cases.items() if set(case) != {"parameters", "results"}]
            if not wrong:
                return cases
            raise _malformed(path, f"case {wrong[0]!r} needs exactly parameters and results")
    raise _malformed(path, f"it needs format ({FORMAT}) and cases (an object)")


def _malformed(path: Path, why: str) -> NotebookMatrixError:
    message = (
        f"{path} is not a file of goldens: {why}. Delete it and record it with --update-goldens."
    )
    return NotebookMatrixError("golden_file", message, field="goldens")


def write_goldens(path: Path, new: Cases, keep: Iterable[str]) -> None:
    """Put new cases into the file; of the other cases only `keep` stay."""
    kept = {name: case for name, case in read_goldens(path).items() if name in set(keep)}
    cases = dict(sorted({**kept, **new}.items()))
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": FORMAT, "cases": cases}, ensure_ascii=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def comparable(results: Mapping[str, Any], volatile: Iterable[str]) -> dict[str, Any]:
    """Return the results that a golden keeps."""
    omitted = set(volatile)
    return {name: value for name, value in results.items() if name not in omitted}


def golden_results(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Compare the results of a finished run with the golden of its case."""
    golden, results = evidence.expectations.golden, evidence.recorded.results
    if golden is None or results is None or evidence.stopped:
        return
    found = comparable(results, evidence.expectations.volatile)
    if golden.results is None:
        message = f"no golden in {golden.file}; record it: {golden.update}"
        yield NotebookProblem("no_golden", None, message)
        return
    stale = _why_stale(evidence, golden, found)
    if stale:
        message = f"the golden in {golden.file} is stale: {stale}; record it anew: {golden.update}"
        yield NotebookProblem("stale_golden", None, message)
        return
    for name, value in found.items():
        if not same_value(value, golden.results[name]):
            message = (
                f"result {name!r} is {value!r:.200}, the golden in {golden.file} says "
                f"{golden.results[name]!r:.200}; if the new value is right: {golden.update}"
            )
            yield NotebookProblem("golden_differs", None, message)


def _why_stale(evidence: Evidence, golden: Golden, found: Mapping[str, Any]) -> str:
    assert golden.results is not None
    given = evidence.execution.parameters
    if dict(golden.parameters or {}) != dict(given):
        return f"it was recorded with {dict(golden.parameters or {})}, this case gives {given}"
    added, gone = sorted(found.keys() - golden.results), sorted(golden.results.keys() - found)
    parts = [f"{', '.join(added)} is not in it"] if added else []
    parts += [f"{', '.join(gone)} is no longer recorded"] if gone else []
    return " and ".join(parts)


def same_value(new: object, old: object) -> bool:
    """Compare values as JSON holds them; non-integers may differ in the last bits."""
    if isinstance(new, bool) or isinstance(old, bool):
        return new is old
    if isinstance(new, int | float) and isinstance(old, int | float):
        return math.isclose(new, old, rel_tol=1e-9)
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(map(same_value, new, old))
    if isinstance(new, dict) and isinstance(old, dict):
        return new.keys() == old.keys() and all(same_value(new[name], old[name]) for name in new)
    return new == old
