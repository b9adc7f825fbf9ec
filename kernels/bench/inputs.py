"""What a workload's step is given: the same numbers every time, another set for every turn."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from workbench.kernels.bench.workloads import Part, Workload, tokens_of
from workbench.kernels.block_table.path import DeviceBatch

SETS = 3
"""Input sets used in turn, so that no step finds what the one before has read."""

IdLists = tuple[list[int], ...]
"""One request's manager blocks, a Python list for each group, as a scheduler hands them over."""


@dataclass(frozen=True, slots=True)
class StepInput:
    """One set. Request i of the batch is in row rows[i].

    held, new: [request] -> manager blocks per group before the step, and those it appends.
    writers: the requests (indices into rows) that get any. idx_mapping, query_start_loc int32 and
    positions int64 are the batch as the kernels see it.
    """

    rows: tuple[int, ...]
    held: tuple[IdLists, ...]
    new: tuple[IdLists, ...]
    writers: tuple[int, ...]
    idx_mapping: NDArray[np.int32]
    query_start_loc: NDArray[np.int32]
    positions: NDArray[np.int64]

    def batch_on(self, device: str) -> DeviceBatch:
        """Copy idx_mapping, query_start_loc and positions to the device, as in an engine."""
        arrays = (self.idx_mapping, self.query_start_loc, self.positions)
        rows, starts, positions = (torch.from_numpy(array.copy()).to(device) for array in arrays)
        return DeviceBatch(
            rows,
            starts,
            positions,
            num_tokens=len(self.positions),
            padded_requests=len(self.rows),
        )

    @property
    def written_rows(self) -> list[int]:
        """Return the rows that the step appends to."""
        return [self.rows[i] for i in self.writers]

    @property
    def new_ids(self) -> list[IdLists]:
        """Return the ids that the step appends to them, in the same order."""
        return [self.new[i] for i in self.writers]

    @property
    def held_ids(self) -> list[IdLists]:
        """Return the ids that they hold before the step."""
        return [self.held[i] for i in self.writers]


def step_input(workload: Workload, turn: int) -> StepInput:
    """Draw input set number `turn` of a workload; blocks are distinct within a group."""
    pick = np.random.default_rng([*workload.name.encode(), turn])
    parts = [part for part in workload.parts for _ in range(part.requests)]
    order = pick.permutation(len(parts))
    parts = [parts[i] for i in order]
    rows = pick.permutation(workload.max_requests)[: len(parts)]
    held: list[list[list[int]]] = [[] for _ in parts]
    new: list[list[list[int]]] = [[] for _ in parts]
    for g in range(len(workload.groups)):
        pool = pick.permutation(workload.num_blocks).tolist()
        first = 0
        for i, part in enumerate(parts):
            middle, end = first + part.held[g], first + part.held[g] + part.new[g]
            held[i].append(pool[first:middle])
            new[i].append(pool[middle:end])
            first = end
    ends = np.array([_length(workload, part, pick) for part in parts])
    counts = np.array([part.tokens for part in parts])
    starts = np.concatenate(([0], np.cumsum(counts)))
    positions = np.arange(starts[-1]) + np.repeat(ends - starts[1:], counts)
    return StepInput(
        rows=tuple(rows.tolist()),
        held=tuple(map(tuple, held)),
        new=tuple(map(tuple, new)),
        writers=tuple(i for i, part in enumerate(parts) if any(part.new)),
        idx_mapping=rows.astype(np.int32),
        query_start_loc=starts.astype(np.int32),
        positions=positions.astype(np.int64),
    )


def _length(workload: Workload, part: Part, pick: np.random.Generator) -> int:
    """Draw the tokens of one request after the step; only some end at a block's last slot."""
    most = tokens_of(workload, part)
    return most - int(pick.integers(0, min(16, most - part.tokens + 1)))
