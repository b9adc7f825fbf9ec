"""The results that a notebook gives its caller: a small JSON file next to its executed copy."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.run.notebooks.errors import NotebookResultsError

RESULTS_VARIABLE = "WORKBENCH_RESULTS"
SCHEMA_VERSION = 1
_lock = threading.Lock()


def record_results(*, skipped: Sequence[str] = (), **values: Any) -> dict[str, Any]:
    """Record results given as keywords: `record_results(block_size=528)`."""
    return write_results(values, skipped=skipped)


def write_results(values: Mapping[str, Any], skipped: Sequence[str] = ()) -> dict[str, Any]:
    """Record a notebook's results, and return them.

    Merged into the JSON file named by WORKBENCH_RESULTS: a later value replaces an earlier one,
    reasons in `skipped` are collected. Without that variable, as in JupyterLab, nothing is
    written, but the values are checked all the same. Raises NotebookResultsError when a value
    is not made of dicts with text keys, lists, text, finite numbers, booleans and None.
    """
    checked = plain_values(values)
    if isinstance(skipped, str):
        skipped = (skipped,)
    target = os.environ.get(RESULTS_VARIABLE)
    if target:
        with _lock:
            _merge(Path(target), checked, tuple(map(str, skipped)))
    return checked


def plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values as JSON returns them. Raises NotebookResultsError."""
    return {name: _plain(value, name) for name, value in _named(values).items()}


def _named(values: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in values:
        if not isinstance(name, str):
            raise _error("results", f"the name {name!r:.80} is a {type(name).__name__}, not text")
    return values


def _plain(value: object, where: str) -> Any:
    if isinstance(value, Mapping):
        _named(value)
        return {name: _plain(item, f"{where}.{name}") for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{number}]") for number, item in enumerate(value)]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if value != value or value in {float("inf"), float("-inf")}:  # noqa: PLR0124 - NaN
            raise _error(where, f"{value} cannot be stored in JSON: record None or a text instead")
        return value
    advice = (
        "call .item() or .tolist() on it" if hasattr(value, "tolist") else "record plain values"
    )
    raise _error(where, f"{value!r:.80} is a {type(value).__name__}: {advice}")


def _error(where: str, why: str) -> NotebookResultsError:
    message = (
        f"Result {where!r} cannot be recorded: {why}. Expected text, finite numbers, booleans, "
        "None, and lists and dicts (with text keys) of these."
    )
    return NotebookResultsError("result_not_json", message, field=where)


def _merge(path: Path, values: Mapping[str, Any], skipped: tuple[str, ...]) -> None:
    document: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "results": {}, "skipped": []}
    if path.exists():
        document = json.loads(path.read_text(encoding="utf-8"))
    document["results"] |= values
    document["skipped"] = list(dict.fromkeys([*document["skipped"], *skipped]))
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(document, file, ensure_ascii=False, indent=1)
            file.write("\n")
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
