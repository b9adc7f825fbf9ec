"""Notebooks made by hand: stored ones in `fixtures/`, and small ones built in a test."""

from pathlib import Path

import pytest

FIXTURES = Path(__file__).parent / "fixtures"


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
def fixture_path():
    return lambda name: FIXTURES / f"{name}.ipynb"
