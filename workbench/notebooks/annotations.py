"""Values that a parameter's annotation or default accepts."""

from __future__ import annotations

import ast

_TYPES: dict[str, type] = {
    **{each.__name__: each for each in (bool, int, float, str, list, dict)},
    "None": type(None),
}


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
    return _converted(value, wanted, strict=True) is not None


def nearest_value(value: object, types: tuple[str, ...]) -> tuple[object] | None:
    """Return the most similar valid value in a 1-tuple (it may be None); None without one."""
    converted = (_converted(value, wanted, strict=False) for wanted in types)
    found = next((each for each in converted if each is not None), None)
    return (None,) if found is None and "None" in types else found


def _converted(value: object, wanted: str, *, strict: bool) -> tuple[object] | None:
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    form: TypeAdapter[object] = TypeAdapter(
        _TYPES[wanted], config=ConfigDict(coerce_numbers_to_str=not strict)
    )
    try:
        return (form.validate_python(value, strict=strict),)
    except ValidationError:
        return None
