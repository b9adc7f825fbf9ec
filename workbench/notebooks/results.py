"""The results that a notebook gives its caller: a small JSON file next to its executed copy."""

import json
import math
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.core.errors import a_kind
from workbench.notebooks.problems import NotebookResultsError

RESULTS_VARIABLE = "WORKBENCH_RESULTS"
_lock = threading.Lock()


def record_results(*, skipped: Sequence[str] = (), **values: Any) -> None:
    """Record results given as keywords: `record_results(block_size=528)`."""
    write_results(values, skipped=skipped)


def write_results(values: Mapping[str, Any], skipped: Sequence[str] = ()) -> None:
    """Record a notebook's results; a cell that ends with the call shows nothing.

    Merged into the JSON file named by WORKBENCH_RESULTS: a later value replaces an earlier one,
    reasons in `skipped` are collected. Without that variable, as in JupyterLab, nothing is
    written, but the values are checked all the same. Raises NotebookResultsError when a value
    is not made of dicts with text keys, lists, text, finite numbers, booleans and None.

    >>> wb.write_results({"block_size": plan.block_size})
    """
    checked = plain_values(values)
    reasons = (skipped,) if isinstance(skipped, str) else tuple(map(str, skipped))
    if target := os.environ.get(RESULTS_VARIABLE):
        with _lock:
            _merge(Path(target), checked, reasons)


def plain_values(values: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Return the values as JSON returns them. Raises NotebookResultsError."""
    if not isinstance(values, Mapping):
        raise _error("results", f"{values!r:.80} is {a_kind(values)}: record values by name")
    for name in values:
        if not isinstance(name, str):
            raise _error("results", f"the name {name!r:.80} is {a_kind(name)}, not text")
    return {name: _plain(value, f"{where}{name}") for name, value in values.items()}


def _plain(value: object, where: str) -> Any:
    if isinstance(value, Mapping):
        return plain_values(value, f"{where}.")
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{number}]") for number, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise _error(where, f"{value} cannot be stored in JSON: record None or a text instead")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    is_array = hasattr(value, "tolist")
    advice = "call .item() or .tolist() on it" if is_array else "record plain values"
    raise _error(where, f"{value!r:.80} is {a_kind(value)}: {advice}")


def _error(where: str, why: str) -> NotebookResultsError:
    message = (
        f"Result {where!r} cannot be recorded: {why}. Expected text, finite numbers, booleans, "
        "None, and lists and dicts (with text keys) of these."
    )
    return NotebookResultsError("result_not_json", message, field=where)


def _merge(path: Path, values: Mapping[str, Any], skipped: tuple[str, ...]) -> None:
    document: dict[str, Any] = {"schema_version": 1, "results": {}, "skipped": []}
    if path.exists():
        document = json.loads(path.read_text(encoding="utf-8"))
    document["results"] |= values
    document["skipped"] = list(dict.fromkeys([*document["skipped"], *skipped]))
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)
