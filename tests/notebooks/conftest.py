"""Notebooks made by hand: stored ones in `fixtures/`, and small ones built in a test."""

import json
from pathlib import Path

import pytest

from tests.notebooks.cells import CELLS

FIXTURES = Path(__file__).parent / "fixtures"
BROKEN_CELL = 3


def cell(source, *tags, kind="code", outputs=()):
    made = {"cell_type": kind, "metadata": {"tags": list(tags)}, "source": source}
    if kind == "code":
        made |= {"execution_count": None, "outputs": list(outputs)}
    return made


@pytest.fixture
def make_cell():
    return cell


@pytest.fixture
def make_notebook():
    def make(*cells, widgets=None):
        metadata = {"kernelspec": {"name": "python3"}}
        if widgets is not None:
            metadata["widgets"] = {
                "application/vnd.jupyter.widget-state+json": {"state": widgets, "version_major": 2}
            }
        made = [cell(source) if isinstance(source, str) else source for source in cells]
        return {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}

    return make


@pytest.fixture
def with_parameters(make_notebook):
    """A notebook whose parameters cell has this source, followed by these cells."""

    def make(source, *cells):
        return make_notebook(cell(source, "parameters"), *cells)

    return make


@pytest.fixture
def fixture_path(tmp_path):
    """The path of a stored notebook, or of the sleepy one with one of CELLS in the place of it."""

    def path(name):
        if name not in CELLS:
            return FIXTURES / f"{name}.ipynb"
        notebook = json.loads((FIXTURES / "sleepy.ipynb").read_text(encoding="utf-8"))
        notebook["cells"][BROKEN_CELL]["source"] = CELLS[name]
        notebook["cells"][-1]["source"][-1] += ";"  # shows nothing: a flood may be before it
        made = tmp_path / "fixtures" / f"{name}.ipynb"
        made.parent.mkdir(exist_ok=True)
        made.write_text(json.dumps(notebook), encoding="utf-8")
        return made

    return path
