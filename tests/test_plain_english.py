"""Texts of the edited packages: no private words, and function docstrings begin with a verb."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("models", "interop", "commands", "access", "exercises", "run/notebooks")
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/how_to_add.md", "docs/glossary.md", "Makefile")
MODULES = sorted(
    [
        *(ROOT / "workbench").glob("*.py"),
        *(path for name in PACKAGES for path in (ROOT / "workbench" / name).rglob("*.py")),
    ]
)
PRIVATE = re.compile(
    r"\b(?:tells?|nobody|somebody|everybody|whoever|in vain|whole numbers?|to be had|"
    r"cannot be had|le(?:ave|aves|ft) out|stands|alike|"
    r"(?<!there )(?:is|are) no (?!longer\b)[a-z]+)\b",
    re.IGNORECASE,
)
NOT_A_VERB = {"A", "An", "The", "This", "These", "What", "Which", "Whether", "Where", "How", "Why"}


def texts(tree: ast.AST) -> list[tuple[int, str]]:
    """Return (line, text) of every string in a module."""
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_has_no_private_words(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [
        (line, match.group()) for line, text in texts(tree) for match in PRIVATE.finditer(text)
    ]
    assert found == []


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


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_has_no_private_words(name):
    assert PRIVATE.findall((ROOT / name).read_text(encoding="utf-8")) == []


def test_the_pattern_finds_private_words():
    assert PRIVATE.search("'x' is no tile")
    assert PRIVATE.search("a whole number")
    assert not PRIVATE.search("is no longer recorded")
    assert not PRIVATE.search("there is no GPU")
