"""The step in plain torch: indexing, no kernel of ours. What one would write first."""

from collections.abc import Iterable
from itertools import accumulate, pairwise

import numpy as np
import torch

from workbench.kernels.bench.inputs import IdLists, StepInput
from workbench.kernels.bench.peers import TablesPeer
from workbench.kernels.bench.results import Piece


class TorchPeer(TablesPeer):
    """Ids stay unexpanded on the host; a handful of torch calls for each group on the device.

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
