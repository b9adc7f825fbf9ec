"""vLLM's block tables as a peer, in both of their layouts."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import torch

from workbench.kernels.bench import vllm_source
from workbench.kernels.bench.inputs import IdLists, StepInput
from workbench.kernels.bench.peers import PeerKind, TablesPeer
from workbench.kernels.bench.results import Piece

FILES = ("v1/worker/gpu/buffer_utils.py", "v1/worker/gpu/block_table.py")
COPY = "async_tensor_h2d"
DRY: Literal["dry"] = "dry"
Launches = bool | Literal["dry"]
"""Whether kernels are launched: really, not at all, or dry, which computes nothing."""


def find_vllm(folder: str) -> vllm_source.VllmSource:
    """Find the vLLM in a folder, or in `vllm` below it. VllmSkipped says why there is none."""
    root, texts = vllm_source.found_files(folder, FILES)
    fused = "class FusedStagedWriter" in texts[0]
    if not fused and "kernel_block_sizes" not in texts[1]:
        raise vllm_source.VllmSkipped(
            f"{vllm_source.VARIABLE}: neither the block tables of vLLM 0.33 nor 0.23 (no "
            "FusedStagedWriter, no kernel_block_sizes)"
        )
    return vllm_source.source_of(root, texts, newer=fused)


@dataclass(frozen=True, slots=True)
class LoadedVllm:
    """The two modules, and a function that gives kernel blocks (None where the host expands).

    modules: what has to be importable while a class of theirs is made.
    """

    source: vllm_source.VllmSource
    buffers: ModuleType
    tables: ModuleType
    expand: Any
    modules: dict[str, ModuleType]


def load_vllm(source: vllm_source.VllmSource, device: str, *, launches: bool = True) -> LoadedVllm:
    """Run the files; every call gives modules of its own.

    Without a GPU there is no pinned memory, and ordinary memory takes its place. `launches=False`
    omits their kernels, so that the rest is what the host does.
    """
    gpu = torch.device(device).type == "cuda"
    copy = vllm_source.definition(
        source.root / "utils/torch_utils.py", COPY, PIN_MEMORY=gpu, torch=torch, np=np
    )
    platform = SimpleNamespace(device_type="cuda" if gpu else "cpu")
    modules = vllm_source.modules_of(
        {
            "vllm.platforms": {"current_platform": platform},
            "vllm.utils.platform_utils": {"is_uva_available": lambda: True},
            "vllm.utils.torch_utils": {
                COPY: copy,
                "get_accelerator_view_from_cpu_tensor": _device_view,
            },
            "vllm.v1.attention.backends.utils": {"PAD_SLOT_ID": -1},
            "vllm.v1.worker.gpu": {},
        }
    )
    buffers = vllm_source.run_file(source, FILES[0], modules)
    if not gpu:
        vars(buffers)["UvaBuffer"] = _ordinary_memory(vars(buffers)["UvaBuffer"])
    tables = vllm_source.run_file(source, FILES[1], modules)
    if not launches:
        for module in (buffers, tables):
            kernels = [name for name in vars(module) if name.endswith("_kernel")]
            vars(module).update(dict.fromkeys(kernels, _NoLaunch()))
    expand = None
    if source.newer:
        file = source.root / "v1/worker/utils.py"
        expand = vllm_source.definition(file, "map_to_kernel_block_table", torch=torch, np=np)
    return LoadedVllm(source, buffers, tables, expand, modules)


class _NoLaunch:
    """A stand-in for a kernel: takes grid and arguments, does nothing."""

    def __getitem__(self, grid: object) -> Any:
        return lambda *_arguments, **_named: None


def _ordinary_memory(original: type) -> type:
    """Return vLLM's host-to-device buffer class with memory that is not pinned."""

    class OrdinaryMemory(original):
        def __init__(self, size: Any, dtype: torch.dtype) -> None:
            # one memory for host and device: the interpreter reads the CPU's
            self.cpu = self._uva = torch.zeros(size, dtype=dtype)
            self.np = self.cpu.numpy()
            if not hasattr(original, "uva"):
                self.uva = self.cpu

    return OrdinaryMemory


def _device_view(memory: torch.Tensor) -> torch.Tensor:
    """Return pinned host memory as the GPU sees it, without a copy; ordinary memory as is."""
    if not memory.is_pinned():
        return memory
    if not memory.numel():
        return memory.cuda()
    described = {
        "shape": tuple(memory.shape),
        "typestr": f"<{'f' if memory.is_floating_point() else 'i'}{memory.element_size()}",
        "data": (memory.data_ptr(), False),
        "version": 2,
    }
    owner = type("Owner", (), {"__cuda_array_interface__": described, "memory": memory})
    view = torch.as_tensor(owner, device="cuda")
    # torch copies what it cannot share, and a copy would not see what the host writes.
    if view.data_ptr() != memory.data_ptr():
        raise vllm_source.VllmSkipped(
            "pinned host memory has no address on this GPU, so vLLM cannot run"
        )
    return view


