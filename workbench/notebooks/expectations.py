"""Requirements on a run, in addition to having no error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from workbench.notebooks.memory import Limits
from workbench.notebooks.strict import Strict

ARTIFACT_KIB = 2048

CONTEXT_MIB = 1024
"""What a process's first use of a GPU takes: 730 MiB were seen on an H200."""


class Budgets(Strict):
    """The most that a run may take; None: no budget.

    A budget is judged after the run; a limit ends it. Wall-clock seconds, of all cells and of
    each; memory of the kernel and its children: the highest of the run, and what one cell adds to
    what was there; `size_kib` of the executed notebook without widget state. Times are for a CI
    machine: `scaled` fits them to a slower one.
    """

    PLACE = "budgets (of a case, a notebook or defaults)"
    time_s: float | None = Field(default=None, gt=0)
    cell_time_s: float | None = Field(default=None, gt=0)
    memory_mib: float | None = Field(default=None, gt=0)
    cell_memory_mib: float | None = Field(default=None, gt=0)
    size_kib: float | None = Field(default=ARTIFACT_KIB, gt=0)
    memory_limit_mib: float = Field(default=4096, gt=0)
    """Of all processes of the run; more than the budget, so that a little too much is measured."""
    output_limit_mib: float = Field(default=32, gt=0)
    """What all cells may print and display, widgets included."""

    def over(self, other: Budgets) -> Budgets:
        """Return the budgets that are set here, and those of `other` for the rest."""
        own, others = (
            each.model_dump(exclude_unset=True, exclude_none=True) for each in (self, other)
        )
        return Budgets(**{**others, **own})

    @property
    def limits(self) -> Limits:
        """Return what ends the run."""
        sizes = self.memory_limit_mib, self.output_limit_mib
        return Limits(*(int(mib * 2**20) for mib in sizes))

    def on_a_gpu(self) -> Budgets:
        """Return the same budgets with what the first use of a GPU takes."""
        names = ("memory_mib", "cell_memory_mib", "memory_limit_mib")
        sizes = ((name, getattr(self, name)) for name in names)
        return self.model_copy(update={name: most and most + CONTEXT_MIB for name, most in sizes})

    def scaled(self, factor: float) -> Budgets:
        """Return the same budgets with `factor` times the seconds."""
        times = ((name, getattr(self, name)) for name in ("time_s", "cell_time_s"))
        return self.model_copy(update={name: most and most * factor for name, most in times})


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
