"""Attention of other libraries, where they are installed: FlashAttention 3, FlashInfer, cuDNN.

FlashAttention and FlashInfer are written from their published interfaces and have not run so far
(cuDNN has): the first run has to be read with that in mind, and what they compute is checked as
every peer's is. vLLM's own FlashAttention 3 is in `vllm_flash`.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from workbench.kernels.bench.flex_inputs import FlexInput
from workbench.kernels.bench.flex_peers import AttentionPeer, SdpaPeer
from workbench.kernels.bench.peers import PeerKind
from workbench.kernels.bench.results import Piece
from workbench.kernels.bench.run import PeerSkipped

WORKSPACE_BYTES = 384 * 2**20
"""FlashInfer keeps partial results of split requests in it."""
_CAUSAL = {"causal", "window"}
_HALVES = (torch.float16, torch.bfloat16)


def check_flash_case(given: FlexInput) -> None:
    """Raise PeerSkipped for what FlashAttention and FlashInfer do not compute."""
    case = given.case
    if case.mask not in _CAUSAL:
        raise PeerSkipped(f"it has no mask for {case.mask}")
    if given.device.type != "cuda":
        raise PeerSkipped("it runs on a GPU only")
    if case.torch_dtype not in _HALVES:
        raise PeerSkipped(f"it computes float16 and bfloat16, not {case.dtype}")


def table_rows(given: FlexInput) -> torch.Tensor:
    """Return the block table of the batch, [request, block] int32, on its device."""
    batch = given.paged.batch
    rows = torch.from_numpy(batch.rows).long()
    return torch.as_tensor(batch.block_table).cpu()[rows].int().contiguous().to(given.device)


def varlen_arguments(given: FlexInput) -> dict[str, Any]:
    """Return what vLLM's attention functions over pages take for a batch, by their names."""
    case, paged = given.case, given.paged
    batch = paged.batch
    return {
        "q": paged.query,
        "k": paged.kv_cache[:, 0],
        "v": paged.kv_cache[:, 1],
        "cu_seqlens_q": torch.from_numpy(batch.query_start_loc).int().to(given.device),
        "max_seqlen_q": int(batch.query_lens.max()),
        "seqused_k": torch.from_numpy(batch.seq_lens).int().to(given.device),
        "max_seqlen_k": int(batch.seq_lens.max()),
        "block_table": table_rows(given),
        "softmax_scale": case.head_dim**-0.5,
        "causal": True,
        # keys to the left of a query, without its own
        "window_size": (case.window - 1, 0) if case.window else (-1, -1),
    }


FLASH_NAMES = {
    "k": "k_cache",
    "v": "v_cache",
    "seqused_k": "cache_seqlens",
    "block_table": "page_table",
}
"""vLLM's name of an argument -> that of `flash_attn_with_kvcache`."""


def flash_arguments(given: FlexInput) -> dict[str, Any]:
    """Return what `flash_attn_with_kvcache` of FlashAttention 3 takes for a batch."""
    found = varlen_arguments(given)
    del found["max_seqlen_k"]
    return {FLASH_NAMES.get(name, name): value for name, value in found.items()}


class FlashPeer(AttentionPeer):
    """A function of FlashAttention over the pages as they are; it decides itself how to split."""

    def __init__(
        self,
        attend: Callable[..., torch.Tensor],
        arguments_of: Callable[[FlexInput], dict[str, Any]],
        given: FlexInput,
    ) -> None:
        check_flash_case(given)
        self._attend, self._arguments_of, self._given = attend, arguments_of, given

    def ready(self) -> None:
        """Copy the table, the lengths and where each request begins to the device."""
        self._arguments = self._arguments_of(self._given)
        held = (one for one in self._arguments.values() if isinstance(one, torch.Tensor))
        self.metadata_bytes = sum(one.nbytes for one in held if not one.is_floating_point())

    def launch(self, piece: Piece = "attention") -> None:
        """Call the function once."""
        self.out = self._attend(**self._arguments)


def flash_attention(library: ModuleType, given: FlexInput) -> FlashPeer:
    """Return FlashAttention 3 of its own package as a peer."""
    return FlashPeer(library.flash_attn_with_kvcache, flash_arguments, given)


class FlashInferPlan(NamedTuple):
    """The arguments of a FlashInfer wrapper's `plan`, and whether it is the one for decodes."""

    is_decode: bool
    arguments: dict[str, Any]


