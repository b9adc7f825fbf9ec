"""Find parameters that no later cell reads: setting them would silently change nothing."""

from __future__ import annotations

import ast
import dis
import re
from collections.abc import Iterator
from types import CodeType

from workbench.notebooks.document import Notebook, code_cells, parse_cell, source_of
from workbench.notebooks.parameters import inspect_parameters, parameter_cell
from workbench.notebooks.problems import NotebookProblem

_WORD = re.compile(r"[A-Za-z_]\w*")
_READS = {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}


def unused_parameters(notebook: Notebook) -> Iterator[NotebookProblem]:
    """Yield one problem per parameter that no later code cell reads.

    A cell that does not parse counts as reading nothing; running it shows the error. Raises
    NotebookParameterError when there is not exactly one parameters cell, or it does not parse.
    """
    position, _ = parameter_cell(notebook)
    later = [source_of(cell) for index, cell in code_cells(notebook) if index > position]
    read = frozenset().union(*map(names_read, later))
    for parameter in inspect_parameters(notebook):
        if parameter.name not in read:
            message = f"parameter {parameter.name!r} is read by no later cell: use it, or remove it"
            yield NotebookProblem("unused_parameter", position, message)


def names_read(source: str) -> frozenset[str]:
    """Return global names that a cell reads, also inside its functions and in magics' arguments."""
    try:
        tree = parse_cell(source)
        code = compile(tree, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError:
        return frozenset()
    return frozenset([*_global_reads(code), *_names_in_magics(tree)])


def _global_reads(code: CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in _READS:
            yield step.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_reads(constant)


def _names_in_magics(tree: ast.Module) -> Iterator[str]:
    """Return words in the text that `%magic text` and `!command {text}` became."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and "get_ipython" in ast.unparse(node.func):
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield from _WORD.findall(argument.value)
