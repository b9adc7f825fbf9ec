"""The house rules of a notebook's source, checked without running it."""

import ast
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from workbench.notebooks import document
from workbench.notebooks.document import Cell, Notebook, code_cells, numbered_cells, source_of
from workbench.notebooks.page import HIDDEN_CELL, HIDDEN_INPUT
from workbench.notebooks.parameters import inspect_parameters, parameter_cell, unused_parameters
from workbench.notebooks.problems import NotebookParameterError, NotebookProblem

Rule = Callable[[Notebook], Iterator[NotebookProblem]]
KERNEL = "python3"
RUN_FOLDER = ".run-"
"""How the name of the folder begins in which a run keeps its files until it ends."""
FEWEST_CELLS, MOST_CELLS = 10, 25
LONGEST_BODY_LINES = 10
LARGEST_SOURCE_BYTES = 100_000
_HARNESS = re.compile(r"^(?:assert\b|(?:\w+\.)?(?:write|record)_results\()", re.MULTILINE)
_TOOLS = r"(?:pip3?|uv|conda|mamba|micromamba|apt|apt-get|brew)\b"
_INSTALL = re.compile(
    rf"^\s*[!%]\s*(?:sudo\s+)?(?:(?:\S*python[\d.]*|\{{[^}}]+\}})\s+-m\s+)?{_TOOLS}", re.MULTILINE
)
_SHELL_CELL = re.compile(r"^\s*(?:%%(?:bash|sh|script|!)|%%!)")
_INSTALL_IN_SHELL = re.compile(rf"^[^#\n]*\b{_TOOLS}[^#\n]*\b(?:install|add)\b", re.MULTILINE)


def check_notebook_source(
    path: str | os.PathLike[str], rules: tuple[Rule, ...] = ()
) -> tuple[NotebookProblem, ...]:
    """Return what the source breaks, of the house rules unless given. Errors: NotebookFileError."""
    notebook = document.read_notebook(Path(path))
    return tuple(problem for rule in rules or RULES for problem in rule(notebook))


def _leftovers(notebook: Notebook) -> Iterator[NotebookProblem]:
    fix = "clear outputs before committing, or run nbstripout"
    for key in ("widgets", "papermill"):
        if key in notebook["metadata"]:
            yield NotebookProblem("leftover", None, f"metadata.{key} is left from a run: {fix}")
    for index, cell in numbered_cells(notebook):
        for key in ("outputs", "execution_count"):
            if cell.get(key):
                yield NotebookProblem("leftover", index, f"{key} is left from a run: {fix}")
        if document.INJECTED_TAG in document.tags_of(cell):
            message = "injected parameters are left: delete the cell"
            yield NotebookProblem("leftover", index, message)


def _size(notebook: Notebook) -> Iterator[NotebookProblem]:
    size = len(document.notebook_text(notebook).encode())
    if size > LARGEST_SOURCE_BYTES:
        message = (
            f"the source has {size:,} bytes, {LARGEST_SOURCE_BYTES:,} are allowed: pictures and "
            "data belong into files, and outputs are not committed"
        )
        yield NotebookProblem("too_large", None, message)


def _kernelspec(notebook: Notebook) -> Iterator[NotebookProblem]:
    found = notebook["metadata"].get("kernelspec", {}).get("name")
    if found != KERNEL:
        message = f"the kernelspec is {found!r}, but only {KERNEL!r} exists everywhere"
        yield NotebookProblem("kernelspec", None, message)


def _parameters_cell(notebook: Notebook) -> Iterator[NotebookProblem]:
    try:
        inspect_parameters(notebook)
    except NotebookParameterError as error:
        yield NotebookProblem("parameters_cell", None, error.message)


def _parameters(notebook: Notebook) -> Iterator[NotebookProblem]:
    if broken := tuple(_parameters_cell(notebook)):
        yield from broken
        return
    index, _ = parameter_cell(notebook)
    for parameter in inspect_parameters(notebook):
        written = {"type": parameter.annotation, "comment": parameter.comment}
        if lacking := " and no ".join(name for name, text in written.items() if not text):
            line = f"{parameter.name} = {parameter.default}"
            message = f"`{line}` has no {lacking}: `name: type = value  # comment`"
            yield NotebookProblem("parameter_style", index, message)
    yield from unused_parameters(notebook)


def _cell_count(notebook: Notebook) -> Iterator[NotebookProblem]:
    """Check how many cells a reader sees; a single cell of code is a panel, not a text."""
    visible = [cell for _index, cell in numbered_cells(notebook) if not _is_hidden(cell)]
    count, code = len(visible), sum(cell["cell_type"] == "code" for cell in visible)
    if code != 1 and not FEWEST_CELLS <= count <= MOST_CELLS:
        message = f"{count} visible cells; {FEWEST_CELLS} to {MOST_CELLS} make one question"
        yield NotebookProblem("cell_count", None, message)


def _is_hidden(cell: Cell) -> bool:
    return HIDDEN_CELL in document.tags_of(cell)


def _harness(notebook: Notebook) -> Iterator[NotebookProblem]:
    """Check that readers see no asserts and no results for CI, here and in converted notebooks."""
    for index, cell in code_cells(notebook):
        folded = cell["metadata"].get("jupyter", {}).get("source_hidden", False)
        if folded == {HIDDEN_CELL, HIDDEN_INPUT}.isdisjoint(document.tags_of(cell)):
            tags = f"the tag {HIDDEN_CELL} or {HIDDEN_INPUT}"
            message = f"a hidden cell needs both: {tags}, and jupyter.source_hidden"
            yield NotebookProblem("harness", index, message)
        if not _is_hidden(cell) and (found := _HARNESS.search(source_of(cell))):
            message = f"readers see {found[0].strip()}: move it into a cell tagged {HIDDEN_CELL}"
            yield NotebookProblem("harness", index, message, found[0].strip())


def _functions(notebook: Notebook) -> Iterator[NotebookProblem]:
    for index, cell in code_cells(notebook):
        try:
            tree = document.parse_cell(source_of(cell))
        except SyntaxError as error:
            message = f"not valid Python: {error.msg}, line {error.lineno}"
            yield NotebookProblem("syntax", index, message, source_of(cell))
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.body[0].lineno + 1
                if lines > LONGEST_BODY_LINES:
                    message = f"the body of {node.name} has {lines} lines, {LONGEST_BODY_LINES} fit"
                    yield NotebookProblem("long_function", index, message)


def _installs(notebook: Notebook) -> Iterator[NotebookProblem]:
    for index, cell in code_cells(notebook):
        source = source_of(cell)
        pattern = _INSTALL_IN_SHELL if _SHELL_CELL.match(source) else _INSTALL
        if found := pattern.search(source):
            message = "a notebook must not install packages: declare the package in pyproject.toml"
            yield NotebookProblem("install", index, message, found[0].strip())


def _title(notebook: Notebook) -> Iterator[NotebookProblem]:
    headings = (
        (index, line.strip())
        for index, cell in numbered_cells(notebook)
        for line in source_of(cell).splitlines()
        if cell.get("cell_type") == "markdown" and line.strip().startswith("#")
    )
    index, heading = next(headings, (None, ""))
    if not heading.endswith("?"):
        message = f"the title is {heading!r}; the first heading has to be a question (?)"
        yield NotebookProblem("title", index, message)


COMMON_RULES: tuple[Rule, ...] = (_leftovers, _size, _parameters_cell)
"""Rules for every notebook that a matrix runs, in any project."""

RULES: tuple[Rule, ...] = (
    *(_leftovers, _size, _kernelspec, _parameters),
    *(_cell_count, _harness, _functions, _installs, _title),
)
