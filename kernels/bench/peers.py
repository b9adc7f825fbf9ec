"""One interface for every implementation that is compared, and our block tables."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from workbench.kernels.bench.inputs import IdLists, StepInput
from workbench.kernels.bench.results import Piece
from workbench.kernels.block_table.api import BlockTables, PathName

POISON = -77_777_777
"""Value of every output before a step: neither a block id nor a slot."""

FAST: PathName = "fast"
"""The peer that all others are compared with."""


class Peer(Protocol):
    """One implementation with one input in its own memory."""

    def ready(self) -> None:
        """Prepare all that precedes the launches, so that `launch` can be captured."""

    def launch(self, piece: Piece) -> None:
        """Launch the kernels only, always the same ones on the same memory."""

    def poison(self) -> None:
        """Overwrite every output."""

    def run(self) -> None:
        """Run everything once, over poisoned outputs."""


@dataclass(frozen=True, slots=True)
class PeerKind:
    """How to make a peer for an input. `source`: version and hash of its files."""

    name: str
    make: Callable[[Any], Any]
    source: str


class TablesPeer(Peer, Protocol):
    """One step of the block tables; every row is made what it is before the step.

    tables: per group [batch row, kernel_block] int32; slots: [group, token] int64.
    """

    tables: tuple[torch.Tensor, ...]
    slots: torch.Tensor

    def rewind(self) -> None:
        """Undo the step's appends, so that it can be run again."""

    def host(self) -> None:
        """Run the host's share, from lists of ids to started copies, without launches."""

    def step(self) -> None:
        """Run the whole step, from lists of ids to launched kernels."""
        self.host()
        self.launch("step")

    def ready(self) -> None:
        """Prepare all that precedes the launches, so that `launch` can be captured."""
        self.rewind()
        self.host()

    def poison(self) -> None:
        """Overwrite every output."""
        for output in (*self.tables, self.slots):
            output.fill_(POISON)

    def run(self) -> None:
        """Run one whole step from the start, over poisoned outputs."""
        self.rewind()
        self.poison()
        self.step()


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


class OurPeer(TablesPeer):
    """`BlockTables` over one of its paths."""

    def __init__(self, manner: Manner, given: StepInput) -> None:
        self._given, self._manner = given, manner
        self._ours = BlockTables(
            given.workload.groups,
            max_requests=given.workload.max_requests,
            max_tokens=given.workload.max_tokens,
            num_blocks=given.workload.num_blocks,
            path=manner.path,
            device=given.device,
        )
        self.tables, self.slots = self._ours.block_table, self._ours.slot_mapping
        self._batch = given.batch()
        self._rows, self._ids = given.written_rows, given.new_ids
        self._flat_ids = (np.array(self._rows), *flat(self._ids))
        self._held = (np.array(self._rows), *flat(given.held_ids))
        self._overwrite(np.array(given.rows), *flat(list(given.held)))

    def rewind(self) -> None:
        """Undo the step's appends, so that it can be run again."""
        self._overwrite(*self._held)

    def host(self) -> None:
        """Run the host's share, from lists of ids to started copies, without launches."""
        given = self._given
        if self._manner.arrays:
            self._ours.append_flat(*self._flat_ids)
        else:
            self._ours.append_many(self._rows, self._ids)
        if self._manner.checked:
            arrays = (given.idx_mapping, given.query_start_loc, given.positions)
            self._ours.upload(*arrays, padded_requests=len(given.rows))
        else:
            self._ours.upload_on_device(self._batch)

    def launch(self, piece: Piece = "step") -> None:
        """Launch the kernels only, always the same ones on the same memory."""
        part = {"gather": self._ours.launch_gather, "slots": self._ours.launch_slots}
        part.get(piece, self._ours.launch)()

    def _overwrite(self, rows: np.ndarray, lengths: np.ndarray, ids: np.ndarray) -> None:
        self._ours.append_flat(rows, lengths, ids, overwrite=True)
        if self._manner.launches:
            self._ours.apply()
        else:
            self._ours.upload([], [0], [])


def ours(manner: Manner, name: str, source: str) -> PeerKind:
    """Return our tables, used in one manner, as a peer."""
    return PeerKind(name, lambda given: OurPeer(manner, given), source)
