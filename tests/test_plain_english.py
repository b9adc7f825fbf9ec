"""Function docstrings begin with a verb; `tools/check_words.py` checks the words."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("core", "models", "interop", "commands", "access", "exercises", "run/notebooks")
MODULES = sorted(
    [
        *(ROOT / "workbench").glob("*.py"),
        *(path for name in PACKAGES for path in (ROOT / "workbench" / name).rglob("*.py")),
    ]
)
NOT_A_VERB = {"A", "An", "The", "This", "These", "What", "Which", "Whether", "Where", "How", "Why"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_function_docstrings_begin_with_a_verb(path):
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [
        (node.name, text.split()[0])
        for node in ast.walk(tree)
        if isinstance(node, functions) and (text := ast.get_docstring(node))
        if text.split()[0] in NOT_A_VERB
    ]
    assert found == []
