"""The syntax trees of source files, parsed once for all tests of a worker."""

from __future__ import annotations

import ast
from functools import cache


@cache
def parsed(path):
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path):
    """Every node of a file."""
    return tuple(ast.walk(parsed(path)))
