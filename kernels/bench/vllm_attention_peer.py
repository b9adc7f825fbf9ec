"""vLLM's unified attention as a peer, launched as its backend launches it."""

import torch

from workbench.kernels.bench.flex_inputs import FlexInput
from workbench.kernels.bench.flex_peers import FlexKind, PeerSkipped
from workbench.kernels.bench.peers import Piece
from workbench.kernels.bench.vllm_attention import (
    PROGRAMS_2D,
    SEGMENTS,
    VllmAttention,
    load_vllm_attention,
)
from workbench.kernels.bench.vllm_source import VllmSource
from workbench.kernels.paged_flex.shapes import padded_head_dim


class VllmAttentionPeer:
    """Its own choice between one program a tile and split keys; needs no metadata but the table."""

    def __init__(self, loaded: VllmAttention, given: FlexInput) -> None:
        case, paged = given.case, given.paged
        if case.mask == "documents":
            raise PeerSkipped("it has no mask for documents")
        self._loaded, self._given = loaded, given
        batch, device = paged.batch, given.device
        rows = torch.from_numpy(batch.rows).long().to(device)
        self._table = torch.as_tensor(batch.block_table).to(device)[rows].contiguous()
        self._starts = torch.from_numpy(batch.query_start_loc).to(device)
        self._lengths = torch.from_numpy(batch.seq_lens).to(device)
        self._longest = int(batch.query_lens.max()), int(batch.seq_lens.max())
        self._out = torch.empty_like(paged.query)
        self._threshold = max(PROGRAMS_2D // case.kv_heads, 1)
        self._ranges: torch.Tensor | None = None
        self._segments: tuple[torch.Tensor, ...] = ()

    def build(self) -> None:
        """Allocate the scratch of split decodes, and the ranges of a prefix LM."""
        case, device = self._given.case, self._given.device
        heads, width = case.heads, padded_head_dim(case.head_dim)
        shape = (self._threshold, heads, SEGMENTS)
        self._segments = (
            torch.empty((*shape, width), dtype=torch.float32, device=device),
            torch.empty(shape, dtype=torch.float32, device=device),
            torch.empty(shape, dtype=torch.float32, device=device),
        )
        if case.ranges:
            ranges = torch.tensor([case.ranges] * case.requests, dtype=torch.int32)
            self._ranges = ranges.to(device)

    def launch(self, piece: Piece = "step") -> None:
        """Call the function once, which launches one kernel or two."""
        case, paged = self._given.case, self._given.paged
        output, largest, total = self._segments
        self._loaded.attend(
            q=paged.query,
            k=paged.kv_cache[:, 0],
            v=paged.kv_cache[:, 1],
            out=self._out,
            cu_seqlens_q=self._starts,
            max_seqlen_q=self._longest[0],
            seqused_k=self._lengths,
            max_seqlen_k=self._longest[1],
            softmax_scale=case.head_dim**-0.5,
            causal=True,
            window_size=(case.window - 1, 0) if case.window else (-1, -1),
            block_table=self._table,
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

    def output(self) -> torch.Tensor:
        """Return the output [tokens, heads, dim]."""
        return self._out

    def result(self) -> torch.Tensor:
        """Return the result [tokens, heads, dim]."""
        return self._out

    @property
    def metadata_bytes(self) -> int:
        """Return the bytes of the scratch of split decodes, which has a fixed size."""
        tensors = [*self._segments, *([] if self._ranges is None else [self._ranges])]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def vllm_attention(source: VllmSource) -> FlexKind:
    """Return a peer over one unpacked vLLM."""
    loaded = load_vllm_attention(source)
    return FlexKind(source.name, lambda given: VllmAttentionPeer(loaded, given), source.label)
