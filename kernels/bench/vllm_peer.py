"""vLLM's block tables as a peer, in both of their layouts."""

from types import SimpleNamespace
from typing import Any

import torch

from workbench.kernels.bench.inputs import StepInput
from workbench.kernels.bench.peers import PeerKind, Piece
from workbench.kernels.bench.vllm_source import LoadedVllm, VllmSource, load_vllm
from workbench.kernels.bench.workloads import Workload


class VllmPeer:
    """One step as vLLM's V2 runner does it: append, apply, gather, slots, and what expands.

    0.23 expands on the host; 0.33 on the device, one group at a time, after the gather and over the
    whole allocated width. The batch is on the device, as it does for every peer.
    """

    def __init__(
        self, loaded: LoadedVllm, workload: Workload, given: StepInput, device: str, launches: bool
    ) -> None:
        self._loaded, self._workload, self._given = loaded, workload, given
        self._device, self._launches = torch.device(device), launches
        self._fused = loaded.source.fused
        groups = workload.groups
        sizes = {"kernel_block_sizes": [group.kernel_block_size for group in groups]}
        with loaded.importable():
            self._theirs = loaded.tables.__dict__["BlockTables"](
                block_sizes=[group.block_size for group in groups],
                max_num_reqs=workload.max_requests,
                max_num_batched_tokens=workload.max_tokens,
                max_num_blocks_per_group=[group.max_blocks for group in groups],
                device=self._device,
                **({} if self._fused else sizes),
            )
        self._groups = [self._attention_group(g) for g in range(len(groups))]
        batch = given.batch_on(device)
        self._batch = (batch.idx_mapping, batch.query_start_loc, batch.positions)
        self._own_copy = loaded.buffers.__dict__["async_tensor_h2d"]
        self._copied: list[torch.Tensor] = []

    def fill(self) -> None:
        """Write every row as it is before the step."""
        given = self._given
        self._count(given.rows, given.held)
        if self._launches:
            self._stage(given.rows, given.held, overwrite=True)
            self._theirs.apply_staged_writes()

    def rewind(self) -> None:
        """Restore what a step changed."""
        self._count(self._given.written_rows, self._given.held_ids)

    def step(self) -> None:
        """Run the step from lists of ids to launched kernels."""
        self._stage_new()
        self._theirs.apply_staged_writes()
        self._gather()
        self._map_slots()

    def host(self) -> None:
        """Run the step; its launches are omitted if the peer was made with `launches=False`."""
        self._stage_new()
        self._theirs.apply_staged_writes()

    def ready(self) -> None:
        """Run once and keep the copied ids: a graph holds kernels alone, for every peer."""
        self.rewind()
        self._copied = []
        self._replace_copy(self._remembered_copy)
        try:
            self.step()
        finally:
            self._replace_copy(self._own_copy)

    def launch(self, piece: Piece = "step") -> None:
        """Launch the kernels only."""
        if piece == "step":
            self.rewind()
            self._stage_new()
            copies = iter(self._copied)
            self._replace_copy(lambda *_arguments, **_named: next(copies))
            try:
                self._theirs.apply_staged_writes()
            finally:
                self._replace_copy(self._own_copy)
        if piece != "slots":
            self._gather()
        if piece != "gather":
            self._map_slots()

    def tables(self) -> tuple[torch.Tensor, ...]:
        """Return the tables, per group [batch row, kernel_block]."""
        return tuple(
            theirs if group is None else group.kernel_block_table[0]
            for theirs, group in zip(self._theirs.input_block_tables, self._groups, strict=True)
        )

    def slots(self) -> torch.Tensor:
        """Return the slots [group, token]."""
        return self._theirs.slot_mappings

    def _stage_new(self) -> None:
        self._stage(self._given.written_rows, self._given.new_ids, overwrite=False)

    def _stage(self, rows: Any, ids: Any, *, overwrite: bool) -> None:
        for row, lists in zip(rows, ids, strict=True):
            self._theirs.append_block_ids(row, lists, overwrite)

    def _gather(self) -> None:
        gathered = self._theirs.gather_block_tables(self._batch[0], len(self._given.rows))
        for table, group in zip(gathered, self._groups, strict=True):
            if group is not None:
                self._loaded.expand(group, table)

    def _map_slots(self) -> None:
        self._theirs.compute_slot_mappings(*self._batch, len(self._given.positions))

    def _count(self, rows: Any, ids: Any) -> None:
        """Set the number of blocks per row on the host; the ids after them stay."""
        for row, lists in zip(rows, ids, strict=True):
            for g, blocks in enumerate(lists):
                ratio = 1 if self._fused else self._workload.groups[g].ratio
                self._theirs.num_blocks.np[g, row] = len(blocks) * ratio

    def _attention_group(self, g: int) -> Any:
        """Return what 0.33's expansion reads of an attention group; None without expansion."""
        group = self._workload.groups[g]
        if not self._fused or group.ratio == 1:
            return None
        shape = (1, self._workload.max_requests, group.max_kernel_blocks)
        return SimpleNamespace(
            kernel_block_size=group.kernel_block_size,
            kernel_block_stride=0,
            kernel_block_table=torch.zeros(shape, dtype=torch.int32, device=self._device),
            kernel_block_offsets=torch.arange(group.ratio, dtype=torch.int32, device=self._device),
            kv_cache_spec=SimpleNamespace(block_size=group.block_size),
        )

    def _remembered_copy(self, *arguments: Any, **named: Any) -> torch.Tensor:
        copied = self._own_copy(*arguments, **named)
        self._copied.append(copied)
        return copied

    def _replace_copy(self, function: Any) -> None:
        self._loaded.buffers.__dict__["async_tensor_h2d"] = function


def vllm(source: VllmSource, *, launches: bool = True) -> PeerKind:
    """Return a vLLM as a peer; `launches=False` for the host's share only."""
    loaded: dict[str, LoadedVllm] = {}

    def make(workload: Workload, given: StepInput, device: str) -> VllmPeer:
        if device not in loaded:
            loaded[device] = load_vllm(source, device, launches=launches)
        return VllmPeer(loaded[device], workload, given, device, launches)

    return PeerKind(source.name, make, source.label)
