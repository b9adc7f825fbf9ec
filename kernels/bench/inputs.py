"""What a workload's step is given, the same numbers every time; and what it has to compute."""

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from workbench.kernels.bench.workloads import Workload, tokens_of
from workbench.kernels.block_table.path import DeviceBatch
from workbench.kernels.block_table.reference import ReferenceTables

SETS = 3
"""Input sets used in turn, so that no step finds what the one before has read."""

ANYTHING = -1
"""Expected value of a table entry after the last live block."""

IdLists = tuple[list[int], ...]
"""One request's manager blocks, a Python list for each group, as a scheduler hands them over."""


@dataclass(frozen=True, slots=True)
class StepInput:
    """One set. Request i of the batch is in row rows[i]."""

    workload: Workload
    device: str
    """Where a peer computes."""
    rows: tuple[int, ...]
    held: tuple[IdLists, ...]
    """[request] -> manager blocks per group before the step."""
    new: tuple[IdLists, ...]
    """[request] -> manager blocks per group that the step appends."""
    writers: tuple[int, ...]
    """The requests (indices into rows) that get any."""
    idx_mapping: NDArray[np.int32]
    query_start_loc: NDArray[np.int32]
    positions: NDArray[np.int64]
    """The batch as the kernels see it, with `idx_mapping` and `query_start_loc`."""

    def batch(self) -> DeviceBatch:
        """Copy idx_mapping, query_start_loc and positions to the device, as in an engine."""
        arrays = (self.idx_mapping, self.query_start_loc, self.positions)
        copies = (torch.from_numpy(array.copy()).to(self.device) for array in arrays)
        rows, starts, positions = copies
        return DeviceBatch(
            idx_mapping=rows,
            query_start_loc=starts,
            positions=positions,
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


def step_input(workload: Workload, turn: int, device: str = "cpu") -> StepInput:
    """Draw input set number `turn` of a workload; blocks are distinct within a group."""
    # By name, so that a workload that is added changes the numbers of none.
    pick = np.random.default_rng([*workload.name.encode(), turn])
    parts = [part for part in workload.parts for _ in range(part.requests)]
    parts = [parts[i] for i in pick.permutation(len(parts))]
    rows = pick.permutation(workload.max_requests)[: len(parts)]
    held: list[list[list[int]]] = [[] for _ in parts]
    new: list[list[list[int]]] = [[] for _ in parts]
    for g in range(len(workload.groups)):
        pool = iter(pick.permutation(workload.num_blocks).tolist())
        for part, before, after in zip(parts, held, new, strict=True):
            before.append(list(islice(pool, part.held[g])))
            after.append(list(islice(pool, part.new[g])))
    # only some requests end at a block's last slot
    most = [tokens_of(workload, part) for part in parts]
    room = [min(16, total - part.tokens + 1) for total, part in zip(most, parts, strict=True)]
    ends = np.array(most) - [int(pick.integers(0, size)) for size in room]
    counts = np.array([part.tokens for part in parts])
    starts = np.concatenate(([0], np.cumsum(counts)))
    positions = np.arange(starts[-1]) + np.repeat(ends - starts[1:], counts)
    return StepInput(
        workload=workload,
        device=device,
        rows=tuple(rows.tolist()),
        held=tuple(map(tuple, held)),
        new=tuple(map(tuple, new)),
        writers=tuple(i for i, part in enumerate(parts) if any(part.new)),
        idx_mapping=rows.astype(np.int32),
        query_start_loc=starts.astype(np.int32),
        positions=positions.astype(np.int64),
    )


@dataclass(frozen=True, slots=True)
class ExpectedOutput:
    """The oracle's answer to one input set.

    tables: per group [batch row, kernel_block] int32, ANYTHING after the last live block;
    slots: [group, token] int64.
    """

    tables: tuple[torch.Tensor, ...]
    slots: torch.Tensor

    def difference(self, peer: Any) -> str:
        """Describe what is wrong with a peer's current outputs; empty if nothing is."""
        for g, (table, right) in enumerate(zip(peer.tables, self.tables, strict=True)):
            rows = table[: len(right)]
            if rows.shape != right.shape or rows.dtype != right.dtype:
                return (
                    f"group {g}: table {rows.dtype} {tuple(rows.shape)}, not {tuple(right.shape)}"
                )
            if len(wrong := ((rows != right) & (right != ANYTHING)).nonzero()):
                row, block = wrong[0].tolist()
                return (
                    f"group {g}: {len(wrong)} table entries differ, first row {row}, kernel block "
                    f"{block}: {int(rows[row, block])} instead of {int(right[row, block])}"
                )
        if peer.slots.shape != self.slots.shape:
            return f"slots {tuple(peer.slots.shape)}, not {tuple(self.slots.shape)}"
        if len(wrong := (peer.slots != self.slots).nonzero()):
            g, token = wrong[0].tolist()
            return (
                f"{len(wrong)} slots differ, first group {g}, token {token}: "
                f"{int(peer.slots[g, token])} instead of {int(self.slots[g, token])}"
            )
        return ""


def expected(given: StepInput) -> ExpectedOutput:
    """Compute the oracle's result: fill, append, gather and map in plain Python."""
    workload = given.workload
    model = ReferenceTables(workload.groups, max_requests=workload.max_requests)
    for row, ids in zip(given.rows, given.held, strict=True):
        model.overwrite(row, ids)
    for row, ids in zip(given.written_rows, given.new_ids, strict=True):
        model.append(row, ids)
    model.apply()
    tables = []
    gathered = model.gather(given.rows, len(given.rows))
    for group, live in zip(workload.groups, gathered, strict=True):
        values = np.full((len(live), group.max_kernel_blocks), ANYTHING, dtype=np.int32)
        for i, entries in enumerate(live):
            values[i, : len(entries)] = entries
        tables.append(torch.from_numpy(values).to(given.device))
    slots = model.slot_mappings(
        given.rows, given.query_start_loc.tolist(), given.positions.tolist(), workload.max_tokens
    )
    return ExpectedOutput(tuple(tables), torch.tensor(slots, device=given.device))
