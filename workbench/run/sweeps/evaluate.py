"""Evaluate a space: every point as if it were resolved alone, at a million points a second.

How fast: a stage runs once for all points that decide alike in it (see `paths`), whatever their
numbers are. What costs is how many ways of deciding there are: backends, dtypes, cache modes, and
whether a page is smaller than another; and, one by one, the smallest prefix of every cache.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.core.resolve import resolve
from workbench.core.rules import RULE_SETS
from workbench.core.stages import memory as memory_stages
from workbench.run.sweeps.columns import Column
from workbench.run.sweeps.frame import Frame
from workbench.run.sweeps.memory import OWN_STAGES, sizes
from workbench.run.sweeps.recorder import SETTING
from workbench.run.sweeps.sameness import copies
from workbench.run.sweeps.space import Space
from workbench.run.sweeps.table import MISSING, SweepTable

DEFAULT_PROMPT_TOKENS = 4096
CHECKED_POINTS = 12
LARGEST_GRID = 1 << 20
"""Points that are held at once, besides the table itself."""
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
    "is_copy": np.bool_,
}


class SweepMismatchError(AssertionError):
    """A point of a sweep differs from the same scenario resolved alone: a defect of ours."""


class StoppedError(Exception):
    """Somebody asked for the end of a sweep."""


def evaluate(
    space: Space,
    prompt_tokens: int = DEFAULT_PROMPT_TOKENS,
    *,
    stop: Event | Callable[[], bool] | None = None,
) -> SweepTable:
    """The table of a space. prompt_tokens: of the request that `waste_share` is told of.

    stop: looked at all the time, may be set from another thread; the table then has the grids that
    are complete (one for every model and rule set, of a million points at most), and `is_missing`
    tells the others. Some points are resolved alone as well and compared. Errors:
    SweepMismatchError; ValueError for a prompt below one token.
    """
    if prompt_tokens < 1:
        raise ValueError(f"prompt_tokens must be at least 1; got {prompt_tokens}.")
    whole = {name: np.zeros(space.shape, dtype=dtype) for name, dtype in DTYPES.items()}
    whole["refused_by"].fill(MISSING)
    bits: dict[tuple[str, str], int] = {}
    codes: dict[str, int] = {}
    backends: dict[str | None, int] = {}
    evaluations = 0
    checked = _checked(stop)
    try:
        for alike in space.grids(LARGEST_GRID):
            seen: set[Any] | None = set() if len(alike) > 1 else None
            for grid in alike:
                rules = RULE_SETS[grid.settings.rules]
                axes = tuple(grid.axes.items())
                frame = Frame(grid.model, rules, grid.settings, axes, bits, checked)
                found = _evaluated(frame, prompt_tokens, codes, backends, seen)
                checked()
                for name, array in whole.items():
                    target = array[grid.place]
                    array[grid.place] = found[name].reshape(target.shape)
                evaluations += frame.evaluations
    except StoppedError:
        pass
    flat = {name: array.reshape(-1) for name, array in whole.items()}
    _refuse_illegal(space, flat["refused_by"], codes)
    table = SweepTable(
        space=space,
        codes=tuple(codes),
        problems=tuple(bits),
        backends=tuple(backends),
        evaluations=evaluations,
        **flat,
    )
    check(table, prompt_tokens)
    return table


def _checked(stop: Event | Callable[[], bool] | None) -> Callable[[], None]:
    if stop is None:
        return lambda: None
    is_set = stop.is_set if isinstance(stop, Event) else stop

    def check_stop() -> None:
        if is_set():
            raise StoppedError

    return check_stop


def _evaluated(
    frame: Frame,
    prompt_tokens: int,
    codes: dict[str, int],
    backends: dict[str | None, int],
    seen: set[Any] | None,
) -> dict[str, npt.NDArray[Any]]:
    """The columns of one grid, in its shape."""
    vectorised = set(OWN_STAGES) <= set(frame.rules.stages)
    fits = any(value == -1 for value in frame.columns[SETTING + "max_model_len"].values)
    for stage in frame.rules.stages:
        if (vectorised and stage in OWN_STAGES) or (stage is memory_stages.auto_fit and not fits):
            continue
        frame.apply(stage)
    found = sizes(frame, prompt_tokens, own_problems=vectorised)
    columns = frame.columns
    refused = frame.refusals(codes)
    told = {
        "refused_by": refused,
        "problem_bits": np.where(refused < 0, frame.all_problems(), 0),
        "backend": _numbered(columns["backend"], _backend_name, backends),
        "block_size": columns["block_size"].array(np.int64),
        "kernel_block_size": columns["kernel_block_size"].array(np.int64),
        "page_size_bytes": _page(columns),
        "num_blocks": found.num_blocks,
        "max_concurrency": found.max_concurrency,
        "smallest_prefix_tokens": found.smallest_prefix_tokens,
        "waste_share": found.waste_share,
        "is_copy": copies(frame, found.num_blocks, seen),
    }
    return {name: np.broadcast_to(array, frame.shape) for name, array in told.items()}


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
        if table.is_missing[index] or any(
            _holds(table.space, index, values) for values, _ in table.space.illegal
        ):
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
