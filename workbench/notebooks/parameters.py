"""The parameters cell: the parameters of a notebook, checks of their values, and their use."""

import ast
import dis
import io
import json
import re
import tokenize
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import CodeType
from typing import Any

from workbench.core.errors import unknown_name_message
from workbench.notebooks import document
from workbench.notebooks.document import Cell, Notebook, parse_cell, source_of
from workbench.notebooks.problems import NotebookParameterError, NotebookProblem

PARAMETERS_TAG = "parameters"
Declared = Mapping[str, "NotebookParameter"]
_TYPES: dict[str, type] = {
    **{each.__name__: each for each in (bool, int, float, str, list, dict)},
    "None": type(None),
}
_WORD = re.compile(r"[A-Za-z_]\w*")
_READS = {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}


@dataclass(frozen=True, slots=True)
class NotebookParameter:
    """One line `name: annotation = default  # comment` of the parameters cell.

    `types`: names of the types that it accepts; empty means that anything fits.
    """

    name: str
    types: tuple[str, ...]
    annotation: str
    default: str
    comment: str


def parameter_cell(notebook: Notebook) -> tuple[int, Cell]:
    """Return the one parameters cell and its position. Errors: NotebookParameterError."""
    cells = document.numbered_cells(notebook)
    tagged = [(index, cell) for index, cell in cells if PARAMETERS_TAG in document.tags_of(cell)]
    if len(tagged) == 1:
        return tagged[0]
    positions = ", ".join(str(index) for index, _ in tagged)
    found = f"cells {positions} are" if tagged else "no cell is"
    message = (
        f"A notebook needs exactly one cell tagged {PARAMETERS_TAG!r}, but {found} tagged so. "
        "Set the tag in the property inspector of JupyterLab."
    )
    raise NotebookParameterError("parameters_cell", message, field="path")


def inspect_parameters(notebook: Notebook) -> tuple[NotebookParameter, ...]:
    """Return the parameters of the notebook, in order. Errors: NotebookParameterError."""
    # From the syntax tree: papermill's own inspection works line by line and misses
    # `str | None` and defaults that contain "=".
    index, cell = parameter_cell(notebook)
    try:
        tree = parse_cell(source_of(cell))
    except SyntaxError as error:
        where = f"The parameters cell (cell {index})"
        message = f"{where} is not valid Python: {error.msg}, line {error.lineno}."
        raise NotebookParameterError("parameters_cell", message, field="path") from error
    tokens = tokenize.generate_tokens(io.StringIO(document.python_text(source_of(cell))).readline)
    comments = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokens
        if token.type == tokenize.COMMENT
    }
    return tuple(each for node in tree.body for each in _parameters_of_statement(node, comments))


def _parameters_of_statement(
    node: ast.stmt, comments: Mapping[int, str]
) -> Iterator[NotebookParameter]:
    match node:
        case ast.AnnAssign(target=target, annotation=annotation, value=ast.expr() as default):
            targets: list[ast.expr] = [target]
            written, types = ast.unparse(annotation), _annotated(annotation)
        case ast.Assign(targets=targets, value=default):
            written, types = "", _type_of_default(default)
        case _:
            return
    known = tuple(dict.fromkeys(types)) if set(types) <= _TYPES.keys() else ()
    comment = comments.get(node.end_lineno or node.lineno, "")
    for each in targets:
        if isinstance(each, ast.Name):
            yield NotebookParameter(each.id, known, written, ast.unparse(default), comment)


def _type_of_default(default: ast.expr) -> tuple[str, ...]:
    try:
        value = ast.literal_eval(default)
    except ValueError:
        return ()
    # A bare None says that the value is optional, not which type it has.
    return () if value is None else (type(value).__name__,)


def _annotated(node: ast.expr) -> tuple[str, ...]:
    """Return the names of the types that an annotation accepts."""
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


