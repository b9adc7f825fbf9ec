"""What paged attention is compared with: one interface over every implementation."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from workbench.kernels.bench.flex_inputs import FlexInput
from workbench.kernels.bench.peers import FAST, Peer, PeerKind
from workbench.kernels.bench.results import Piece
from workbench.kernels.bench.run import PeerSkipped
from workbench.kernels.paged_flex.api import AttentionPlan, plan_attention
from workbench.kernels.paged_flex.device import default_settings
from workbench.kernels.paged_flex.engine import EngineCall, prepare_engine

BITWISE = "bitwise"
Q_BLOCK = 16
"""The engine's mask block for queries since torch 2.9."""


class AttentionPeer(Peer):
    """Attention of one layer. `ready` builds what a step computes about its batch.

    out: what the last launch wrote, in the peer's own order of axes. metadata_bytes: bytes of what
    `ready` made, including scratch.
    """

    out: torch.Tensor
    metadata_bytes: int

    def poison(self) -> None:
        """Overwrite the output."""
        self.out.fill_(float("nan"))

    def run(self) -> None:
        """Run everything once, over poisoned outputs."""
        self.ready()
        self.launch("attention")
        self.poison()
        self.launch("attention")

    def result(self) -> torch.Tensor:
        """Return the result [tokens, heads, dim]."""
        return self.out


class OurPeer(AttentionPeer):
    """`paged_attention` with the device's shipped settings."""

    _planned: AttentionPlan

    def __init__(self, given: FlexInput, mode: str = FAST) -> None:
        self._given = given
        self._settings = default_settings(given.device, bitwise=mode == BITWISE)
        self.out = torch.empty_like(given.paged.query)

    def ready(self) -> None:
        """Build the lists of programs, and copy them to the device."""
        paged, mask = self._given.paged, self._given.mask
        self._planned = plan_attention(
            paged.batch, paged.query, paged.kv_cache, mask=mask, settings=self._settings
        )
        self.metadata_bytes = self._planned.metadata_bytes + self._planned.partial_bytes

    def launch(self, piece: Piece = "attention") -> None:
        """Launch prefill tiles, decodes and combine."""
        paged = self._given.paged
        self._planned.run(paged.query, paged.kv_cache, self.out)


class EnginePeer(AttentionPeer):
    """torch's flex_attention over the whole cache, with the mask built from the block table.

    As vLLM's FlexAttention backend does it; the lists are pruned as in 0.33 where the mask is
    causal, which is the faster of its two versions.
    """

    _call: EngineCall

    def __init__(self, given: FlexInput) -> None:
        self._given = given

    def ready(self) -> None:
        """Build the inverse table and block lists."""
        given, paged = self._given, self._given.paged
        self._call = prepare_engine(
            paged.query,
            paged.kv_cache,
            paged.batch,
            mask=given.mask,
            q_block=Q_BLOCK,
            prune=given.case.is_causal,
            window=given.case.window,
            compiled=given.device.type == "cuda",
        )
        self.metadata_bytes = self._call.metadata_bytes

    def launch(self, piece: Piece = "attention") -> None:
        """Run flex_attention."""
        self.out = self._call.attend()

    def result(self) -> torch.Tensor:
        """Return the result [tokens, heads, dim]."""
        return self.out.transpose(0, 1)


class _Stacked(AttentionPeer):
    """Keys, values and queries without pages: [requests, heads, tokens, dim]."""

    def __init__(self, given: FlexInput) -> None:
        if len(given.case.parts) > 1:
            raise PeerSkipped("its requests have different lengths and do not stack")
        self._given = given
        self._query, self._key, self._value = (
            torch.stack([getattr(one, name) for one in given.requests]).transpose(1, 2).contiguous()
            for name in ("queries", "keys", "values")
        )
        self._tokens, self._queries = self._key.shape[2], self._query.shape[2]
        self._mask: Any = None
        self.metadata_bytes = 0
        visible, shift = given.mask.torch_mask_mod, self._tokens - self._queries

        def shifted(request: Any, head: Any, query: Any, key: Any) -> torch.Tensor:
            return visible(request, head, query + shift, key)

        # queries are the last ones of their request; torch needs a function, not a method
        self._visible = shifted

    def result(self) -> torch.Tensor:
        """Return the result [tokens, heads, dim]."""
        return self.out.transpose(1, 2).flatten(0, 1)


class DensePeer(_Stacked):
    """torch's flex_attention with the same mask and no pages: what paging costs."""

    def ready(self) -> None:
        """Build a block mask by evaluating the mask."""
        device = self._given.device
        make = _compiled(create_block_mask) if device.type == "cuda" else create_block_mask
        requests = len(self._query) if self._given.mask.aux is not None else None
        shape = (requests, None, self._queries, self._tokens)
        self._mask = make(self._visible, *shape, device=str(device))
        tensors = self._mask.as_tuple()
        self.metadata_bytes = sum(t.nbytes for t in tensors if isinstance(t, torch.Tensor))

    def launch(self, piece: Piece = "attention") -> None:
        """Run flex_attention."""
        gpu = self._given.device.type == "cuda"
        attend = _compiled(flex_attention) if gpu else flex_attention
        tensors = (self._query, self._key, self._value)
        self.out = attend(*tensors, block_mask=self._mask, enable_gqa=True)


class SdpaPeer(_Stacked):
    """torch's scaled_dot_product_attention, no pages; with the whole mask where it has to be."""

    def __init__(self, given: FlexInput) -> None:
        super().__init__(given)
        # its own causal mask is aligned with the first key: right for whole requests only
        self._causal = given.case.mask == "causal" and self._queries == self._tokens
        decode = given.case.mask == "causal" and self._queries == 1
        self._masked = not (self._causal or decode)
        if self._masked:
            # a fused kernel takes a mask only with keys and values of their own for every head
            group = given.case.heads // given.case.kv_heads
            self._key = self._key.repeat_interleave(group, 1)
            self._value = self._value.repeat_interleave(group, 1)

    def ready(self) -> None:
        """Build the whole mask, where one is needed."""
        if not self._masked:
            return
        at = torch.arange(self._queries, device=self._given.device)[:, None]
        key = torch.arange(self._tokens, device=self._given.device)[None, :]
        requests = range(len(self._query)) if self._given.mask.aux is not None else (0,)
        self._mask = torch.stack([self._visible(one, 0, at, key) for one in requests])[:, None]
        self.metadata_bytes = self._mask.nbytes

    def launch(self, piece: Piece = "attention") -> None:
        """Call scaled_dot_product_attention once."""
        self.out = scaled_dot_product_attention(
            self._query,
            self._key,
            self._value,
            attn_mask=self._mask,
            is_causal=self._causal,
            enable_gqa=not self._masked,
        )


@functools.cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function)


def own_kinds(files: str) -> tuple[PeerKind, ...]:
    """Return all peers but vLLM, the fast mode first. files: hash of our source files."""
    this, theirs = f"this project, files {files}", f"torch {torch.__version__}"
    return (
        PeerKind(FAST, OurPeer, this),
        PeerKind(BITWISE, lambda given: OurPeer(given, BITWISE), this),
        PeerKind("flex paged", EnginePeer, f"{theirs} flex_attention, masks of {this}"),
        PeerKind("flex dense", DensePeer, f"{theirs} flex_attention"),
        PeerKind("sdpa dense", SdpaPeer, theirs),
    )
