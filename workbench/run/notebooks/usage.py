"""Find parameters that no later cell reads: setting them would silently change nothing."""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Iterator

from workbench.run.notebooks.document import Notebook, code_cells, source_of
from workbench.run.notebooks.parameters import parameter_cell
from workbench.run.notebooks.problems import NotebookProblem
from workbench.run.notebooks.python_source import parse_cell, without_await

_WORD = re.compile(r"[A-Za-z_]\w*")


def unused_parameters(notebook: Notebook) -> tuple[NotebookProblem, ...]:
    """Return one problem per parameter that no later code cell reads.

    A cell that does not parse counts as reading nothing; running it shows the error. Raises
    NotebookParameterError when there is not exactly one parameters cell.
    """
    position, parameters = parameter_cell(notebook)
    read: set[str] = set()
    for index, cell in code_cells(notebook):
        if index > position:
            read |= names_read(source_of(cell))
    return tuple(
        NotebookProblem(
            "unused_parameter",
            position,
            f"parameter {name!r} is read by no later cell: use it, or remove it",
        )
        for name in _assigned(source_of(parameters))
        if name not in read
    )


def names_read(source: str) -> frozenset[str]:
    """Return global names that a cell reads, also inside its functions and in magics' arguments."""
    try:
        tree = parse_cell(source)
        in_magics = frozenset(_names_in_magics(tree))
        table = symtable.symtable(without_await(tree), "<cell>", "exec")
    except SyntaxError:
        return frozenset()
    return in_magics | frozenset(_global_reads(table))


def _global_reads(table: symtable.SymbolTable) -> Iterator[str]:
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (top or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _global_reads(child)


def _names_in_magics(tree: ast.Module) -> Iterator[str]:
    """Return words in the text that `%magic text` and `!command {text}` became."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and "get_ipython" in ast.unparse(node.func):
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield from _WORD.findall(argument.value)


def _assigned(source: str) -> tuple[str, ...]:
    try:
        tree = parse_cell(source)
    except SyntaxError:
        return ()
    stores = (n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return tuple(dict.fromkeys(node.id for node in stores))
