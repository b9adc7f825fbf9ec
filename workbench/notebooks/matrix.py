"""A matrix: every notebook of a folder, its cases, and their requirements."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from workbench.access.files import FileError, FileUse
from workbench.core.errors import unknown_name_message
from workbench.notebooks.expectations import Budgets, Expectations
from workbench.notebooks.matrix_file import MatrixTable, NotebookTable
from workbench.notebooks.problems import NotebookMatrixError, near_path
from workbench.notebooks.runner import has_gpu
from workbench.notebooks.strict import read_strict

MATRIX = FileUse("matrix file", 4 * 2**20, "matrix")
NEEDS_GPU = "needs a GPU"
GPU_BUDGETS = Budgets(memory_limit_mib=32_768)
"""A process that uses a GPU holds gigabytes, and torch compiles in one per processor."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run of one notebook; `case_id` is `<notebook>::<name>`, without the notebook's suffix.

    `quick`: it belongs to the small part that every test run makes. `golden_path`: the file that
    has its golden; `expectations` are those of the matrix file, without that golden.
    """

    notebook: Path
    case_id: str
    name: str
    parameters: Mapping[str, Any]
    expectations: Expectations
    quick: bool
    timeout_s: float
    golden_path: Path | None

    @property
    def stem(self) -> str:
        """Return the stem of its files."""
        return self.case_id.replace("/", "-").replace("::", "--")


@dataclass(frozen=True, slots=True)
class Matrix:
    """`path`: of the file; `cases` in its order; `excluded`: id of a skipped case -> the reason."""

    path: Path
    cases: tuple[Case, ...]
    excluded: Mapping[str, str]

    def select(self, patterns: Sequence[str] = (), *, quick: bool = False) -> tuple[Case, ...]:
        """Return cases whose id is like a pattern, or contains it. Raises NotebookMatrixError."""
        for pattern in patterns:
            if not any(_like(case, pattern) for case in self.cases):
                if pattern in self.excluded:
                    why = f"case {pattern} is excluded: {self.excluded[pattern]}"
                else:
                    ids = [case.case_id for case in self.cases]
                    why = unknown_name_message("Case", pattern, ids)
                raise _matrix_error(self.path, why, "unknown_case")
        chosen = (case for case in self.cases if case.quick or not quick)
        return tuple(
            case for case in chosen if any(_like(case, each) for each in patterns or ("",))
        )

    def command(self, case: Case, *more: str) -> str:
        """Return the command that runs one case again."""
        words = ["workbench", "notebook", "run", "--matrix", near_path(self.path)]
        return shlex.join([*words, "--only", case.case_id, *more])


def _like(case: Case, pattern: str) -> bool:
    return pattern in case.case_id or fnmatchcase(case.case_id, pattern)


def read_matrix(path: str | Path) -> Matrix:
    """Return the matrix of a TOML or JSON file.

    Raises NotebookMatrixError: a malformed file, a notebook without an entry or an entry without
    a notebook, a case named twice, an invalid schema, a skip that skips nothing.
    """
    source = Path(path).absolute()
    try:
        table = read_strict(source, MATRIX, MatrixTable)
    except FileError as error:  # its message names the file
        raise NotebookMatrixError("matrix_file", error.message, field="matrix") from error
    except ValueError as error:
        raise _matrix_error(source, str(error)) from error
    _check_notebooks(source, table)
    entries = table.notebook.items()
    on_gpu = has_gpu()
    excluded = {
        f"{PurePosixPath(name).with_suffix('')}::{combination}": reason
        for name, entry in entries
        for combination, _, reason in entry.combinations()
        if reason
    }
    cases = []
    for name, entry in entries:
        for case, needs_gpu in _cases(source.parent, table, name, entry, on_gpu=on_gpu):
            if needs_gpu and not on_gpu:
                excluded[case.case_id] = NEEDS_GPU
            else:
                cases.append(case)
    return Matrix(source, tuple(cases), excluded)


def _check_notebooks(source: Path, table: MatrixTable) -> None:
    folder = source.parent
    paths = (path for pattern in table.notebooks for path in folder.glob(pattern))
    found = {path.relative_to(folder).as_posix() for path in paths}
    found = {name for name in found if ".ipynb_checkpoints" not in name}
    if without := sorted(found - table.notebook.keys()):
        why = f"no entry for {', '.join(without)}: add [notebook.{without[0]!r}] with its cases"
        raise _matrix_error(source, why, "no_entry")
    for name in table.notebook:
        if not (folder / name).is_file():
            why = unknown_name_message("Notebook", name, found)
            raise _matrix_error(source, why, "no_notebook")


def _cases(
    folder: Path, table: MatrixTable, name: str, entry: NotebookTable, *, on_gpu: bool
) -> Iterator[tuple[Case, bool]]:
    """Yield every case of a notebook, and whether it needs a GPU."""
    stem = PurePosixPath(name).with_suffix("")
    for case_name, case in entry.runs():
        usual = GPU_BUDGETS if case.gpu else entry.budgets.over(table.defaults.budgets)
        budgets = case.budgets.over(usual)
        found = Case(
            notebook=folder / name,
            case_id=f"{stem}::{case_name}",
            name=case_name,
            parameters={**table.defaults.parameters, **entry.parameters, **case.parameters},
            expectations=Expectations(
                values={**entry.expect, **case.expect, **dict.fromkeys(case.expect_null)},
                schema=entry.results or None,
                volatile=frozenset(entry.volatile),
                budgets=budgets.on_a_gpu() if on_gpu and not case.gpu else budgets,
                gpu_cells=0 if case.gpu else entry.gpu_cells,
            ),
            quick=case.quick,
            timeout_s=entry.timeout_s or table.defaults.timeout_s,
            golden_path=(
                folder / table.goldens / f"{stem}.json" if entry.golden and not case.gpu else None
            ),
        )
        yield found, bool(case.gpu)


def _matrix_error(path: Path, why: str, code: str = "matrix_file") -> NotebookMatrixError:
    return NotebookMatrixError(code, f"Matrix file {path}: {why}", field="matrix")
