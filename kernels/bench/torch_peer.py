"""The step in plain torch: indexing, no kernel of ours. What one would write first."""

from itertools import accumulate

import numpy as np
import torch

from workbench.kernels.bench.inputs import StepInput
from workbench.kernels.bench.peers import Piece
from workbench.kernels.bench.workloads import Workload


class TorchPeer:
    """Ids stay unexpanded on the host; a handful of torch calls for each group on the device.

    All groups' rows are in one flat source, [group][request, manager_block], so that one indexed
    store applies every write. A gather copies, and expands, whole rows. Nothing is checked, and
    no token may belong to a dummy request.
    """

    def __init__(self, workload: Workload, given: StepInput, device: str) -> None:
        self._groups, self._given, self._device = workload.groups, given, torch.device(device)
        rows, widths = workload.max_requests, [group.max_blocks for group in workload.groups]
        self._bases = [0, *accumulate(width * rows for width in widths)]
        self._widths = np.array(widths)
        self._source = torch.zeros(self._bases[-1], dtype=torch.int32, device=device)
        self._sources = [
            self._source[self._bases[g] : self._bases[g + 1]].view(rows, width)
            for g, width in enumerate(widths)
        ]
        self._tables = tuple(
            torch.zeros((rows, group.max_kernel_blocks), dtype=torch.int32, device=device)
            for group in workload.groups
        )
        shape = (len(widths), workload.max_tokens)
        self._slots = torch.zeros(shape, dtype=torch.int64, device=device)
        self._parts = [
            torch.arange(group.ratio, dtype=torch.int32, device=device) for group in workload.groups
        ]
        self._counts = np.zeros((len(widths), rows), dtype=np.int64)
        self._batch = given.batch_on(device)
        self._tokens = torch.arange(len(given.positions), dtype=torch.int32, device=device)
        self._places = self._ids = torch.zeros(0)

    def fill(self) -> None:
        """Write every row as it is before the step."""
        self._stage(self._given.rows, self._given.held, 0)
        self._apply()

    def rewind(self) -> None:
        """Restore what a step changed."""
        held = [[len(ids) for ids in lists] for lists in self._given.held_ids]
        self._counts[:, self._given.written_rows] = np.array(held).T

    def step(self) -> None:
        """Run the step from lists of ids to launched kernels."""
        self.host()
        self.launch()

    def host(self) -> None:
        """Run the step from lists of ids to started copies."""
        self._stage(self._given.written_rows, self._given.new_ids, None)

    def ready(self) -> None:
        """Prepare everything that precedes the launches."""
        self.rewind()
        self.host()

    def launch(self, piece: Piece = "step") -> None:
        """Launch the kernels only."""
        if piece == "step":
            self._apply()
        if piece != "slots":
            self._gather()
        if piece != "gather":
            self._map_slots()

    def tables(self) -> tuple[torch.Tensor, ...]:
        """Return the tables, per group [batch row, kernel_block]."""
        return self._tables

    def slots(self) -> torch.Tensor:
        """Return the slots [group, token]."""
        return self._slots

    def _stage(self, rows, ids, start: int | None) -> None:  # noqa: ANN001
        """Return the position of every id as one flat index; start None appends."""
        places, values = [], []
        for row, lists in zip(rows, ids, strict=True):
            for g, blocks in enumerate(lists):
                first = int(self._counts[g, row]) if start is None else start
                place = self._bases[g] + row * int(self._widths[g]) + first
                places.append(np.arange(place, place + len(blocks)))
                values.extend(blocks)
                self._counts[g, row] = first + len(blocks)
        self._places = self._sent(np.concatenate(places))
        self._ids = self._sent(np.array(values, dtype=np.int32))

    def _apply(self) -> None:
        self._source[self._places] = self._ids

    def _gather(self) -> None:
        rows, requests = self._batch.idx_mapping, self._batch.num_requests
        for group, source, table, part in zip(
            self._groups, self._sources, self._tables, self._parts, strict=True
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
            self._slots[g, :tokens] = blocks * group.block_size + offsets
        self._slots[:, tokens:] = -1

    def _sent(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self._device, non_blocking=True)
