"""What paged attention is compared with: one interface over every implementation."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from workbench.kernels.bench.flex_inputs import FlexInput
from workbench.kernels.bench.peers import Piece
from workbench.kernels.paged_flex.api import Prepared, default_settings, prepare
from workbench.kernels.paged_flex.engine import EngineCall, prepare_engine

FAST, BITWISE = "fast", "bitwise"
Q_BLOCK = 16
"""The engine's mask block for queries since torch 2.9."""


class PeerSkipped(RuntimeError):  # noqa: N818 - what happened
    """This peer cannot compute this case, and why."""


class FlexPeer(Protocol):
    """One implementation over one input. build comes first; launch may come again and again."""

    def build(self) -> None:
        """Build everything that a step computes about its batch, for one layer's launch."""

    def launch(self, piece: Piece = "step") -> None:
        """Run attention only, always over the same memory."""

    def output(self) -> torch.Tensor:
        """Return what the last launch wrote, in the peer's own order of axes."""

    def result(self) -> torch.Tensor:
        """Return the result [tokens, heads, dim]."""

    @property
    def metadata_bytes(self) -> int:
        """Return the bytes of what `build` made, including scratch."""


@dataclass(frozen=True, slots=True)
class FlexKind:
    """How to make a peer; PeerSkipped if it cannot. `source`: version and hash of its code."""

    name: str
    make: Callable[[FlexInput], FlexPeer]
    source: str


class OurPeer:
    """`paged_attention` with the device's shipped settings."""

    def __init__(self, given: FlexInput, mode: Literal["fast", "bitwise"]) -> None:
        self._given = given
        self._settings = default_settings(given.device, bitwise=mode == BITWISE)
        self._out = torch.empty_like(given.paged.query)
        self._prepared: Prepared | None = None

    def build(self) -> None:
        """Build the lists of programs, and copy them to the device."""
        paged = self._given.paged
        self._prepared = prepare(
            paged.query,
            paged.kv_cache,
            paged.batch,
            mask=self._given.mask,
            settings=self._settings,
            out=self._out,
        )

    def launch(self, piece: Piece = "step") -> None:
        """Launch prefill tiles, decodes and combine."""
        self._made.run()

    def output(self) -> torch.Tensor:
        """Return the output [tokens, heads, dim]."""
        return self._out

    def result(self) -> torch.Tensor:
        """Return the result [tokens, heads, dim]."""
        return self._out

    @property
    def metadata_bytes(self) -> int:
        """Return the bytes of the lists of programs and the splits' scratch."""
        return self._made.metadata_bytes + self._made.partial_bytes

    @property
    def _made(self) -> Prepared:
        assert self._prepared is not None
        return self._prepared


class EnginePeer:
    """torch's flex_attention over the whole cache, with the mask built from the block table.

    As vLLM's FlexAttention backend does it; the lists are pruned as in 0.33 where the mask is
    causal, which is the faster of its two versions.
    """

    def __init__(self, given: FlexInput) -> None:
        self._given = given
        self._call: EngineCall | None = None
        self._out: torch.Tensor | None = None

    def build(self) -> None:
        """Build the inverse table and block lists."""
        given, paged = self._given, self._given.paged
        compiled = given.device.type == "cuda"
        page = given.case.block_size
        self._call = prepare_engine(
            paged.query,
            paged.kv_cache,
            paged.batch,
            mask=given.mask,
            q_block=Q_BLOCK,
            block_m=Q_BLOCK if compiled else None,
            block_n=page if compiled else None,
            prune=given.case.is_causal,
            window=given.case.window,
            compiled=compiled,
        )

    def launch(self, piece: Piece = "step") -> None:
        """Run flex_attention."""
        assert self._call is not None
        self._out = self._call.attend()

    def output(self) -> torch.Tensor:
        """Return the output [heads, tokens, dim]."""
        assert self._out is not None
        return self._out

    def result(self) -> torch.Tensor:
        """Return the result [tokens, heads, dim]."""
        return self.output().transpose(0, 1)

    @property
    def metadata_bytes(self) -> int:
        """Return the bytes of the inverse table and block lists."""
        assert self._call is not None
        return self._call.metadata_bytes


