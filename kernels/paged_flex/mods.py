"""Device functions of a caller's own, looked at before they reach a compiler."""

import ast
import inspect
import textwrap
from typing import Any

from workbench.kernels.paged_flex.errors import PagedFlexError
from workbench.kernels.paged_flex.masks import Mask, Score

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
_PARAMETERS = {"mask": 6, "score": 7}


def check_mods(mask: Mask, score: Score | None, *, requests: int, heads: int) -> None:
    """Refuse device functions of the wrong kind, arity or control flow, and too few values."""
    _check("mask", mask.mod)
    if mask.aux is not None and len(mask.aux) < requests:
        raise PagedFlexError(
            f"the mask {mask.name!r} holds values of {len(mask.aux)} requests, but the batch has "
            f"{requests}",
            field="mask",
            given=len(mask.aux),
            limit=requests,
        )
    if score is None:
        return
    _check("score", score.mod)
    if score.aux is not None and len(score.aux) < heads:
        raise PagedFlexError(
            f"the score {score.name!r} holds {len(score.aux)} values for {heads} heads",
            field="score",
            given=len(score.aux),
            limit=heads,
        )


def _check(kind: str, mod: Any) -> None:
    example = f"Example:\n{_EXAMPLES[kind]}"
    if not hasattr(mod, "arg_names"):
        raise PagedFlexError(
            f"the {kind}'s mod must be a triton.jit function; got {type(mod).__name__}. {example}",
            field=kind,
            given=type(mod).__name__,
        )
    wanted = _PARAMETERS[kind]
    if len(mod.arg_names) != wanted:
        raise PagedFlexError(
            f"the {kind} {mod.__name__} takes {len(mod.arg_names)} parameters "
            f"({', '.join(mod.arg_names)}); it must take {wanted}. {example}",
            field=kind,
            given=len(mod.arg_names),
            limit=wanted,
        )
    if (found := _decision_on_tensors(mod)) is not None:
        line, text = found
        raise PagedFlexError(
            f"the {kind} {mod.__name__} decides in Python on whole tiles of numbers, line {line}: "
            f"{text}\nUse &, |, ~ and tl.where, which work element by element. {example}",
            field=kind,
            given=text,
            index=line,
        )


def _decision_on_tensors(mod: Any) -> tuple[int, str] | None:
    """(line in the file, its text) of an if, while, and, or, not on positions or scores."""
    lines, first = inspect.getsourcelines(mod.fn)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    names = {
        own for own, usual in zip(mod.arg_names, _usual(mod), strict=True) if usual in _TENSORS
    }
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            tests = [node.test]
        elif isinstance(node, ast.BoolOp):
            tests = node.values
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            tests = [node.operand]
        elif isinstance(node, ast.Compare) and len(node.ops) > 1:
            tests = [node]
        else:
            continue
        used = {n.id for test in tests for n in ast.walk(test) if isinstance(n, ast.Name)}
        if used & names:
            return first + node.lineno - 1, lines[node.lineno - 1].strip()
    return None


def _usual(mod: Any) -> tuple[str, ...]:
    """What each parameter is, by its place."""
    names = ("score", "request", "head", "query", "key", "p_aux", "PARAM")
    return names[len(names) - len(mod.arg_names) :]
