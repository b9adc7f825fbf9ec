"""Check a caller's mask_mod and score_mod before they reach a compiler."""

import ast
import inspect
import textwrap
import traceback
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from workbench.kernels.errors import PagedFlexError
from workbench.kernels.paged_flex.masks import Mask, Score
from workbench.kernels.paged_flex.shapes import check_kind

_EXAMPLES = {
    "mask": (
        "@triton.jit\ndef mine(request, head, query, key, p_aux, PARAM: tl.constexpr):\n"
        "    return (key <= query) & (query - key < PARAM)"
    ),
    "score": (
        "@triton.jit\ndef mine(score, request, head, query, key, p_aux, PARAM: tl.constexpr):\n"
        "    return tl.where(key < query, score * 0.5, score)"
    ),
}
_TENSORS = {"score", "head", "query", "key"}
_DECIDING = {"min", "max", "any", "all", "bool", "int", "float"}
"""Functions of Python that look at a whole tile at once."""
_PARAMETERS = {"mask": 6, "score": 7}


def check_mods(mask: Mask, score: Score | None) -> None:
    """Refuse a mask_mod or score_mod of the wrong kind, arity or control flow."""
    check_kind("mask", mask, Mask, "what a function of `masks` returns, such as masks.causal()")
    if score is not None:
        check_kind("score", score, Score, "what a function of `masks` returns, or None")
    _check("mask", mask.mask_mod)
    if score is not None:
        _check("score", score.score_mod)


def _check(kind: str, mod: Any) -> None:
    example = f"Example:\n{_EXAMPLES[kind]}"
    # every function of triton.jit has them, in the interpreter too
    if not hasattr(mod, "arg_names"):
        raise PagedFlexError(
            f"the {kind}_mod must be a triton.jit function; got {type(mod).__name__}. {example}",
            field=kind,
            given=type(mod).__name__,
        )
    wanted = _PARAMETERS[kind]
    if len(mod.arg_names) != wanted:
        raise PagedFlexError(
            f"the {kind}_mod {mod.__name__} takes {len(mod.arg_names)} parameters "
            f"({', '.join(mod.arg_names)}); it must take {wanted}. {example}",
            field=kind,
            given=len(mod.arg_names),
            limit=wanted,
        )
    if (found := _decision_on_tensors(mod)) is not None:
        line, text = found
        raise PagedFlexError(
            f"the {kind}_mod {mod.__name__} decides in Python on whole tiles of numbers, line "
            f"{line}: {text}\nUse &, |, ~, tl.where, tl.minimum and tl.maximum, which work "
            f"element by element. {example}",
            field=kind,
            given=text,
            index=line,
        )


@lru_cache(maxsize=256)
def _decision_on_tensors(mod: Any) -> tuple[int, str] | None:
    """Return (line in the file, its text) of a Python decision on positions or scores.

    That is an if, while, for, assert, match, and, or, not, in, chain of comparisons, or a function
    such as min, on them or on names that were given a value made of them.
    """
    # a Python decision on a tile works in the interpreter for one element, and fails on a GPU
    lines, first = inspect.getsourcelines(mod.fn)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    names = _made_of_tensors(tree, mod)
    for node in ast.walk(tree):
        if any(names & _names(test) for test in _tests(node)):
            line = cast("ast.expr", node).lineno
            return first + line - 1, lines[line - 1].strip()
    return None


def _tests(node: ast.AST) -> Sequence[ast.AST]:
    """Return the expressions on which Python decides in this node."""
    found: Sequence[ast.AST] = ()
    match node:
        case ast.If() | ast.IfExp() | ast.While() | ast.Assert():
            found = [node.test]
        case ast.For():
            found = [node.iter]
        case ast.Match():
            found = [node.subject]
        case ast.BoolOp():
            found = node.values
        case ast.UnaryOp(op=ast.Not()):
            found = [node.operand]
        case ast.Compare() if len(node.ops) > 1 or isinstance(node.ops[0], ast.In | ast.NotIn):
            found = [node]
        case ast.Call(func=ast.Name(id=name)) if name in _DECIDING:
            found = node.args
    return found


def _made_of_tensors(tree: ast.AST, mod: Any) -> set[str]:
    """Return the parameters that are whole tiles, and every name computed from them."""
    pairs = zip(mod.arg_names, _usual(mod), strict=True)
    names = {own for own, usual in pairs if usual in _TENSORS}
    given = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            given += [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr) and node.value:
            given.append((node.target, node.value))
    # to the end: inside a loop a name may be used above the line that gives it its value
    while True:
        found = {n for target, value in given if names & _names(value) for n in _names(target)}
        if found <= names:
            return names
        names |= found


def _names(node: ast.AST) -> set[str]:
    return {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}


def mask_mod_error(mask: Mask, error: BaseException) -> PagedFlexError:
    """Return the message for a launch that fails in a custom mask_mod: reason, place, example.

    error: triton's InterpreterError or CompilationError, which wrap the cause once per call.
    """
    root, place = error, None
    while root.__cause__ is not None:
        root = root.__cause__
    # the innermost cause knows the line of the mask_mod
    for frame in traceback.extract_tb(root.__traceback__):
        if frame.name == mask.mask_mod.__name__:
            place = frame
    where = "" if place is None else f", line {place.lineno}: {place.line}"
    why = str(root).strip() or type(root).__name__
    return PagedFlexError(
        f"the mask_mod {mask.mask_mod.__name__} stops the launch{where}\n{why}\nIt must return, "
        f"for every query and key, whether the key is visible. Example:\n{_EXAMPLES['mask']}",
        field="mask",
        given=mask.name,
        index=None if place is None else place.lineno,
    )


def _usual(mod: Any) -> tuple[str, ...]:
    """Return the meaning of each parameter, by its position."""
    names = ("score", "request", "head", "query", "key", "p_aux", "PARAM")
    return names[len(names) - len(mod.arg_names) :]