class _Stacked:
    """Keys, values and queries without pages: [requests, heads, tokens, dim]."""

    def __init__(self, given: FlexInput) -> None:
        if not given.case.is_uniform:
            raise PeerSkipped("its requests have different lengths and do not stack")
        self._given = given
        names = ("queries", "keys", "values")
        self._query, self._key, self._value = (
            torch.stack([getattr(one, name) for one in given.requests]).transpose(1, 2).contiguous()
            for name in names
        )
        self._tokens, self._queries = self._key.shape[2], self._query.shape[2]
        self._out: torch.Tensor | None = None
        visible, shift = given.mask.visible, self._tokens - self._queries

        def shifted(request: Any, head: Any, query: Any, key: Any) -> torch.Tensor:
            return visible(request, head, query + shift, key)

        # queries are the last ones of their request; torch needs a function, not a method
        self._visible = shifted

    def output(self) -> torch.Tensor:
        """Return the output [requests, heads, queries, dim]."""
        assert self._out is not None
        return self._out

    def result(self) -> torch.Tensor:
        """Return the result [tokens, heads, dim]."""
        return self.output().transpose(1, 2).flatten(0, 1)


class DensePeer(_Stacked):
    """torch's flex_attention with the same mask and no pages: what paging costs."""

    _mask: BlockMask | None = None

    def build(self) -> None:
        """Build a block mask by evaluating the mask."""
        gpu = self._given.device.type == "cuda"
        make = _compiled_block_mask() if gpu else create_block_mask
        own = self._given.mask.aux is not None
        self._mask = make(
            self._visible,
            self._query.shape[0] if own else None,
            None,
            self._queries,
            self._tokens,
            device=str(self._given.device),
        )

    def launch(self, piece: Piece = "step") -> None:
        """Run flex_attention."""
        attend = _compiled_flex() if self._given.device.type == "cuda" else flex_attention
        self._out = attend(
            self._query, self._key, self._value, block_mask=self._mask, enable_gqa=True
        )

    @property
    def metadata_bytes(self) -> int:
        """Return the bytes of the block mask."""
        assert self._mask is not None
        tensors = self._mask.as_tuple(flatten=True)
        return sum(t.numel() * t.element_size() for t in tensors if isinstance(t, torch.Tensor))


class SdpaPeer(_Stacked):
    """torch's scaled_dot_product_attention, no pages.

    Causal where its own causal mask is the case's, without a mask for decodes; otherwise with the
    whole mask, and a copy of keys and values for every head, since only then a fused kernel runs.
    """

    def __init__(self, given: FlexInput) -> None:
        super().__init__(given)
        whole = given.case.mask == "causal" and self._queries == self._tokens
        decode = given.case.mask == "causal" and self._queries == 1
        self._causal, self._masked = whole, not (whole or decode)
        self._mask: torch.Tensor | None = None
        if self._masked:
            group = given.case.heads // given.case.kv_heads
            self._key = self._key.repeat_interleave(group, 1)
            self._value = self._value.repeat_interleave(group, 1)

    def build(self) -> None:
        """Build the whole mask, where one is needed."""
        if not self._masked:
            return
        at = torch.arange(self._queries, device=self._given.device)[:, None]
        key = torch.arange(self._tokens, device=self._given.device)[None, :]
        requests = range(len(self._query)) if self._given.mask.aux is not None else (0,)
        visible = [self._visible(request, 0, at, key) for request in requests]
        self._mask = torch.stack(visible)[:, None]

    def launch(self, piece: Piece = "step") -> None:
        """Call scaled_dot_product_attention once."""
        self._out = scaled_dot_product_attention(
            self._query,
            self._key,
            self._value,
            attn_mask=self._mask,
            is_causal=self._causal,
            enable_gqa=not self._masked,
        )

    @property
    def metadata_bytes(self) -> int:
        """Return the bytes of the whole mask."""
        return 0 if self._mask is None else self._mask.numel() * self._mask.element_size()


@functools.cache
def _compiled_flex() -> Callable[..., Any]:
    return torch.compile(flex_attention)


@functools.cache
def _compiled_block_mask() -> Callable[..., Any]:
    return torch.compile(create_block_mask)


def own_kinds(files: str) -> tuple[FlexKind, ...]:
    """Return all peers but vLLM, the fast mode first. files: hash of our source files."""
    this, theirs = f"this project, files {files}", f"torch {torch.__version__}"
    return (
        FlexKind(FAST, lambda given: OurPeer(given, "fast"), this),
        FlexKind(BITWISE, lambda given: OurPeer(given, "bitwise"), this),
        FlexKind("flex paged", EnginePeer, f"{theirs} flex_attention, masks of {this}"),
        FlexKind("flex dense", DensePeer, f"{theirs} flex_attention"),
        FlexKind("sdpa dense", SdpaPeer, theirs),
    )