class VllmPeer(TablesPeer):
    """One step as vLLM's V2 runner does it: append, apply, gather, slots, and what expands.

    0.23 expands on the host; 0.33 on the device, one group at a time, after the gather and over the
    whole allocated width. The batch is on the device, as it does for every peer.
    """

    def __init__(self, loaded: LoadedVllm, given: StepInput, *, launches: Launches) -> None:
        self._loaded, self._given = loaded, given
        # torch runs what expands here: of one row it takes as long as a launch on a GPU
        self._expanded_rows = 1 if launches == DRY else None
        workload, groups = given.workload, given.workload.groups
        sizes = {"kernel_block_sizes": [group.kernel_block_size for group in groups]}
        with vllm_source.importable(
            loaded.modules
        ):  # some of their classes import when they are made
            self._theirs = vars(loaded.tables)["BlockTables"](
                block_sizes=[group.block_size for group in groups],
                max_num_reqs=workload.max_requests,
                max_num_batched_tokens=workload.max_tokens,
                max_num_blocks_per_group=[group.max_blocks for group in groups],
                device=torch.device(given.device),
                **({} if loaded.source.newer else sizes),
            )
        self._groups = [self._attention_group(g) for g in range(len(groups))]
        self.tables = tuple(
            theirs if group is None else group.kernel_block_table[0]
            for theirs, group in zip(self._theirs.input_block_tables, self._groups, strict=True)
        )
        self.slots = self._theirs.slot_mappings
        batch = given.batch()
        self._batch = (batch.idx_mapping, batch.query_start_loc, batch.positions)
        self._copied: list[torch.Tensor] = []
        self._count(given.rows, given.held)
        if launches:
            self._stage(given.rows, given.held, overwrite=True)
            self._theirs.apply_staged_writes()

    def rewind(self) -> None:
        """Restore what a step changed."""
        self._count(self._given.written_rows, self._given.held_ids)

    def host(self) -> None:
        """Run the step; its launches are omitted if the peer was made with `launches=False`."""
        self._stage(self._given.written_rows, self._given.new_ids, overwrite=False)
        self._theirs.apply_staged_writes()

    def step(self) -> None:
        """Run the step from lists of ids to launched kernels."""
        self.host()
        self._gather_and_map("step")

    def ready(self) -> None:
        """Run once and keep the copied ids: a graph holds kernels alone, for every peer."""
        self.rewind()
        self._copied = []
        copy = vars(self._loaded.buffers)[COPY]

        def remembered(*arguments: Any, **named: Any) -> torch.Tensor:
            self._copied.append(copy(*arguments, **named))
            return self._copied[-1]

        with patch.object(self._loaded.buffers, COPY, remembered):
            self.step()

    def launch(self, piece: Piece = "step") -> None:
        """Launch the kernels only."""
        if piece == "step":
            self.rewind()
            copies = iter(self._copied)
            kept = patch.object(
                self._loaded.buffers, COPY, lambda *_arguments, **_named: next(copies)
            )
            with kept:
                self.host()
        self._gather_and_map(piece)

    def _gather_and_map(self, piece: Piece) -> None:
        if piece != "slots":
            gathered = self._theirs.gather_block_tables(self._batch[0], len(self._given.rows))
            for table, group in zip(gathered, self._groups, strict=True):
                if group is not None:
                    self._loaded.expand(group, table[: self._expanded_rows])
        if piece != "gather":
            self._theirs.compute_slot_mappings(*self._batch, len(self._given.positions))

    def _stage(self, rows: Sequence[int], ids: Iterable[IdLists], *, overwrite: bool) -> None:
        for row, lists in zip(rows, ids, strict=True):
            self._theirs.append_block_ids(row, lists, overwrite)

    def _count(self, rows: Sequence[int], ids: Iterable[IdLists]) -> None:
        """Set the number of blocks per row on the host; the ids after them stay."""
        for row, lists in zip(rows, ids, strict=True):
            for g, blocks in enumerate(lists):
                # 0.23 counts kernel blocks, 0.33 manager blocks
                ratio = 1 if self._loaded.source.newer else self._given.workload.groups[g].ratio
                self._theirs.num_blocks.np[g, row] = len(blocks) * ratio

    def _attention_group(self, g: int) -> Any:
        """Return what 0.33's expansion reads of an attention group; None without expansion."""
        group, device = self._given.workload.groups[g], self._given.device
        if not self._loaded.source.newer or group.ratio == 1:
            return None
        shape = (1, self._given.workload.max_requests, group.max_kernel_blocks)
        return SimpleNamespace(
            kernel_block_size=group.kernel_block_size,
            kernel_block_stride=0,
            kernel_block_table=torch.zeros(shape, dtype=torch.int32, device=device),
            kernel_block_offsets=torch.arange(group.ratio, dtype=torch.int32, device=device),
            kv_cache_spec=SimpleNamespace(block_size=group.block_size),
        )


def vllm(source: vllm_source.VllmSource, *, launches: Launches = True) -> PeerKind:
    """Return a vLLM as a peer; `launches=False` or "dry" for the host's share only."""
    load = functools.cache(lambda device: load_vllm(source, device, launches=bool(launches)))

    def make(given: StepInput) -> VllmPeer:
        return VllmPeer(load(given.device), given, launches=launches)

    return PeerKind(source.name, make, source.label)
