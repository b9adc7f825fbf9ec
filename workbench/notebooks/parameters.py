"""The parameters cell: the parameters of a notebook, and checks of their values."""

from __future__ import annotations

import ast
import io
import json
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.core.errors import unknown_name_message
from workbench.notebooks.annotations import accepted_types, fits, nearest_value
from workbench.notebooks.document import (
    Cell,
    Notebook,
    numbered_cells,
    python_text,
    source_of,
    tags_of,
)
from workbench.notebooks.errors import NotebookParameterError

PARAMETERS_TAG = "parameters"
Declared = Mapping[str, "NotebookParameter"]


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
    """Return the parameters cell and its position.

    Raises NotebookParameterError unless there is exactly one.
    """
    cells = numbered_cells(notebook)
    tagged = [(index, cell) for index, cell in cells if PARAMETERS_TAG in tags_of(cell)]
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
    """Return the parameters that the notebook declares, in order.

    Read from the syntax tree: papermill's own inspection works line by line and misses
    `str | None` and defaults that contain "=". Raises NotebookParameterError when there is not
    exactly one parameters cell, or when it does not parse.
    """
    index, cell = parameter_cell(notebook)
    text = python_text(source_of(cell))
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        where = f"The parameters cell (cell {index})"
        message = f"{where} is not valid Python: {error.msg}, line {error.lineno}."
        raise NotebookParameterError("parameters_cell", message, field="path") from error
    comments = _comments(text)
    return tuple(each for node in tree.body for each in _parameters_of_statement(node, comments))


def _parameters_of_statement(
    node: ast.stmt, comments: Mapping[int, str]
) -> Iterator[NotebookParameter]:
    targets: list[ast.expr]
    annotation: ast.expr | None = None
    match node:
        case ast.AnnAssign(target=target, annotation=annotation, value=ast.expr() as default):
            targets = [target]
        case ast.Assign(targets=targets, value=default):
            pass
        case _:
            return
    for each in targets:
        if isinstance(each, ast.Name):
            yield NotebookParameter(
                name=each.id,
                types=accepted_types(annotation, default),
                annotation=ast.unparse(annotation) if annotation else "",
                default=ast.unparse(default),
                comment=comments.get(node.end_lineno or node.lineno, ""),
            )


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokens
        if token.type == tokenize.COMMENT
    }


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
    parameter = declared.get(name)
    if parameter and parameter.types and not any(fits(value, each) for each in parameter.types):
        near = nearest_value(value, parameter.types)
        hint = "" if near is None else f" Nearest valid value: {near[0]!r}."
        message = (
            f"Invalid parameter {name!r}: {value!r:.120} ({type(value).__name__}). Expected "
            f"{' or '.join(parameter.types)}; its default is {parameter.default}.{hint}"
        )
        raise _error("parameter_type", message, name)


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
