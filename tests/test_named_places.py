"""Every module, function and file that a docstring, a comment or a page names exists."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

from tests.source_trees import nodes_of

ROOT = Path(__file__).parents[1]
FOLDERS = ("workbench", "kernels", "tests", "tools", "benchmarks", "notebooks", "docs")
CODE = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "AGENTS.md", "CHANGELOG.md")),
    *sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / "notebooks").rglob("*.ipynb")]),
]
DOTTED = re.compile(r"(?<![\w./-])(?:workbench|kernels|core)(?:\.[A-Za-z_]\w*)+(?![\w/-])")
FILE = re.compile(rf"(?<![\w./~-])(?:{'|'.join(FOLDERS)})/[\w./-]*\w")
MARKED = re.compile(rf"#.*(?:{DOTTED.pattern}|{FILE.pattern})")
"""What a comment has that names a place."""
FILE_ENDS = {"py", "md", "json", "jsonl", "toml", "ipynb", "html", "yml", "txt"}
NOT_OURS = {"workbench.db"}
TO_BE_MADE = ("v0_NN", "VERSION")


def words(path):
    """The text that explains: a page whole; of a module its docstrings and comments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    explained = [
        node.value.value
        for node in nodes_of(path)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str)
    ]
    if MARKED.search(text):  # tokens take most of the time
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        explained += [one.string for one in tokens if one.type == tokenize.COMMENT]
    return "\n".join(explained)


@cache
def parts_of(path):
    """{name: node} of what a module or package makes or imports at its top."""
    found = {}
    for node in nodes_of(path):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.setdefault(node.name, node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name: None for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.setdefault(node.id, None)
    return found


def is_there(dotted):
    """Whether a dotted name is a folder, a module, or something in one."""
    names = dotted.split(".")
    if names[0] == "core":
        names.insert(0, "workbench")
    place = ROOT / names.pop(0)
    if names and place.name == "workbench" and names[0] == "kernels":
        place, names = ROOT / "kernels", names[1:]
    while names and (place / names[0]).is_dir():
        place /= names.pop(0)
    if names and (place / f"{names[0]}.py").is_file():
        place /= f"{names.pop(0)}.py"
    elif place.is_dir():
        place /= "__init__.py"
    return not names or names[0] in parts_of(place) or names[0] in FILE_ENDS


def missing(text):
    """The names in a text that lead nowhere."""
    yield from (
        name for name in DOTTED.findall(text) if name not in NOT_OURS and not is_there(name)
    )
    for name in FILE.findall(text):
        if not any(one in name for one in TO_BE_MADE) and not (ROOT / name).exists():
            yield name


@pytest.mark.parametrize("paths", [CODE, PAGES], ids=["code", "pages"])
def test_what_is_named_exists(paths):
    found = [(path, name) for path in paths for name in missing(words(path))]
    assert [f"{path.relative_to(ROOT)}: {name}" for path, name in found] == []


def test_the_map_names_files_that_exist():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = re.search(r"```\n(workbench/.*?)```", page, re.DOTALL)[1].splitlines()
    folder, named = Path(), []
    for line in lines:
        first = re.match(r" *[^ ]+(?:, [^ ]+/)*(?=  |, )", line)[0].rstrip(",")
        if not line.startswith(" "):
            folder = ROOT / first
        named += [
            folder / name.strip() if line.startswith(" ") else ROOT / name.strip()
            for name in first.split(",")
        ]
    assert len(named) > 30
    assert [str(path) for path in named if not path.exists()] == []
