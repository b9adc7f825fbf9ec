"""Requirements on a run, in addition to having no error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

MIB = 2**20
ARTIFACT_BYTES = 2 * MIB


@dataclass(frozen=True, slots=True)
class Budgets:
    """The most that a run may take; None: no budget.

    Wall-clock seconds, of all cells and of each; memory of the kernel and its children: the
    highest of the run, and what one cell adds to what was there; `size_bytes` of the executed
    notebook without widget state. Times are for a CI machine: `scaled` fits them to a slower one.
    """

    time_s: float | None = None
    cell_time_s: float | None = None
    memory_bytes: float | None = None
    cell_memory_bytes: float | None = None
    size_bytes: float | None = ARTIFACT_BYTES

    def scaled(self, factor: float) -> Budgets:
        """Return the same budgets with `factor` times the seconds."""
        names = [each.name for each in fields(self) if each.name.endswith("time_s")]
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return replace(self, **{name: value * factor for name, value in given.items()})


@dataclass(frozen=True, slots=True)
class Golden:
    """The results of a case when it was last recorded.

    `parameters` are those of that time; both are None when it was never recorded. `file` and
    `update` go into messages: where it is stored, and the command that records it anew.
    """

    parameters: Mapping[str, Any] | None
    results: Mapping[str, Any] | None
    file: str
    update: str


@dataclass(frozen=True, slots=True)
class Expectations:
    """All requirements that the caller sets for a run.

    `values`: results by name, from a source outside the project; `schema`: a JSON Schema for
    all results; `golden`: the recorded results, of which `volatile` names may change from run to
    run; `gpu_cells`: how many cells need a GPU, each of which records a reason when it is skipped
    (None: not declared, not checked).
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] | None = None
    golden: Golden | None = None
    volatile: frozenset[str] = frozenset()
    budgets: Budgets = field(default_factory=Budgets)
    gpu_cells: int | None = None
