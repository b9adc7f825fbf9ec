"""Read by the compiling process: the block-table specialisations that a sweep asks for."""

from __future__ import annotations

from dataclasses import replace

from workbench.kernels.block_table import fast_apply_kernel, fast_kernel
from workbench.kernels.kernel_spec import KernelSpec
from workbench.sweeps.kernels.fitting import requested_configs
from workbench.sweeps.kernels.table_kernels import spec_name, tiles_of

MAX_REQUESTS = 8192
ANY_SIZE = fast_kernel.INSPECTED[1]
"""Divides by multiplying, which needs more registers than shifts do."""


def _requested() -> tuple[KernelSpec, ...]:
    [apply] = fast_apply_kernel.INSPECTED
    found: dict[str, KernelSpec] = {}
    for config in requested_configs():
        tiles = tiles_of(config)
        name = spec_name(config, gather=False)
        changed = {"IDS": tiles.apply_ids}
        found[name] = _like(apply, name, tiles.num_warps, changed)
        name = spec_name(config, gather=True)
        changed = {
            "ROWS": tiles.rows(MAX_REQUESTS),
            "COLUMNS": tiles.tile_columns,
            "TOKENS": tiles.slot_tokens,
        }
        found[name] = _like(ANY_SIZE, name, tiles.num_warps, changed)
    return tuple(found.values())


def _like(spec: KernelSpec, name: str, num_warps: int, changed: dict[str, int]) -> KernelSpec:
    constants = {**spec.constexprs, **changed}
    return replace(spec, name=name, constexprs=constants, num_warps=num_warps)


INSPECTED = _requested()
