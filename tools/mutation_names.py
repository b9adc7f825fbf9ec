"""Names that Python code mentions, defines and imports; tests of a change are found by them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path


def names_in(node: ast.AST) -> Iterator[str]:
    """Yield the names that a piece of code mentions."""
    for one in ast.walk(node):
        match one:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(name)) if name.count(".") > 1:
                yield started(name.rpartition(".")[2])


def entries(tree: ast.Module) -> list[ast.stmt]:
    """Return what runs a module that is started as a program, in a process that notes no block."""
    return [one for one in tree.body if isinstance(one, ast.If)]


def started(module: str) -> str:
    """Return the name by which code that starts a module as a program is found."""
    return f"-m {module}"


def defined_by(node: ast.stmt) -> set[str]:
    """Return the names that a statement defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            every = chain.from_iterable(map(ast.walk, targets))
            return {one.id for one in every if isinstance(one, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def imported(path: Path) -> set[str]:
    """Return the names that a file imports from modules."""
    tree = ast.parse(path.read_bytes())
    found = (one.names for one in ast.walk(tree) if isinstance(one, ast.ImportFrom))
    return {name.name for name in chain.from_iterable(found)}


def names_module(test: Path, file: str) -> bool:
    """Return whether a file of tests has the name of a module in it, also as text that it runs."""
    module = ".".join(Path(file).with_suffix("").parts[-2:])
    return re.search(rf"\b{re.escape(module)}\b", test.read_text(encoding="utf-8")) is not None
