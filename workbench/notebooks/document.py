"""Read and write a notebook file; identify its cells, and the models of its widget state."""

import ast
import copy
import json
import re
from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from workbench.access.files import FileError, FileUse, read_text
from workbench.access.json_text import parse_json
from workbench.notebooks.problems import NotebookFileError

NOTEBOOK = FileUse("notebook", 64 * 2**20, "path")
MAX_NOTEBOOK_DEPTH = 200
"""Outputs hold data of any shape; figures and tables have some twenty levels."""

Notebook = Mapping[str, Any]
Cell = Mapping[str, Any]
_VIEW_MIME = "application/vnd.jupyter.widget-view+json"
_REFERENCE = re.compile(r"^IPY_MODEL_(\w+)$")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_MARKER_TAG = "papermill-error-cell-tag"
INJECTED_TAG = "injected-parameters"
EXCERPT_LINES = 12


def read_notebook(path: Path) -> dict[str, Any]:
    """Return the notebook as plain data. Raises NotebookFileError: missing, or not format 4."""
    try:
        notebook = parse_json(read_text(path, NOTEBOOK), most_depth=MAX_NOTEBOOK_DEPTH)
    except FileError as error:
        near = sorted(other.name for other in path.parent.glob("*.ipynb"))
        there = f" Notebooks in that folder: {', '.join(near)}." if near else ""
        raise NotebookFileError("notebook_missing", error.message + there, field="path") from error
    except ValueError as error:
        raise _not_a_notebook(path, f"it is not JSON ({error})") from error
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise _not_a_notebook(path, "it has no list of cells")
    if notebook.get("nbformat") != 4:
        number = notebook.get("nbformat")
        raise _not_a_notebook(path, f"its nbformat is {number!r}, but 4 is required")
    return notebook


def _not_a_notebook(path: Path, why: str) -> NotebookFileError:
    fix = "Save it from JupyterLab, or convert it with jupytext."
    message = f"{path} is not a notebook: {why}. {fix}"
    return NotebookFileError("not_a_notebook", message, field="path")


def notebook_text(notebook: Notebook) -> str:
    """Return the text of the file, laid out as Jupyter lays it out."""
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def joined(text: object) -> str:
    """Return a text that the format may store as a list of lines."""
    return "".join(map(str, text)) if isinstance(text, list) else str(text or "")


def source_of(cell: Cell) -> str:
    """Return the cell's source as one text."""
    return joined(cell.get("source"))


def tags_of(cell: Cell) -> tuple[str, ...]:
    """Return the cell's tags."""
    return tuple(cell.get("metadata", {}).get("tags", ()))


def numbered_cells(notebook: Notebook) -> tuple[tuple[int, Cell], ...]:
    """Return cells with their positions in the *source* notebook.

    papermill adds cells: its error notes are skipped, and the injected parameters carry the
    position of the parameters cell that they follow.
    """
    cells = [cell for cell in notebook.get("cells", ()) if _MARKER_TAG not in tags_of(cell)]
    positions = accumulate(INJECTED_TAG not in tags_of(cell) for cell in cells)
    return tuple((max(count - 1, 0), cell) for count, cell in zip(positions, cells, strict=True))


def first_cells(notebook: Notebook, last: int) -> dict[str, Any]:
    """Return the notebook up to a position. Raises NotebookFileError without such a cell."""
    count = len(notebook["cells"])
    if not 0 <= last < count:
        message = f"Invalid cell {last}. Expected 0 to {count - 1}, counted from the top."
        raise NotebookFileError("no_such_cell", message, field="to_cell")
    return {**notebook, "cells": notebook["cells"][: last + 1]}


def code_cells(notebook: Notebook) -> tuple[tuple[int, Cell], ...]:
    """Return the code cells among `numbered_cells`."""
    return tuple(each for each in numbered_cells(notebook) if each[1].get("cell_type") == "code")


def plain(text: str) -> str:
    """Return text without terminal colours."""
    return _ANSI.sub("", text)


def python_text(source: str) -> str:
    """Return the cell's source as the Python that IPython would run (magics become calls)."""
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager().transform_cell(source)


def parse_cell(source: str) -> ast.Module:
    """Return the syntax tree of a cell. Raises SyntaxError."""
    return ast.parse(python_text(source))


def first_line(source: str) -> str:
    """Return the first line that is not empty, cut to 80 characters."""
    return next((line.strip() for line in source.splitlines() if line.strip()), "")[:80]


def excerpt(source: str, trace: str) -> str:
    """Return the start of a cell's source above the end of a traceback."""
    code = source.rstrip().splitlines()
    shown = code[:EXCERPT_LINES] + ["..."] * (len(code) > EXCERPT_LINES)
    tail = plain(trace).rstrip().splitlines()
    kept = ["..."] * (len(tail) > EXCERPT_LINES) + tail[-EXCERPT_LINES:]
    return "\n".join([*(f"> {line}" for line in shown), *kept])


def widget_models(notebook: Notebook) -> dict[str, Mapping[str, Any]]:
    """Return model id -> model, with its `model_name` and `state`."""
    widgets = notebook.get("metadata", {}).get("widgets", {})
    return {
        model_id: model
        for bundle in widgets.values()
        for model_id, model in bundle.get("state", {}).items()
    }


def cells_of_models(notebook: Notebook, models: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Return model id -> first cell that displays it, by itself or inside other widgets."""
    found: dict[str, int] = {}
    for index, cell in code_cells(notebook):
        views = (output.get("data", {}).get(_VIEW_MIME) for output in cell.get("outputs", ()))
        open_ids = [view["model_id"] for view in views if view]
        while open_ids:
            model_id = open_ids.pop()
            if model_id not in found:
                found[model_id] = index
                open_ids += _references(models.get(model_id, {}).get("state"))
    return found


def _references(value: object) -> Iterator[str]:
    if isinstance(value, str) and (match := _REFERENCE.match(value)):
        yield match[1]
    elif isinstance(value, list | Mapping):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _references(item)


def without_widget_state(notebook: Notebook) -> dict[str, Any]:
    """Return the notebook without widget state, and without views that need it.

    Text, HTML and figures of an output stay. One plotly widget brings five megabytes of script.
    """
    clean = copy.deepcopy(dict(notebook))
    clean["metadata"].pop("widgets", None)
    for cell in clean["cells"]:
        views = [o for o in cell.get("outputs", ()) if o.get("data", {}).pop(_VIEW_MIME, None)]
        for bare in (output for output in views if not any(output["data"].values())):
            cell["outputs"].remove(bare)
    return clean
