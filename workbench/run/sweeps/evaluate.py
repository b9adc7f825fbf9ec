"""Evaluate a space: every point as if it were resolved alone, at a million points a second.

How fast: a stage runs once for every combination of inputs that differ, and the rest is numpy. A
sweep over fields with a few values each has some thousands of such combinations, however many
points. Where nearly every point has inputs of its own (long axes of block sizes against each
other), it is as slow as its stages: some ten thousand points a second.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core.errors import WorkbenchError
from workbench.core.flex.plan import FLEX
from workbench.core.plan import Plan
from workbench.core.resolve import resolve
from workbench.core.rules import RULE_SETS
from workbench.core.stages import memory as memory_stages
from workbench.run.sweeps.columns import Column, combinations
from workbench.run.sweeps.frame import Frame
from workbench.run.sweeps.memory import MEMORY_FIELDS, OWN_STAGES, Sizes, sizes
from workbench.run.sweeps.recorder import ATTRIBUTES, SETTING
from workbench.run.sweeps.space import Space
from workbench.run.sweeps.table import SweepTable

DEFAULT_PROMPT_TOKENS = 4096
CHECKED_POINTS = 12
DTYPES: dict[str, Any] = {
    "refused_by": np.int16,
    "problem_bits": np.int64,
    "backend": np.int16,
    "block_size": np.int64,
    "kernel_block_size": np.int64,
    "page_size_bytes": np.int64,
    "num_blocks": np.int64,
    "max_concurrency": np.float64,
    "smallest_prefix_tokens": np.int64,
    "waste_share": np.float64,
    "same_as": np.int64,
}


class SweepMismatchError(AssertionError):
    """A point of a sweep differs from the same scenario resolved alone: a defect of ours."""


def evaluate(space: Space, prompt_tokens: int = DEFAULT_PROMPT_TOKENS) -> SweepTable:
    """The table of a space. prompt_tokens: of the request that `waste_share` is told of.

    Some points are resolved alone as well and compared. Errors: SweepMismatchError; ScenarioError
    for a prompt below one token.
    """
    if prompt_tokens < 1:
        raise ValueError(f"prompt_tokens must be at least 1; got {prompt_tokens}.")
    whole = {name: np.empty(space.shape, dtype=dtype) for name, dtype in DTYPES.items()}
    bits: dict[tuple[str, str], int] = {}
    codes: dict[str, int] = {}
    backends: dict[str | None, int] = {}
    evaluations, highest = 0, 0
    for place, model, settings, axes in space.parts():
        frame = Frame(model, RULE_SETS[settings.rules], settings, tuple(axes.items()), bits)
        found = _evaluated(frame, prompt_tokens, codes, backends)
        found["same_as"] = found["same_as"] + highest
        highest = int(found["same_as"].max()) + 1
        for name, array in whole.items():
            target = array[place]
            array[place] = found[name].reshape(target.shape)
        evaluations += frame.evaluations
    flat = {name: array.reshape(-1) for name, array in whole.items()}
    _refuse_illegal(space, flat["refused_by"], codes)
    _, first = np.unique(flat.pop("same_as"), return_index=True)
    is_copy = np.ones(space.size, dtype=bool)
    is_copy[first] = False
    table = SweepTable(
        space=space,
        codes=tuple(codes),
        problems=tuple(bits),
        backends=tuple(backends),
        is_copy=is_copy,
        evaluations=evaluations,
        **flat,
    )
    check(table, prompt_tokens)
    return table


def _evaluated(
    frame: Frame, prompt_tokens: int, codes: dict[str, int], backends: dict[str | None, int]
) -> dict[str, npt.NDArray[Any]]:
    """The columns of one part, in its shape."""
    vectorised = set(OWN_STAGES) <= set(frame.rules.stages)
    fits = any(value == -1 for value in frame.columns[SETTING + "max_model_len"].values)
    for stage in frame.rules.stages:
        if (vectorised and stage in OWN_STAGES) or (stage is memory_stages.auto_fit and not fits):
            continue
        frame.apply(stage)
    found = sizes(frame, prompt_tokens, own_problems=vectorised)
    columns = frame.columns
    refused = frame.refusals(codes)
    return {
        "refused_by": refused,
        "problem_bits": np.where(refused < 0, frame.all_problems(), 0),
        "backend": frame.full(_numbered(columns["backend"], _backend_name, backends)),
        "block_size": frame.full(columns["block_size"].array(np.int64)),
        "kernel_block_size": frame.full(columns["kernel_block_size"].array(np.int64)),
        "page_size_bytes": frame.full(_page(columns)),
        "num_blocks": found.num_blocks,
        "max_concurrency": found.max_concurrency,
        "smallest_prefix_tokens": found.smallest_prefix_tokens,
        "waste_share": found.waste_share,
        "same_as": frame.full(_sameness(frame, found)),
    }


def _backend_name(backend: Any) -> str | None:
    return None if backend is None else str(backend.name)


def _numbered(
    column: Column, name: Callable[[Any], str | None], numbers: dict[str | None, int]
) -> npt.NDArray[np.int16]:
    table = [numbers.setdefault(name(value), len(numbers)) for value in column.values]
    return np.array(table, dtype=np.int16)[column.codes]


def _page(columns: dict[str, Column]) -> npt.NDArray[np.int64]:
    padded, own, attention = (
        columns[name].array(np.int64)
        for name in (
            "mamba_page_size_padded",
            "mamba_page_size_bytes",
            "attention_page_size_bytes",
        )
    )
    return np.where(padded > 0, padded, np.where(own > 0, own, attention))


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
FLEX_FIELDS = (
    "flex_attn_block_m",
    "flex_attn_block_n",
    "flex_attn_q_block_size",
    "flex_attn_kv_block_size",
    "torch_version",
)


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
        *MEMORY_FIELDS,
        *FLEX_FIELDS,
    }
)
"""Settings whose whole effect attributes and sizes tell; others reach the engine as they are."""


def _sameness(frame: Frame, found: Sizes) -> npt.NDArray[np.int64]:
    """A number that two points of a part share if everything is decided alike for them."""
    decided = [name for name in ATTRIBUTES if name in frame.columns and name not in ON_THE_WAY]
    columns = [frame.columns[name] for name in decided]
    columns += [
        column
        for name, column in frame.columns.items()
        if name.startswith(SETTING) and name.removeprefix(SETTING) not in TOLD
    ]
    columns.append(_flex_sizes(frame))
    same = combinations(columns, len(frame.shape))
    blocks = found.num_blocks
    low = int(blocks.min())
    width = int(blocks.max()) - low + 1
    joined = same.which.astype(np.int64)
    if width == 1:
        return joined
    return joined * width + (blocks - low)


def _flex_sizes(frame: Frame) -> Column:
    """What is typed for flex attention, where that is the backend."""
    backend = frame.columns["backend"]
    typed = combinations([frame.columns[SETTING + name] for name in FLEX_FIELDS], len(frame.shape))
    is_flex = np.array([_backend_name(value) == FLEX for value in backend.values])
    codes = np.where(is_flex[backend.codes], typed.which + 1, 0)
    return Column(codes.astype(np.int32), tuple(range(len(typed.rows) + 1)))


def _refuse_illegal(space: Space, refused_by: npt.NDArray[np.int16], codes: dict[str, int]) -> None:
    """Points with values that no scenario may have together."""
    if not space.illegal:
        return
    grid = refused_by.reshape(space.shape)
    for values, code in space.illegal:
        mask = np.ones([1] * len(space.shape), dtype=bool)
        for field, value in values.items():
            if field not in space.axes:
                mask = mask & (getattr(space.settings, field) == value)
                continue
            axis = 1 + tuple(space.axes).index(field)
            shape = [1] * len(space.shape)
            shape[axis] = -1
            mask = mask & np.array([found == value for found in space.axes[field]]).reshape(shape)
        if mask.any():
            grid[np.broadcast_to(mask, space.shape)] = codes.setdefault(code, len(codes))


def check(table: SweepTable, prompt_tokens: int, points: int = CHECKED_POINTS) -> None:
    """Resolve some points alone and compare. Errors: SweepMismatchError, the first difference."""
    from workbench.run.sweeps.single import single

    count = len(table)
    chosen = random.Random(count)  # noqa: S311  (which points are looked at is no secret)
    indices = sorted({chosen.randrange(count) for _ in range(min(points, count))})
    for index in indices:
        if any(_holds(table.space, index, values) for values, _ in table.space.illegal):
            continue
        told, alone = table.row(index), single(table.space, index, prompt_tokens)
        different = [name for name, value in alone.items() if told[name] != value]
        if different:
            name = different[0]
            raise SweepMismatchError(
                f"point {index} ({table.space.changes(index)}): {name} is {told[name]!r} in the "
                f"sweep and {alone[name]!r} alone. Please report this."
            )


def _holds(space: Space, index: int, values: Any) -> bool:
    _, settings = space.point(index)
    return all(getattr(settings, field) == value for field, value in values.items())


def resolved(space: Space, index: int) -> Plan | WorkbenchError:
    """The plan of one point, or the refusal."""
    model, settings = space.point(index)
    try:
        return resolve(model, settings)
    except WorkbenchError as error:
        return error
