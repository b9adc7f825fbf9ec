"""Values that a parameter's annotation or default accepts."""

from __future__ import annotations

import ast

_TYPES: dict[str, type] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "list": list,
    "dict": dict,
    "None": type(None),
}
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def accepted_types(annotation: ast.expr | None, default: ast.expr) -> tuple[str, ...]:
    """Return names of the accepted types; empty if annotation and default do not decide."""
    if annotation is not None:
        names = _annotated(annotation)
        return tuple(dict.fromkeys(names)) if names and set(names) <= _TYPES.keys() else ()
    try:
        value = ast.literal_eval(default)
    except ValueError:
        return ()
    # A bare None says that the value is optional, not which type it has.
    return () if value is None or type(value).__name__ not in _TYPES else (type(value).__name__,)


def _annotated(node: ast.expr) -> tuple[str, ...]:
    match node:
        case ast.Constant(value=None):
            return ("None",)
        case ast.Constant(value=str(text)):
            return _annotated(ast.parse(text, mode="eval").body)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return (name,)
        case ast.BinOp(op=ast.BitOr()):
            return _annotated(node.left) + _annotated(node.right)
        case ast.Subscript():
            return _subscripted(_annotated(node.value)[0], node.slice)
        case _:
            return ("?",)


def _subscripted(name: str, inner: ast.expr) -> tuple[str, ...]:
    parts = tuple(inner.elts) if isinstance(inner, ast.Tuple) else (inner,)
    if name == "Literal":
        values = [part.value for part in parts if isinstance(part, ast.Constant)]
        return tuple("None" if value is None else type(value).__name__ for value in values)
    if name in {"Optional", "Union"}:
        union = tuple(found for part in parts for found in _annotated(part))
        return (*union, "None") if name == "Optional" else union
    return (name,)


def fits(value: object, wanted: str) -> bool:
    """Return whether the value is of that type; an integer is a float, a bool is not a number."""
    if isinstance(value, bool):
        return wanted == "bool"
    if wanted == "float":
        return isinstance(value, int | float)
    return isinstance(value, _TYPES[wanted])


def nearest_value(value: object, types: tuple[str, ...]) -> tuple[object] | None:
    """Return the most similar valid value in a 1-tuple (it may be None); None without one."""
    for wanted in types:
        converted = _converted(value, wanted)
        if converted is not None:
            return converted
    return (None,) if "None" in types else None


def _converted(value: object, wanted: str) -> tuple[object] | None:
    if wanted == "bool":
        word = str(value).strip().casefold()
        return (True,) if word in _TRUE else (False,) if word in _FALSE else None
    if wanted == "list" and isinstance(value, tuple | set | frozenset | range):
        return (list(value),)
    if wanted == "str" and isinstance(value, bool | int | float):
        return (str(value),)
    if wanted in {"int", "float"} and isinstance(value, str | int | float):
        try:
            return (round(float(value)) if wanted == "int" else float(value),)
        except (ValueError, OverflowError):
            return None
    return None
