"""What is committed stays small and free of a notebook's run: outputs, counts, widget state."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LARGEST_BYTES = 500_000
INSTALL = re.compile(r"^\s*[!%]\s*(pip|uv|conda|mamba)\b", re.MULTILINE)


def tracked(*patterns: str) -> tuple[Path, ...]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return ()
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return tuple(Path(name) for name in listed.split("\0") if os.path.lexists(ROOT / name) and name)


def read(notebook: Path) -> dict:
    return json.loads((ROOT / notebook).read_text(encoding="utf-8"))


def run_leftovers(notebook: dict) -> list[str]:
    """Everything in a notebook that only a run puts there."""
    metadata = notebook["metadata"]
    found = [f"metadata.{key}" for key in ("widgets", "papermill") if key in metadata]
    for number, cell in enumerate(notebook["cells"]):
        if cell.get("outputs"):
            found.append(f"cell {number}: outputs")
        if cell.get("execution_count") is not None:
            found.append(f"cell {number}: execution_count")
        found += [
            f"cell {number}: metadata.{key}"
            for key in ("execution", "papermill", "ExecuteTime")
            if key in cell["metadata"]
        ]
        if "injected-parameters" in cell["metadata"].get("tags", []):
            found.append(f"cell {number}: injected parameters")
    return found


notebooks = pytest.mark.parametrize("notebook", tracked("*.ipynb"), ids=str)


@notebooks
def test_a_notebook_carries_nothing_of_a_run(notebook):
    assert run_leftovers(read(notebook)) == []


@notebooks
def test_a_notebook_uses_the_kernel_that_everybody_has(notebook):
    assert read(notebook)["metadata"]["kernelspec"]["name"] == "python3"


@notebooks
def test_a_notebook_installs_nothing(notebook):
    code = [cell for cell in read(notebook)["cells"] if cell["cell_type"] == "code"]
    assert [cell["source"] for cell in code if INSTALL.search("".join(cell["source"]))] == []


@pytest.mark.parametrize("notebook", tracked(":(glob)notebooks/*.ipynb"), ids=str)
def test_a_notebook_has_one_parameters_cell(notebook):
    tags = [cell["metadata"].get("tags", []) for cell in read(notebook)["cells"]]
    assert sum("parameters" in tag for tag in tags) == 1


def test_no_tracked_file_is_large():
    sizes = {path: os.lstat(ROOT / path).st_size for path in tracked()}
    assert {str(path): size for path, size in sizes.items() if size > LARGEST_BYTES} == {}


def test_leftovers_of_a_run_are_found():
    cell = {
        "cell_type": "code",
        "execution_count": 3,
        "metadata": {"papermill": {}, "tags": ["injected-parameters"]},
        "outputs": [{"output_type": "stream"}],
    }
    dirty = {"metadata": {"widgets": {}, "papermill": {}}, "cells": [cell]}
    assert run_leftovers(dirty) == [
        "metadata.widgets",
        "metadata.papermill",
        "cell 0: outputs",
        "cell 0: execution_count",
        "cell 0: metadata.papermill",
        "cell 0: injected parameters",
    ]


@pytest.mark.parametrize("line", ["!pip install x", "%pip install x", "  ! pip install x"])
def test_an_install_line_is_found(line):
    assert INSTALL.search(f"import os\n{line}\n")
