"""vLLM's unified attention as a peer, launched as its backend launches it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import torch

from workbench.kernels.bench.flex_inputs import FlexInput
from workbench.kernels.bench.flex_peers import AttentionPeer
from workbench.kernels.bench.library_peers import varlen_arguments
from workbench.kernels.bench.peers import PeerKind
from workbench.kernels.bench.results import Piece
from workbench.kernels.bench.run import PeerSkipped
from workbench.kernels.bench.vllm_source import (
    VARIABLE,
    VllmSkipped,
    VllmSource,
    definition,
    found_files,
    modules_of,
    run_file,
    source_of,
)
from workbench.kernels.paged_flex.heads import padded_head_dim

FOLDER = "v1/attention/ops"
FILES = (f"{FOLDER}/triton_attention_helpers.py", f"{FOLDER}/triton_unified_attention.py")
INVARIANT = "VLLM_BATCH_INVARIANT"
INTERFACE = "v1/kv_cache_interface.py"

PROGRAMS_2D = 128
"""Programs that fill a device: with fewer requests times KV heads, vLLM splits a decode's keys."""

SEGMENTS = 16
"""How many parts it splits them into, of whatever length."""


def find_vllm_attention(folder: str) -> VllmSource:
    """Find the vLLM in a folder, or in `vllm` below it. VllmSkipped says why there is none."""
    root, texts = found_files(folder, FILES)
    if "def unified_attention(" not in texts[1] or "mm_prefix_range" not in texts[1]:
        raise VllmSkipped(f"{VARIABLE}: its unified_attention is neither that of 0.23 nor of 0.33")
    return source_of(root, texts, newer="USE_PER_SEQ_CAUSAL" in texts[1])


@dataclass(frozen=True, slots=True)
class VllmAttention:
    """The functions of the loaded files."""

    source: VllmSource
    attend: Callable[..., None]
    kernel: Any


def load_vllm_attention(source: VllmSource, *, invariant: bool = False) -> VllmAttention:
    """Run the files; every call gives modules of its own. invariant: as VLLM_BATCH_INVARIANT=1."""
    family = torch.cuda.get_device_capability()[0] * 10 if torch.cuda.is_available() else 0
    platform = SimpleNamespace(
        fp8_dtype=lambda: torch.float8_e4m3fn,
        is_device_capability_family=lambda other: other == family,
    )
    quantization = definition(source.root / INTERFACE, "KVQuantMode", IntEnum=IntEnum)
    modules = modules_of(
        {
            "vllm.envs": {INVARIANT: invariant},
            "vllm.platforms": {"current_platform": platform},
            "vllm.v1.attention.ops": {},
            "vllm.v1.kv_cache_interface": {"KVQuantMode": quantization},
        }
    )
    run_file(source, FILES[0], modules)
    names = vars(run_file(source, FILES[1], modules))
    return VllmAttention(source, names["unified_attention"], names["kernel_unified_attention"])


class VllmAttentionPeer(AttentionPeer):
    """Its own choice between one program a tile and split keys; needs no metadata but the table."""

    def __init__(self, loaded: VllmAttention, given: FlexInput) -> None:
        case = given.case
        if case.mask == "documents":
            raise PeerSkipped("it has no mask for documents")
        self._loaded, self._given = loaded, given
        self._arguments = varlen_arguments(given)
        self.out = torch.empty_like(given.paged.query)
        self._threshold = max(PROGRAMS_2D // case.kv_heads, 1)

    def ready(self) -> None:
        """Allocate the scratch of split decodes, and the ranges of a prefix LM."""
        case, device = self._given.case, self._given.device
        shape = (self._threshold, case.heads, SEGMENTS)
        widths = ((padded_head_dim(case.head_dim),), (), ())
        self._segments = [
            torch.empty((*shape, *width), dtype=torch.float32, device=device) for width in widths
        ]
        self._ranges = None
        if case.ranges:
            ranges = torch.tensor([case.ranges] * case.requests, dtype=torch.int32)
            self._ranges = ranges.to(device)
        held = [*self._segments, *([] if self._ranges is None else [self._ranges])]
        self.metadata_bytes = sum(tensor.nbytes for tensor in held)

    def launch(self, piece: Piece = "attention") -> None:
        """Call the function once, which launches one kernel or two."""
        output, largest, total = self._segments
        self._loaded.attend(
            **self._arguments,
            out=self.out,
            softcap=0.0,
            q_descale=None,
            k_descale=None,
            v_descale=None,
            seq_threshold_3D=self._threshold,
            num_par_softmax_segments=SEGMENTS,
            softmax_segm_output=output,
            softmax_segm_max=largest,
            softmax_segm_expsum=total,
            mm_prefix_range=self._ranges,
        )


def vllm_attention(folder: str, *, invariant: bool = False) -> PeerKind:
    """Return the vLLM in a folder as a peer. VllmSkipped says why there is none.

    invariant: in its batch-invariant mode, which is the peer of our bitwise mode.
    """
    source = find_vllm_attention(folder)
    if invariant and INVARIANT not in (source.root / FILES[1]).read_text(encoding="utf-8"):
        raise VllmSkipped(f"{source.name}: its unified_attention does not read {INVARIANT}")
    loaded = load_vllm_attention(source, invariant=invariant)
    name = f"{source.name} invariant" if invariant else source.name
    return PeerKind(name, lambda given: VllmAttentionPeer(loaded, given), source.label)
