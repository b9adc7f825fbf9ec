"""Blocks, capacity and what comes of them, over a whole grid.

Grouping, blocks of a request, prefix hits and waste are the rules themselves, run once for equal
inputs. Only what follows from the bytes of memory is written here in numpy: a division, a quotient
and four comparisons, which are those of `workbench.core.stages.memory`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core.problems import ERROR, WARNING
from workbench.core.stages import memory as memory_stages
from workbench.core.stages import prefix_hits as hit_stages
from workbench.run.sweeps import cache_work
from workbench.run.sweeps.frame import Frame
from workbench.run.sweeps.recorder import SETTING

MEMORY_FIELDS = frozenset(
    {
        "kv_cache_memory_bytes",
        "kv_cache_memory_bytes_by_rank",
        "device_memory_bytes",
        "gpu_memory_utilization",
        "weights_bytes",
        "activation_bytes",
        "cuda_graph_bytes",
        "num_gpu_blocks_override",
    }
)
HIDDEN = frozenset(SETTING + field for field in MEMORY_FIELDS)
LARGEST = 2**62
OWN_STAGES = (memory_stages.memory, hit_stages.inert_prefix_caching)
"""Stages of a rule set that this module stands for."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Per point, in shapes that broadcast to the grid's; -1 or NaN where there is none.

    waste_share: of the bytes that a request reserves, what holds neither keys, values nor the
    running state. smallest_prefix_tokens: -1 where no prefix is ever found again.
    """

    num_blocks: npt.NDArray[np.int64]
    max_concurrency: npt.NDArray[np.float64]
    smallest_prefix_tokens: npt.NDArray[np.int64]
    waste_share: npt.NDArray[np.float64]


def sizes(frame: Frame, prompt_tokens: int, *, own_problems: bool) -> Sizes:
    """Add the columns of the cache to a frame whose other stages are done.

    own_problems: tell the problems of `OWN_STAGES` too, which have then not run.
    """
    hidden = {**dict.fromkeys(HIDDEN), **cache_work.NO_REQUEST}
    frame.apply(
        cache_work.grouped,
        hidden=hidden,
        writes=("cache", *cache_work.GROUPED),
        families=("cache",),
    )
    frame.apply(cache_work.requested, hidden=dict.fromkeys(HIDDEN), writes=cache_work.REQUEST)
    frame.apply(cache_work.cached, writes=("caching",))
    frame.apply(
        cache_work.hits_and_problem if own_problems else cache_work.hits,
        writes=("smallest_prefix",),
    )
    frame.apply(cache_work.graphs, writes=("graphs_need_blocks",))
    frame.apply(cache_work.prompted(prompt_tokens), writes=("prompt",))
    frame.apply(cache_work.wasted, writes=("waste_share",))
    frame.apply(cache_work.measured, writes=("measured_bytes",))
    frame.apply(cache_work.sequences, writes=cache_work.SEQUENCES)
    del frame.columns["cache"], frame.columns["caching"]  # the largest, and nobody needs them now
    frame.checked()
    blocks, concurrency = _capacity(frame, own_problems)
    frame.checked()
    return Sizes(
        blocks,
        concurrency,
        frame.columns["smallest_prefix"].array(np.int64),
        frame.columns["waste_share"].array(np.float64),
    )


def _capacity(
    frame: Frame, own_problems: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Blocks (-1: unknown) and concurrency (NaN) of the points, and the problems of `memory`."""
    columns = frame.columns

    def ints(name: str) -> npt.NDArray[np.int64]:
        frame.checked()
        return columns[name].array(np.int64)

    per_block = ints("bytes_per_block")
    per_request = ints("blocks_per_request")
    printed = ints("printed_blocks")
    needed = ints("needed_bytes")
    override = ints(SETTING + "num_gpu_blocks_override")
    known_bytes = _is_given(columns["measured_bytes"])
    measured = ints("measured_bytes")
    has_cache, has_groups = per_block >= 0, per_block > 0
    divisor = np.maximum(per_block, 1)
    counted = np.where(override >= 0, override, np.maximum(measured, 0) // divisor)
    known = has_cache & ((override >= 0) | known_bytes)
    blocks = np.where(known, np.where(has_groups, counted, 1), -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        concurrency = np.where(known & (printed > 0), blocks / printed, np.nan)
    if not own_problems:
        return blocks.astype(np.int64), concurrency.astype(np.float64)
    available = np.where(override >= 0, _product(override, per_block), measured)
    checked = available - ints("held_back_bytes")
    empty = known & (checked <= 0)
    short = known & ~empty & (needed > checked)
    fine = known & ~empty & ~short & (printed > 0)
    wanted, certain = ints("sequences_wanted"), columns["sequences_certain"].array(np.int8) > 0
    crowded = fine & columns["graphs_need_blocks"].array(np.int8).astype(bool) & (wanted > blocks)
    uncounted = not frame.rules.groups.counts_null_block
    for where, code, severity in (
        (empty, "no_memory_for_blocks", ERROR),
        (short, "not_enough_memory", ERROR),
        (uncounted & fine & (blocks - 1 < per_request), "null_block_not_counted", WARNING),
        (crowded & certain, "max_num_seqs_above_blocks", ERROR),
        (crowded & ~certain, "max_num_seqs_above_blocks", WARNING),
    ):
        if where.any():
            frame.problems.append(where.astype(np.int64) * frame.mask(((code, severity),)))
    return blocks.astype(np.int64), concurrency.astype(np.float64)


def _is_given(column: Any) -> npt.NDArray[np.bool_]:
    given = np.array([value is not None for value in column.values], dtype=bool)
    return np.asarray(given[column.codes])


def _product(one: npt.NDArray[np.int64], two: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The products; Python's integers where 64 bits might not do."""
    if float(np.abs(one).max(initial=0)) * float(np.abs(two).max(initial=0)) >= LARGEST:
        return np.asarray(one.astype(object) * two.astype(object))
    return one * two
