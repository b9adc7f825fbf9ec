"""One interface for every implementation that is compared; our block tables, and plain torch."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise
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
        # an upload without a batch takes what is staged along, and launches nothing
        if self._manner.launches:
            self._ours.apply()
        else:
            self._ours.upload([], [0], [])


def ours(manner: Manner, name: str, source: str) -> PeerKind:
    """Return our tables, used in one manner, as a peer."""
    return PeerKind(name, lambda given: OurPeer(manner, given), source)


class TorchPeer(TablesPeer):
    """The step in plain torch, as one would write it first: indexing, and no kernel of ours.

    Ids stay unexpanded on the host; a handful of torch calls for each group on the device.

    All groups' rows are in one flat source, [group][request, manager_block], so that one indexed
    store applies every write. A gather copies, and expands, whole rows. Nothing is checked, and
    no token may belong to a dummy request.
    """

    def __init__(self, given: StepInput) -> None:
        workload, device = given.workload, given.device
        self._groups, self._given = workload.groups, given
        rows, self._widths = workload.max_requests, [group.max_blocks for group in workload.groups]
        self._bases = [0, *accumulate(width * rows for width in self._widths)]
        self._source = torch.zeros(self._bases[-1], dtype=torch.int32, device=device)
        self._sources = [self._source[a:b].view(rows, -1) for a, b in pairwise(self._bases)]
        self._parts = [
            torch.arange(group.ratio, dtype=torch.int32, device=device) for group in workload.groups
        ]
        self._counts = np.zeros((len(self._widths), rows), dtype=np.int64)
        self._batch = given.batch()
        self._tokens = torch.arange(len(given.positions), dtype=torch.int32, device=device)
        self.tables = tuple(
            torch.zeros((rows, group.max_kernel_blocks), dtype=torch.int32, device=device)
            for group in workload.groups
        )
        shape = (len(self._widths), workload.max_tokens)
        self.slots = torch.zeros(shape, dtype=torch.int64, device=device)
        self._stage(given.rows, given.held)
        self._apply()

    def rewind(self) -> None:
        """Restore what a step changed."""
        held = [[len(ids) for ids in lists] for lists in self._given.held_ids]
        self._counts[:, self._given.written_rows] = np.array(held).T

    def host(self) -> None:
        """Run the step from lists of ids to started copies."""
        self._stage(self._given.written_rows, self._given.new_ids)

    def launch(self, piece: Piece = "step") -> None:
        """Launch the kernels only."""
        if piece == "step":
            self._apply()
        if piece != "slots":
            self._gather()
        if piece != "gather":
            self._map_slots()

    def _stage(self, rows: Iterable[int], ids: Iterable[IdLists]) -> None:
        """Append ids to rows: send them and the position of each as one flat index."""
        places, values = [], []
        for row, lists in zip(rows, ids, strict=True):
            for g, blocks in enumerate(lists):
                place = self._bases[g] + row * self._widths[g] + int(self._counts[g, row])
                places.append(np.arange(place, place + len(blocks)))
                values.extend(blocks)
                self._counts[g, row] += len(blocks)
        self._places = self._sent(np.concatenate(places))
        self._ids = self._sent(np.array(values, dtype=np.int32))

    def _apply(self) -> None:
        self._source[self._places] = self._ids

    def _gather(self) -> None:
        rows, requests = self._batch.idx_mapping, self._batch.num_requests
        for group, source, table, part in zip(
            self._groups, self._sources, self.tables, self._parts, strict=True
        ):
            if group.ratio == 1:
                torch.index_select(source, 0, rows, out=table[:requests])
                continue
            blocks = source[rows].unsqueeze(-1)
            out = table[:requests].view(requests, group.max_blocks, group.ratio)
            torch.add(part, blocks, alpha=group.ratio, out=out)

    def _map_slots(self) -> None:
        batch, tokens = self._batch, self._batch.num_tokens
        # From the right: the first token of a request is its own, not of the one before.
        rows = torch.searchsorted(batch.query_start_loc, self._tokens, right=True) - 1
        owners = batch.idx_mapping[rows]
        for g, group in enumerate(self._groups):
            logical = batch.positions // group.block_size
            blocks = self._sources[g][owners, logical].to(torch.int64)
            offsets = batch.positions - logical * group.block_size
            self.slots[g, :tokens] = blocks * group.block_size + offsets
        self.slots[:, tokens:] = -1

    def _sent(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self._given.device, non_blocking=True)
