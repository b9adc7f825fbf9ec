"""Which points of a grid everything is decided alike for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core.flex.plan import FLEX
from workbench.core.flex.sizes import FLEX_FIELDS
from workbench.run.sweeps.arrays import first_of_each
from workbench.run.sweeps.columns import Column, combinations, identity
from workbench.run.sweeps.frame import Frame
from workbench.run.sweeps.memory import MEMORY_FIELDS
from workbench.run.sweeps.recorder import ATTRIBUTES, SETTING

ON_THE_WAY = frozenset(
    {
        "backends",
        "block_size_of_phase_1",
        "float32_state",
        "mamba_cache_dtype",
        "mamba_ssm_cache_dtype",
    }
)
"""Attributes whose effect other attributes tell: `supported`, `state_dtypes`, the sizes."""
READ_BY_FLEX = (*FLEX_FIELDS, "torch_version")
TOLD = frozenset(
    {
        "backend",
        "dtype",
        "kv_cache_dtype",
        "mamba_cache_dtype",
        "mamba_ssm_cache_dtype",
        "enable_prefix_caching",
        "mamba_cache_mode",
        "block_size",
        "mamba_block_size",
        "max_model_len",
        "max_num_batched_tokens",
        "max_num_seqs",
        *MEMORY_FIELDS,
        *READ_BY_FLEX,
    }
)
"""Settings whose whole effect attributes and sizes tell; others reach the engine as they are."""


def copies(
    frame: Frame, num_blocks: npt.NDArray[np.int64], seen: set[Any] | None
) -> npt.NDArray[np.bool_]:
    """For each point of a grid, in its shape, whether an earlier one decides everything alike.

    seen: what the points of earlier grids decided, None if there are no others; it grows.
    """
    values, codes = np.unique(num_blocks, return_inverse=True)
    columns = [
        Column(codes.reshape(num_blocks.shape).astype(np.int32), tuple(values.tolist())),
        *_decided(frame),
    ]
    found = combinations(columns, len(frame.shape), frame.checked)
    which = found.which.reshape(-1)
    first = first_of_each(which, len(found.rows))
    if seen is not None:
        first = first[_are_new(found.rows, columns, seen)]
    later = np.ones(which.size, dtype=bool)
    later[first] = False
    result = np.ones(frame.shape, dtype=bool)
    result[tuple(map(slice, found.which.shape))] = later.reshape(found.which.shape)
    return result


def _are_new(
    rows: npt.NDArray[np.int32], columns: list[Column], seen: set[Any]
) -> npt.NDArray[np.bool_]:
    tables = [[identity(value) for value in column.values] for column in columns]
    keys = [
        tuple(table[code] for table, code in zip(tables, row, strict=True)) for row in rows.tolist()
    ]
    new = np.array([key not in seen for key in keys], dtype=bool)
    seen.update(keys)
    return new


def _decided(frame: Frame) -> list[Column]:
    """All that is decided for a point, but for the blocks of its pool."""
    decided = [name for name in ATTRIBUTES if name in frame.columns and name not in ON_THE_WAY]
    reaching = [
        column
        for name, column in frame.columns.items()
        if name.startswith(SETTING) and name.removeprefix(SETTING) not in TOLD
    ]
    return [*(frame.columns[name] for name in decided), *reaching, _flex_sizes(frame)]


def _flex_sizes(frame: Frame) -> Column:
    """What is typed for flex attention, where that is the backend."""
    backend = frame.columns["backend"]
    fields = [frame.columns[SETTING + name] for name in READ_BY_FLEX]
    typed = combinations(fields, len(frame.shape))
    is_flex = np.array([value is not None and value.name == FLEX for value in backend.values])
    codes = np.where(is_flex[backend.codes], typed.which + 1, 0)
    told = [
        tuple(field.values[code] for field, code in zip(fields, row, strict=True))
        for row in typed.rows.tolist()
    ]
    return Column(codes.astype(np.int32), (None, *told))
