"""Sweeps of the block-table kernels: which tiles are legal, and which fit a device.

A bucket is a workload of the block-table benchmark. `measure` in `table_measure` is what a lane
runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from workbench.sweeps.kernels.fitting import Candidates, combined, fitting, legal

if TYPE_CHECKING:
    from workbench.sweeps.kernels.table_path import Tiles

MEASURE = "workbench.sweeps.kernels.table_measure:measure"
SPECS_MODULE = "workbench.sweeps.kernels.table_specs"
AXES: Mapping[str, tuple[Any, ...]] = {
    "apply_ids": (256, 512),
    "programs_per_processor": (8,),
    "slot_tokens": (256, 512, 1024),
    "tile_entries": (1024, 2048, 4096),
    "tile_columns": (32, 128),
    "num_warps": (4, 8),
}
"""Values that are tried by default."""
SMALL_AXES: Mapping[str, tuple[Any, ...]] = {
    "apply_ids": (128,),
    "programs_per_processor": (1,),
    "slot_tokens": (32, 48, 64),
    "tile_entries": (64,),
    "tile_columns": (32, 128),
    "num_warps": (4,),
}
"""Without a GPU: a few configurations, some of them illegal, to see the flow."""


@dataclass(frozen=True, slots=True)
class TableShape:
    """A workload of `kernels.bench.workloads`; reduced: small enough for the interpreter."""

    workload: str
    reduced: bool = False

    @property
    def name(self) -> str:
        """See `winners.Shape`."""
        return f"{self.workload} reduced" if self.reduced else self.workload

    @property
    def fields(self) -> dict[str, bool]:
        """See `winners.Shape`."""
        return {"reduced": self.reduced}


def shapes(*, reduced: bool) -> tuple[TableShape, ...]:
    """Return every workload; reduced: a hybrid decode and a prefill, for the interpreter."""
    from workbench.kernels.bench.workloads import WORKLOADS

    names = ("W2", "W5") if reduced else tuple(WORKLOADS)
    return tuple(TableShape(name, reduced) for name in names)


def tiles_of(config: Mapping[str, Any]) -> Tiles:
    """Return the tiles of a configuration. Errors: BlockTableError for what is illegal."""
    from workbench.sweeps.kernels.table_path import Tiles

    return Tiles(**{field.name: config[field.name] for field in fields(Tiles)})


def candidates(
    axes: Mapping[str, Sequence[Any]] | None = None, *, target: str | None = "sm_90"
) -> Candidates:
    """Return legal combinations that, compiled for `target`, neither spill nor are too large.

    target: None leaves the compiler out. Nothing is launched. Errors: InspectionError where the
    compiler itself fails.
    """
    kept, illegal = legal(combined({**AXES, **(axes or {})}), _refused)
    if target is None:
        return Candidates(kept, illegal, {})
    fit, unfit = fitting(kept, target, SPECS_MODULE, spec_names)
    return Candidates(fit, illegal, unfit)


def _refused(config: Mapping[str, Any]) -> str:
    from workbench.kernels.block_table.errors import BlockTableError

    try:
        tiles_of(config)
    except BlockTableError as error:
        return error.field
    return ""


def spec_names(config: Mapping[str, Any]) -> tuple[str, str]:
    """Return the specialisations that a configuration launches: of the apply, and of the rest."""
    return spec_name(config, gather=False), spec_name(config, gather=True)


def spec_name(config: Mapping[str, Any], *, gather: bool) -> str:
    """Return one name for equal specialisations: each kernel has its own tiles."""
    own = _OF_GATHER if gather else _OF_APPLY
    text = json.dumps({name: config[name] for name in own}, sort_keys=True)
    return f"{'gather' if gather else 'apply'} {text}"


_OF_APPLY = ("apply_ids", "num_warps")
_OF_GATHER = ("slot_tokens", "tile_entries", "tile_columns", "num_warps")
