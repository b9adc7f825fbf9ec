"""The form of a matrix file, TOML or JSON: which notebooks, which parameters, which budgets."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workbench.access.files import FileError, FileUse, read_text
from workbench.access.json_text import parse_json
from workbench.core.errors import nearest_names
from workbench.run.notebooks.errors import NotebookMatrixError

MATRIX = FileUse("matrix file", 4 * 2**20, "matrix")
Parameters = dict[str, Any]
CASE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
Positive = Field(default=None, gt=0)


class Strict(BaseModel):
    """Allows only declared fields, and no conversion from text to number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class BudgetTable(Strict):
    """The most a run may take. Seconds on a CI machine, MiB; `size_kib` of the executed file."""

    time_s: float | None = Positive
    cell_time_s: float | None = Positive
    memory_mib: float | None = Positive
    cell_memory_mib: float | None = Positive
    size_kib: float | None = Positive


class CaseTable(Strict):
    """One run: parameters over those of its notebook, and results known from elsewhere.

    `expect_null`: results that have to be null, for which TOML has no word.
    """

    parameters: Parameters = {}
    expect: dict[str, Any] = {}
    expect_null: list[str] = []
    quick: bool = False
    budgets: BudgetTable = BudgetTable()


class SkipTable(Strict):
    """Combinations of the axes that are excluded, with the reason, which every report shows."""

    when: Parameters = Field(min_length=1)
    reason: str = Field(min_length=10)


class NotebookTable(Strict):
    """The runs of one notebook: `cases` by name, and every combination of the values of `axes`.

    `quick`: names of combinations that also belong to the quick part; `expect`: of every run;
    `results`: the schema of its records, a type or a JSON Schema per name; `volatile`: results
    that a golden does not keep; `gpu_cells`: how many cells need a GPU and say when they skip.
    """

    parameters: Parameters = {}
    expect: dict[str, Any] = {}
    axes: dict[str, list[Any]] = {}
    quick: list[str] = []
    skip: list[SkipTable] = []
    cases: dict[str, CaseTable] = {}
    results: dict[str, str | dict[str, Any]] = {}
    volatile: list[str] = []
    golden: bool = True
    gpu_cells: int = Field(default=0, ge=0)
    budgets: BudgetTable = BudgetTable()
    timeout_s: float | None = Positive


class DefaultsTable(Strict):
    """Defaults for every notebook."""

    parameters: Parameters = {}
    budgets: BudgetTable = BudgetTable()
    timeout_s: float = Field(default=600, gt=0)


class MatrixTable(Strict):
    """A whole file; its paths are relative to its folder.

    `notebooks`: patterns, of which every match needs an entry in `notebook`; `goldens`: a folder.
    """

    format: Literal[1]
    notebooks: list[str] = ["*.ipynb"]
    goldens: str = "goldens"
    defaults: DefaultsTable = DefaultsTable()
    notebook: dict[str, NotebookTable] = Field(min_length=1)


def read_table(path: Path) -> MatrixTable:
    """Return the parsed file. Raises NotebookMatrixError: missing, malformed, unknown field."""
    try:
        text = read_text(path, MATRIX)
    except FileError as error:
        raise NotebookMatrixError("matrix_file", error.message, field="matrix") from None
    try:
        document = tomllib.loads(text) if path.suffix == ".toml" else parse_json(text)
    except (ValueError, RecursionError) as error:
        form = "TOML" if path.suffix == ".toml" else "JSON (a TOML file ends with .toml)"
        raise matrix_error(path, f"it is not {form}: {error}") from error
    try:
        return MatrixTable.model_validate(document)
    except ValidationError as error:
        raise matrix_error(path, _what_is_wrong(error)) from error


def matrix_error(path: Path, why: str, code: str = "matrix_file") -> NotebookMatrixError:
    """Return the error for an invalid file."""
    return NotebookMatrixError(code, f"Matrix file {path}: {why}", field="matrix")


_FIELDS = {name for table in Strict.__subclasses__() for name in table.model_fields}


def _what_is_wrong(error: ValidationError) -> str:
    """Return every mistake in one text: where, the value, what is allowed."""
    found = []
    for mistake in error.errors():
        where = ".".join(map(str, mistake["loc"])) or "the top"
        if mistake["type"] == "extra_forbidden":
            near = nearest_names(mistake["loc"][-1], _FIELDS, count=1)
            hint = f"; nearest: {near[0]}" if near else ""
            found.append(f"{where} is not a field{hint}")
        elif mistake["type"] == "missing":
            found.append(f"{where} is missing")
        else:
            found.append(f"{where} is {mistake['input']!r:.80}: {mistake['msg']}")
    return "; ".join(found)
