"""A matrix: every notebook of a folder, its cases, and their requirements."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from workbench.core.errors import unknown_name_message
from workbench.run.notebooks.expectations import ARTIFACT_BYTES, MIB, Budgets
from workbench.run.notebooks.matrix_file import (
    CASE_NAME,
    BudgetTable,
    MatrixTable,
    NotebookTable,
    matrix_error,
    read_table,
)
from workbench.run.notebooks.schema import results_schema


@dataclass(frozen=True, slots=True)
class Case:
    """One run of one notebook; `case_id` is `<notebook>::<name>`, without the notebook's suffix.

    `quick`: it belongs to the small part that every test run makes.
    """

    notebook: Path
    case_id: str
    name: str
    parameters: Mapping[str, Any]
    expect: Mapping[str, Any]
    quick: bool
    budgets: Budgets
    timeout_s: float
    schema: Mapping[str, Any] | None
    volatile: frozenset[str]
    golden_path: Path | None
    gpu_cells: int

    @property
    def stem(self) -> str:
        """Return the stem of its files."""
        return self.case_id.replace("/", "-").replace("::", "--")


@dataclass(frozen=True, slots=True)
class ExcludedCase:
    """A combination of axes that is not run, and why."""

    case_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """`path`: of the file; `cases` in its order; `excluded`: combinations skipped with a reason."""

    path: Path
    cases: tuple[Case, ...]
    excluded: tuple[ExcludedCase, ...] = ()

    def select(self, patterns: Sequence[str] = (), *, quick: bool = False) -> tuple[Case, ...]:
        """Return cases whose id matches one of the patterns (`*` and `?`), or contains it.

        Raises NotebookMatrixError for a pattern without a match.
        """
        for pattern in patterns:
            if not any(_like(case.case_id, pattern) for case in self.cases):
                ids = [case.case_id for case in self.cases]
                raise matrix_error(
                    self.path, unknown_name_message("Case", pattern, ids), "unknown_case"
                )
        return tuple(
            case
            for case in self.cases
            if (case.quick or not quick)
            and (not patterns or any(_like(case.case_id, pattern) for pattern in patterns))
        )

    def command(self, case: Case, *more: str) -> str:
        """Return the command that runs one case again."""
        near = Path.cwd()
        path = self.path.relative_to(near) if self.path.is_relative_to(near) else self.path
        words = ["workbench", "notebook", "run", "--matrix", path.as_posix()]
        return shlex.join([*words, "--only", case.case_id, *more])


def _like(case_id: str, pattern: str) -> bool:
    return pattern in case_id or fnmatchcase(case_id, pattern)


def read_matrix(path: str | Path) -> Matrix:
    """Return the matrix of a TOML or JSON file.

    Raises NotebookMatrixError: a malformed file, a notebook without an entry or an entry without
    a notebook, a case named twice, an invalid schema, a skip that skips nothing.
    """
    source = Path(path).absolute()
    table = read_table(source)
    _check_notebooks(source, table)
    cases: list[Case] = []
    excluded: list[ExcludedCase] = []
    for name, entry in table.notebook.items():
        cases += _cases(source, table, name, entry)
        excluded += _left_out(source, name, entry)
    return Matrix(source, tuple(cases), tuple(excluded))


def _check_notebooks(source: Path, table: MatrixTable) -> None:
    folder = source.parent
    paths = (path for pattern in table.notebooks for path in folder.glob(pattern))
    found = {path.relative_to(folder).as_posix() for path in paths}
    found = {name for name in found if ".ipynb_checkpoints" not in name}
    without = sorted(found - table.notebook.keys())
    if without:
        why = f"no entry for {', '.join(without)}: add [notebook.{without[0]!r}] with its cases"
        raise matrix_error(source, why, "no_entry")
    for name in table.notebook:
        if not (folder / name).is_file():
            why = unknown_name_message("Notebook", name, found)
            raise matrix_error(source, why, "no_notebook")


def _cases(source: Path, table: MatrixTable, name: str, entry: NotebookTable) -> Iterator[Case]:
    try:
        schema = results_schema(entry.results) if entry.results else None
    except ValueError as error:
        raise matrix_error(source, f"notebook.{name}.results: {error}") from error
    goldens = source.parent / table.goldens / Path(name).with_suffix(".json")
    plan: list[tuple[str, Mapping[str, Any], Mapping[str, Any], bool, BudgetTable]] = [
        (
            case_name,
            case.parameters,
            {**case.expect, **dict.fromkeys(case.expect_null)},
            case.quick,
            case.budgets,
        )
        for case_name, case in entry.cases.items()
    ]
    combined = [(_axes_name(each), each) for each in _combinations(entry) if not _skip(entry, each)]
    unknown = sorted(set(entry.quick) - {case_name for case_name, _ in combined})
    if unknown:
        allowed = [case_name for case_name, _ in combined]
        why = f"notebook.{name}.quick: {unknown_name_message('Combination', unknown[0], allowed)}"
        raise matrix_error(source, why)
    plan += [(each, values, {}, each in entry.quick, BudgetTable()) for each, values in combined]
    seen: set[str] = set()
    for case_name, parameters, expect, quick, budgets in plan:
        if case_name in seen or not re.match(CASE_NAME, case_name):
            why = "is named twice" if case_name in seen else "may hold letters, digits and . _ -"
            raise matrix_error(source, f"notebook.{name}: case {case_name!r} {why}")
        seen.add(case_name)
        yield Case(
            notebook=source.parent / name,
            case_id=f"{Path(name).with_suffix('').as_posix()}::{case_name}",
            name=case_name,
            parameters={**table.defaults.parameters, **entry.parameters, **parameters},
            expect={**entry.expect, **expect},
            quick=quick,
            budgets=_budgets(table.defaults.budgets, entry.budgets, budgets),
            timeout_s=entry.timeout_s or table.defaults.timeout_s,
            schema=schema,
            volatile=frozenset(entry.volatile),
            golden_path=goldens if entry.golden else None,
            gpu_cells=entry.gpu_cells,
        )


def _left_out(source: Path, name: str, entry: NotebookTable) -> Iterator[ExcludedCase]:
    combinations = list(_combinations(entry))
    for skip in entry.skip:
        if not any(skip.when.items() <= each.items() for each in combinations):
            why = f"notebook.{name}.skip: {dict(skip.when)} is not a combination of its axes"
            raise matrix_error(source, why)
    stem = Path(name).with_suffix("").as_posix()
    for each in combinations:
        reason = _skip(entry, each)
        if reason:
            yield ExcludedCase(f"{stem}::{_axes_name(each)}", reason)


def _combinations(entry: NotebookTable) -> Iterator[dict[str, Any]]:
    if entry.axes:
        for values in itertools.product(*entry.axes.values()):
            yield dict(zip(entry.axes, values, strict=True))


def _skip(entry: NotebookTable, values: Mapping[str, Any]) -> str:
    for skip in entry.skip:
        if skip.when.items() <= values.items():
            return skip.reason
    return ""


def _axes_name(values: Mapping[str, Any]) -> str:
    """Return the combination's name: its values, with characters allowed in a file name."""
    words = (re.sub(r"[^A-Za-z0-9._]+", "-", str(value)).strip("-.") for value in values.values())
    return "-".join(word or "empty" for word in words)


def _budgets(*tables: BudgetTable) -> Budgets:
    """Return the budgets; the last table that names one decides."""
    given: dict[str, float] = {}
    for table in tables:
        given |= {name: value for name, value in table if value is not None}

    def number(name: str, unit: int) -> float | None:
        return given[name] * unit if name in given else None

    return Budgets(
        time_s=number("time_s", 1),
        cell_time_s=number("cell_time_s", 1),
        memory_bytes=number("memory_mib", MIB),
        cell_memory_bytes=number("cell_memory_mib", MIB),
        size_bytes=number("size_kib", 1024) or ARTIFACT_BYTES,
    )