def check_parameters(
    declared: tuple[NotebookParameter, ...], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the given values if each name is declared and each value fits.

    An integer fits a float; True fits neither int nor float. Raises NotebookParameterError,
    which names the nearest parameter or value and lists what is allowed.
    """
    by_name = {parameter.name: parameter for parameter in declared}
    for name, value in given.items():
        for check in PARAMETER_CHECKS:
            check(by_name, name, value)
    return dict(given)


def known_name(declared: Declared, name: str, value: object) -> None:  # noqa: ARG001
    """Check that the parameters cell declares the name."""
    if name not in declared:
        raise _error("unknown_parameter", unknown_name_message("Parameter", name, declared), name)


def right_type(declared: Declared, name: str, value: object) -> None:
    """Check that the value has a type that the annotation, or else the default, accepts."""
    types = declared[name].types if name in declared else ()
    kind = _kind_of(declared[name]) if types else Any
    if types and _converted(value, kind, strict=True) is None:
        near = _converted(value, kind, strict=False)
        if near is None and "None" in types:
            near = (None,)
        hint = "" if near is None else f" Nearest valid value: {near[0]!r}."
        is_item = "[" in declared[name].annotation and type(value).__name__ in types
        expected = declared[name].annotation if is_item else " or ".join(types)
        message = (
            f"Invalid parameter {name!r}: {value!r:.120} ({type(value).__name__}). Expected "
            f"{expected}; its default is {declared[name].default}.{hint}"
        )
        raise _error("parameter_type", message, name)


def _kind_of(parameter: NotebookParameter) -> Any:
    """Return the type of the values that a parameter accepts, with that of items and values."""
    if parameter.annotation:
        return _kind(ast.parse(parameter.annotation, mode="eval").body)
    return reduce(or_, (_TYPES[name] for name in parameter.types))


def _kind(node: ast.expr) -> Any:
    """Return the type that an annotation names; Any for what is not known."""
    match node:
        case ast.Constant(value=str(text)):
            return _kind(ast.parse(text, mode="eval").body)
        case ast.BinOp(op=ast.BitOr()):
            return _kind(node.left) | _kind(node.right)
        case ast.Subscript():
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            makers: dict[str, Callable[..., Any]] = {
                "list": lambda *kinds: list[kinds[0]],  # type: ignore[valid-type]
                # keys of JSON are text whatever they mean
                "dict": lambda *kinds: dict[Any, kinds[-1]],  # type: ignore[valid-type]
                "Union": lambda *kinds: reduce(or_, kinds),
                "Optional": lambda *kinds: kinds[0] | None,
            }
            if (name := _annotated(node.value)[0]) in makers:
                return makers[name](*map(_kind, parts))
    names = _annotated(node)
    return reduce(or_, (_TYPES[each] for each in names)) if {*names} <= _TYPES.keys() else Any


def _converted(value: object, kind: Any, *, strict: bool) -> tuple[object] | None:
    """Return the value as a type in a 1-tuple (it may be None); None if it cannot be."""
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    config = ConfigDict(coerce_numbers_to_str=not strict)
    form: TypeAdapter[Any] = TypeAdapter(kind, config=config)
    try:
        return (form.validate_python(value, strict=strict),)
    except ValidationError:
        return None


def plain_value(declared: Declared, name: str, value: object) -> None:  # noqa: ARG001
    """Check that the value is made of what JSON can hold."""
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        message = (
            f"Invalid parameter {name!r}: {value!r:.120} ({error}). Expected only numbers, text, "
            "lists, dicts and None."
        )
        raise _error("parameter_type", message, name) from error


PARAMETER_CHECKS = (known_name, right_type, plain_value)


def _error(code: str, message: str, name: str) -> NotebookParameterError:
    return NotebookParameterError(code, message, field=f"parameters.{name}")


def unused_parameters(notebook: Notebook) -> Iterator[NotebookProblem]:
    """Yield one problem per parameter that no later code cell reads: setting it changes nothing.

    A cell that does not parse counts as reading nothing; running it shows the error. Raises
    NotebookParameterError as `inspect_parameters` does.
    """
    position, _ = parameter_cell(notebook)
    later = [source_of(cell) for index, cell in document.code_cells(notebook) if index > position]
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
    yield from (step.argval for step in dis.get_instructions(code) if step.opname in _READS)
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