def flashinfer_plan(given: FlexInput) -> FlashInferPlan:
    """Return how FlashInfer describes a batch: the pages of all requests in one list."""
    case, batch = given.case, given.paged.batch
    lengths, table = batch.seq_lens.astype(np.int64), table_rows(given).cpu().numpy()
    pages = -(-lengths // case.block_size)
    # rows without their ends: FlashInfer has one list of pages, and where each request begins
    indices = np.concatenate([row[:count] for row, count in zip(table, pages, strict=True)])
    ends = np.concatenate([[0], np.cumsum(pages)])
    last = lengths - (pages - 1) * case.block_size
    indptr, last_page = (torch.from_numpy(part).int() for part in (ends, last))
    common = {
        "num_qo_heads": case.heads,
        "num_kv_heads": case.kv_heads,
        "page_size": case.block_size,
        "sm_scale": case.head_dim**-0.5,
        "window_left": case.window - 1 if case.window else -1,
        "q_data_type": case.torch_dtype,
        "kv_data_type": case.torch_dtype,
    }
    on_device = torch.from_numpy(indices).int().to(given.device)
    if int(batch.query_lens.max()) == 1:
        own = {"indptr": indptr, "indices": on_device, "last_page_len": last_page}
        return FlashInferPlan(True, {**own, **common, "head_dim": case.head_dim})
    own = {
        "qo_indptr": torch.from_numpy(batch.query_start_loc).int(),
        "paged_kv_indptr": indptr,
        "paged_kv_indices": on_device,
        "paged_kv_last_page_len": last_page,
        "head_dim_qk": case.head_dim,
        "causal": True,
    }
    return FlashInferPlan(False, {**own, **common})


class FlashInferPeer(AttentionPeer):
    """FlashInfer's wrapper for paged decodes where all are, else its wrapper for prefills."""

    def __init__(self, library: ModuleType, given: FlexInput) -> None:
        check_flash_case(given)
        self._given = given
        self.out = torch.empty_like(given.paged.query)
        workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=given.device)
        if flashinfer_plan(given).is_decode:
            # as vLLM sets it: group sizes from 4 on are faster there
            self._wrapper = library.BatchDecodeWithPagedKVCacheWrapper(
                workspace, "NHD", use_tensor_cores=True
            )
        else:
            self._wrapper = library.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD")

    def ready(self) -> None:
        """Plan the batch."""
        arguments = flashinfer_plan(self._given).arguments
        self._wrapper.plan(**arguments)
        held = (value for value in arguments.values() if isinstance(value, torch.Tensor))
        self.metadata_bytes = WORKSPACE_BYTES + sum(tensor.nbytes for tensor in held)

    def launch(self, piece: Piece = "attention") -> None:
        """Run what was planned."""
        paged = self._given.paged
        self._wrapper.run(paged.query, paged.kv_cache, out=self.out)


class CudnnPeer(SdpaPeer):
    """torch's scaled_dot_product_attention by cuDNN and nothing else: the dense roof."""

    def __init__(self, given: FlexInput) -> None:
        if given.device.type != "cuda":
            raise PeerSkipped("it runs on a GPU only")
        super().__init__(given)

    def ready(self) -> None:
        """Build the whole mask, where one is needed; refuse what cuDNN does not take."""
        super().ready()
        cuda: Any = torch.backends.cuda
        tensors = (self._query, self._key, self._value, self._mask)
        case = cuda.SDPAParams(*tensors, 0.0, self._causal, not self._masked)
        if not cuda.can_use_cudnn_attention(case, debug=False):
            raise PeerSkipped("torch's cuDNN does not take it")

    def launch(self, piece: Piece = "attention") -> None:
        """Call scaled_dot_product_attention once."""
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            super().launch(piece)


class Library(NamedTuple):
    """A library with a peer: its module, its package, what installs it."""

    title: str
    module: str
    package: str
    hint: str
    peer: Callable[[ModuleType, FlexInput], AttentionPeer]


LIBRARIES = (
    Library(
        "FlashAttention 3",
        "flash_attn_interface",
        "flash_attn_3",
        "it is built from the folder `hopper` of Dao-AILab/flash-attention",
        flash_attention,
    ),
    Library("FlashInfer", "flashinfer", "flashinfer-python", "pip installs it", FlashInferPeer),
)


def library_kinds(absent: Callable[[str], None]) -> tuple[PeerKind, ...]:
    """Return the peers that are available here; `absent` gets a line for every other, with why."""
    kinds = []
    for one in LIBRARIES:
        try:
            library = import_module(one.module)
        except ImportError as error:
            why = f"{one.module} cannot be imported ({error})"
            absent(f"No {one.title} to compare with: {why}; {one.hint}.")
            continue
        peer = partial(one.peer, library)
        kinds.append(PeerKind(one.title, peer, f"{one.title} {_version(one)}"))
    number = torch.backends.cudnn.version()
    if number is None:
        absent("No cuDNN to compare with: this torch is built without it.")
    else:
        kinds.append(PeerKind("cudnn dense", CudnnPeer, f"cuDNN {number} of torch"))
    return tuple(kinds)


def _version(one: Library) -> str:
    try:
        return version(one.package)
    except PackageNotFoundError:
        return "of unknown version"
