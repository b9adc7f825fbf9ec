"""Files that fit on a few screens, short functions, few rooms."""

from __future__ import annotations

import ast
from pathlib import Path
from statistics import median

from tests.source_trees import nodes_of

ROOT = Path(__file__).parents[1]
MODULES = sorted([*(ROOT / "workbench").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")])
LINES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n") for path in MODULES
}
LARGEST, SMALLEST = 300, 20
ALONE = {
    "workbench/__main__.py": "python -m workbench",
    "kernels/bench/empty_kernel.py": "imports Triton, and the clock that times it does not",
}
"""Short modules with a reason to be their own."""


def functions():
    """Yield the lines of every function, with its decorators."""
    for path in MODULES:
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.end_lineno - node.lineno + 1


def test_no_file_is_long():
    assert {name: lines for name, lines in LINES.items() if lines > LARGEST} == {}


def test_a_short_module_is_joined_to_its_neighbour():
    short = {
        name
        for name, lines in LINES.items()
        if lines < SMALLEST and not name.endswith("__init__.py")
    }
    assert short == set(ALONE)


def test_the_usual_file_and_function_are_short():
    assert 80 <= median(LINES.values()) <= 120
    assert median(functions()) <= 8


def test_the_top_level_has_few_rooms():
    rooms = [path for path in (ROOT / "workbench").iterdir() if (path / "__init__.py").is_file()]
    assert 10 <= len(rooms) <= 20
