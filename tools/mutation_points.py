"""Every small change that a mutation run can make to a Python file, one operator or value each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

SWAPS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
DEFENSIVE = {"strict", "maxsize", "repr", "compare", "check", "daemon"}
"""Keywords whose value changes what is refused or shown, never what is computed."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: str
    line: int
    """Where the change starts, from 1."""
    function: str
    """Names of the classes and functions around it, with dots; empty at the level of the module."""
    before: str
    """The text that is replaced, with single spaces."""
    after: str
    span: tuple[int, int]
    """The bytes of the file that `after` replaces."""
    text: str
    """The line where the change starts."""

    @property
    def keys(self) -> set[tuple[str, ...]]:
        """Return what names the change after lines moved, with the text of its line and without.

        Without it, equal changes of the same function have the same name.
        """
        key = self.file, self.function, self.before, self.after
        return {key, (*key, self.text)}

    def apply(self, source: bytes) -> bytes:
        """Return the file with the change."""
        begin, end = self.span
        return source[:begin] + self.after.encode() + source[end:]


def mutants(source: bytes, file: str) -> Iterator[Mutant]:
    """Yield every change of a file, in its order."""
    starts, lines = [0], source.splitlines(keepends=True)
    for line in lines:
        starts.append(starts[-1] + len(line))
    for node, function in _nodes(ast.parse(source), ""):
        for target, changed in _changes(node):
            span = (
                starts[target.lineno - 1] + target.col_offset,
                starts[target.end_lineno - 1] + target.end_col_offset,
            )
            text = ast.unparse(ast.fix_missing_locations(changed))
            after = f"({text})" if isinstance(changed, ast.expr) else text
            before = " ".join(source[slice(*span)].decode().split())
            text_of_line = lines[target.lineno - 1].decode().strip()
            yield Mutant(file, target.lineno, function, before, after, span, text_of_line)


def _inner(node: ast.AST, around: str) -> str:
    return f"{around}.{node.name}".lstrip(".")


def _nodes(node: ast.AST, around: str) -> Iterator[tuple[ast.AST, str]]:
    """Yield the node and what is in it, except for text, types, checks and error messages."""
    yield node, around
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        around = _inner(node, around)
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_skipped(child):
                yield from _nodes(child, around)


def _is_skipped(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Raise() | ast.Assert():
            return True
        case ast.keyword(arg=str(name)):
            return name in DEFENSIVE
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def _changes(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield (a node in the file, what replaces it)."""
    match node:
        case ast.BinOp(left=left, op=op, right=right) if _swaps(op, left, right):
            yield node, ast.BinOp(left, SWAPS[type(op)](), right)
        case ast.AugAssign(target=target, op=op, value=value) if _swaps(op, value):
            yield node, ast.AugAssign(target, SWAPS[type(op)](), value)
        case ast.Compare(left=left, ops=[op], comparators=right):
            yield node, ast.Compare(left, [SWAPS[type(op)]()], right)
        case ast.BoolOp(op=op, values=values):
            yield node, ast.BoolOp(SWAPS[type(op)](), values)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield node, operand
        case ast.Constant(value=int(value)):
            yield node, ast.Constant(not value if isinstance(value, bool) else value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            yield node, ast.Call(ast.Name(CALLS[name]), node.args, node.keywords)
        case ast.Expr(value=ast.Call()):
            yield node, ast.Pass()
    if isinstance(node, ast.If | ast.While | ast.IfExp) and not _has_own_change(node.test):
        yield node.test, ast.UnaryOp(ast.Not(), node.test)


def _swaps(op: ast.operator, *operands: ast.expr) -> bool:
    """Return whether the operator has a counterpart and its operands are not text."""
    texts = (ast.JoinedStr, ast.List, ast.Tuple)
    return type(op) in SWAPS and not any(
        isinstance(one, texts) or (isinstance(one, ast.Constant) and isinstance(one.value, str))
        for one in operands
    )


def _has_own_change(test: ast.expr) -> bool:
    one_comparison = isinstance(test, ast.Compare) and len(test.ops) == 1
    is_not = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    return one_comparison or is_not or isinstance(test, ast.BoolOp)
