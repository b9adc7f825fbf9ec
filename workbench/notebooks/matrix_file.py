"""The form of a matrix file, TOML or JSON: which notebooks, which parameters, which budgets."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from workbench.core.errors import cut, shown, unknown_name_message
from workbench.notebooks.expectations import Budgets
from workbench.notebooks.strict import Strict

Parameters = dict[str, Any]
CASE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
MOST_COMBINATIONS = 10_000
"""Of the axes of one notebook; a run of each takes seconds."""
TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")


def results_schema(fields: Mapping[str, str | Mapping[str, Any]]) -> dict[str, Any]:
    """Return the schema of a notebook's results: every name is required, no other allowed.

    A field is a JSON Schema, or short: "integer", "integer|null". Raises ValueError for one that
    is neither.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    schema = {
        "type": "object",
        "properties": {name: _field(name, written) for name, written in fields.items()},
        "required": list(fields),
        "additionalProperties": False,
    }
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = ".".join(str(part) for part in error.path)
        raise ValueError(f"{cut(where)}: {error.message[:300]}") from error
    return schema


def _field(name: str, written: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(written, str):
        return written
    types = written.split("|")
    if unknown := [each for each in types if each not in TYPES]:
        allowed = ", ".join(TYPES)
        raise ValueError(
            f"Invalid type {shown(unknown[0])} of {cut(name)}. Expected {allowed}, joined by |."
        )
    return {"type": types if len(types) > 1 else types[0]}


class CaseTable(Strict):
    """One run: parameters over those of its notebook, and results known from elsewhere.

    `expect_null`: results that have to be null, for which TOML has no word. `gpu`: the run needs a
    GPU, "alone" where it measures what a neighbour would disturb. It is excluded without one, skips
    no cell, has no golden, and of the default budgets none, which are of a machine without a GPU.
    """

    PLACE = "a case"
    parameters: Parameters = {}
    expect: dict[str, Any] = {}
    expect_null: list[str] = []
    quick: bool = False
    gpu: Literal["", "shared", "alone"] = ""
    budgets: Budgets = Budgets()


class SkipTable(Strict):
    """Combinations of the axes that are excluded, with the reason, which every report shows."""

    PLACE = "a skip"
    when: Parameters = Field(min_length=1)
    reason: str = Field(min_length=10)


class NotebookTable(Strict):
    """The runs of one notebook: `cases` by name, and every combination of the values of `axes`.

    `quick`: names of combinations that also belong to the quick part; `expect`: of every run;
    `results`: the schema of its records, a type or a JSON Schema per name; `volatile`: results
    that a golden does not keep; `gpu_cells`: how many cells need a GPU and say when they skip.
    """

    PLACE = "a notebook"
    parameters: Parameters = {}
    expect: dict[str, Any] = {}
    axes: dict[str, list[Any]] = {}
    quick: list[str] = []
    skip: list[SkipTable] = []
    cases: dict[str, CaseTable] = {}
    results: Annotated[dict[str, str | dict[str, Any]], AfterValidator(results_schema)] = {}
    volatile: list[str] = []
    golden: bool = True
    gpu_cells: int = Field(default=0, ge=0)
    budgets: Budgets = Budgets()
    timeout_s: float | None = Field(default=None, gt=0)

    def combinations(self) -> Iterator[tuple[str, Parameters, str]]:
        """Yield every combination of the axes: its name, its values, why it is excluded or ""."""
        for values in itertools.product(*self.axes.values()) if self.axes else ():
            given = dict(zip(self.axes, values, strict=True))
            # characters allowed in a file name
            words = (re.sub(r"[^A-Za-z0-9._]+", "-", str(value)).strip("-.") for value in values)
            reasons = (skip.reason for skip in self.skip if skip.when.items() <= given.items())
            yield "-".join(word or "empty" for word in words), given, next(reasons, "")

    def runs(self) -> list[tuple[str, CaseTable]]:
        """Return the cases and the combinations that are not excluded, by name."""
        combined = (
            (name, CaseTable(parameters=values, quick=name in self.quick))
            for name, values, reason in self.combinations()
            if not reason
        )
        return [*self.cases.items(), *combined]

    @model_validator(mode="after")
    def _check_names_and_skips(self) -> Self:
        if (count := prod(map(len, self.axes.values()))) > MOST_COMBINATIONS:
            raise ValueError(f"axes: {count:,} combinations, more than {MOST_COMBINATIONS:,}")
        names = [name for name, _ in self.runs()]
        counts = Counter(names)
        for name in names:
            if counts[name] > 1:
                raise ValueError(f"case {shown(name)} is named twice")
            if not re.match(CASE_NAME, name):
                raise ValueError(f"case {shown(name)} may hold letters, digits and . _ -")
        combined = names[len(self.cases) :]
        for name in self.quick:
            if name not in combined:
                raise ValueError(f"quick: {unknown_name_message('Combination', name, combined)}")
        every = [values.items() for _, values, _ in self.combinations()]
        for skip in self.skip:
            if not any(skip.when.items() <= values for values in every):
                raise ValueError(f"skip: {shown(skip.when)} is not a combination of its axes")
        return self


class DefaultsTable(Strict):
    """Defaults for every notebook."""

    PLACE = "defaults"
    parameters: Parameters = {}
    budgets: Budgets = Budgets()
    timeout_s: float = Field(default=600, gt=0)


def pattern_of_notebooks(pattern: str) -> str:
    """Return a pattern of paths in the folder of the file. Raises ValueError for any other."""
    parts = PurePosixPath(pattern).parts
    if not parts or pattern.startswith("/") or ".." in parts:
        raise ValueError(f"Invalid pattern {shown(pattern)}. Expected one inside this folder")
    if any("**" in part and part != "**" for part in parts):
        raise ValueError(f"Invalid pattern {shown(pattern)}. Expected ** as a whole folder")
    return pattern


class MatrixTable(Strict):
    """A whole file; its paths are relative to its folder.

    `notebooks`: patterns, of which every match needs an entry in `notebook`; `goldens`: a folder.
    """

    PLACE = "the top of the file"
    format: Literal[1]
    notebooks: list[Annotated[str, AfterValidator(pattern_of_notebooks)]] = ["*.ipynb"]
    goldens: str = "goldens"
    defaults: DefaultsTable = DefaultsTable()
    notebook: dict[str, NotebookTable] = Field(min_length=1)
