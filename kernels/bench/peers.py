"""One interface for every implementation of the step that is compared, and our peers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch

from workbench.kernels.bench.inputs import IdLists, StepInput
from workbench.kernels.bench.workloads import Workload
from workbench.kernels.block_table.api import BlockTables, PathName

POISON = -77_777_777
"""In every output before a step: no block id and no slot."""

Piece = Literal["step", "gather", "slots"]

FAST: PathName = "fast"
"""The peer that all others are compared with."""


class Peer(Protocol):
    """One implementation with one input set in its own memory.

    tables: per group [batch row, kernel_block] int32; slots: [group, token] int64. `fill` makes
    the rows what they are before the step; `rewind` restores what a step changed.
    """

    def fill(self) -> None:
        """Write every row as it is before the step."""

    def rewind(self) -> None:
        """Undo the step's appends, so that it can be run again."""

    def step(self) -> None:
        """Run the whole step, from lists of ids to launched kernels."""

    def host(self) -> None:
        """Run the host's share, from lists of ids to started copies, without launches."""

    def ready(self) -> None:
        """Prepare all that precedes the launches, so that `launch` can be captured."""

    def launch(self, piece: Piece = "step") -> None:
        """Launch the kernels only, always the same ones on the same memory."""

    def tables(self) -> tuple[torch.Tensor, ...]:
        """Return the gathered tables in kernel blocks."""

    def slots(self) -> torch.Tensor:
        """Return the slot mapping."""


@dataclass(frozen=True, slots=True)
class PeerKind:
    """How to make a peer. `source`: version and hash of its files."""

    name: str
    make: Callable[[Workload, StepInput, str], Peer]
    source: str


def poison(peer: Peer) -> None:
    """Overwrite every output."""
    for table in peer.tables():
        table.fill_(POISON)
    peer.slots().fill_(POISON)


def flat(ids: list[IdLists]) -> tuple[np.ndarray, np.ndarray]:
    """Flatten lists to (lengths [requests, groups], all ids)."""
    lengths = np.array([[len(part) for part in lists] for lists in ids], dtype=np.int64)
    values = [block for lists in ids for part in lists for block in part]
    return lengths, np.array(values, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Manner:
    """How `BlockTables` is used. arrays: ids come as flat arrays, not as lists.

    checked: the batch comes from the host, is checked and copied; it is on the device otherwise,
    as it does for every other peer. `launches=False` for `host` alone.
    """

    path: PathName
    arrays: bool = False
    checked: bool = False
    launches: bool = True


class OurPeer:
    """`BlockTables` over one of its paths."""

    def __init__(self, manner: Manner, workload: Workload, given: StepInput, device: str) -> None:
        self._given, self._manner = given, manner
        self._tables = BlockTables(
            workload.groups,
            max_requests=workload.max_requests,
            max_tokens=workload.max_tokens,
            num_blocks=workload.num_blocks,
            path=manner.path,
            device=device,
        )
        self._batch = given.batch_on(device)
        self._host_batch = (given.idx_mapping, given.query_start_loc, given.positions)
        self._rows, self._ids = given.written_rows, given.new_ids
        self._flat_ids = (np.array(self._rows), *flat(self._ids))
        self._held = (np.array(self._rows), *flat(given.held_ids))

    def fill(self) -> None:
        """Write every row as it is before the step."""
        self._overwrite(np.array(self._given.rows), *flat(list(self._given.held)))

    def rewind(self) -> None:
        """Undo the step's appends, so that it can be run again."""
        self._overwrite(*self._held)

    def step(self) -> None:
        """Run the whole step, from lists of ids to launched kernels."""
        self.host()
        self._tables.launch()

    def host(self) -> None:
        """Run the host's share, from lists of ids to started copies, without launches."""
        if self._manner.arrays:
            self._tables.append_flat(*self._flat_ids)
        else:
            self._tables.append_many(self._rows, self._ids)
        if self._manner.checked:
            self._tables.upload(*self._host_batch, padded_requests=self._batch.padded_requests)
        else:
            self._tables.upload_on_device(self._batch)

    def ready(self) -> None:
        """Prepare all that precedes the launches, so that `launch` can be captured."""
        self.rewind()
        self.host()

    def launch(self, piece: Piece = "step") -> None:
        """Launch the kernels only, always the same ones on the same memory."""
        launches = {
            "step": self._tables.launch,
            "gather": self._tables.launch_gather,
            "slots": self._tables.launch_slots,
        }
        launches[piece]()

    def tables(self) -> tuple[torch.Tensor, ...]:
        """Return the gathered tables in kernel blocks."""
        return self._tables.block_table

    def slots(self) -> torch.Tensor:
        """Return the slot mapping."""
        return self._tables.slot_mapping

    def _overwrite(self, rows: np.ndarray, lengths: np.ndarray, ids: np.ndarray) -> None:
        self._tables.append_flat(rows, lengths, ids, overwrite=True)
        if self._manner.launches:
            self._tables.apply()
        else:
            self._tables.upload([], [0], [])


def ours(manner: Manner, name: str, source: str) -> PeerKind:
    """Return our tables, used in one manner, as a peer."""
    return PeerKind(name, lambda *made: OurPeer(manner, *made), source)
