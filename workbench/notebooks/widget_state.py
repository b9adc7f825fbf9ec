"""The widget state of an executed notebook: find models in it, and remove it."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

from workbench.notebooks.document import Notebook, code_cells

_VIEW_MIME = "application/vnd.jupyter.widget-view+json"
_REFERENCE = re.compile(r"^IPY_MODEL_(\w+)$")

Models = Mapping[str, Mapping[str, Any]]


def widget_models(notebook: Notebook) -> Models:
    """Return model id -> model, with its `model_name` and `state`."""
    widgets = notebook.get("metadata", {}).get("widgets", {})
    return {
        model_id: model
        for bundle in widgets.values()
        for model_id, model in bundle.get("state", {}).items()
    }


def cells_of_models(notebook: Notebook, models: Models) -> dict[str, int]:
    """Return model id -> first cell that displays it, by itself or inside other widgets."""
    found: dict[str, int] = {}
    for index, cell in code_cells(notebook):
        open_ids = [
            output["data"][_VIEW_MIME]["model_id"]
            for output in cell.get("outputs", ())
            if _VIEW_MIME in output.get("data", {})
        ]
        while open_ids:
            model_id = open_ids.pop()
            if model_id not in found:
                found[model_id] = index
                open_ids += _references(models.get(model_id, {}).get("state"))
    return found


def _references(value: object) -> Iterator[str]:
    if isinstance(value, str):
        match = _REFERENCE.match(value)
        if match:
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
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop(_VIEW_MIME, None)
    return clean
