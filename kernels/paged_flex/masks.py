# ruff: noqa: ARG001, ARG005 - every mask has the same parameters
"""Every mask_mod and score_mod by name: the device function, and the same one in torch.

A `Mask` works for one batch: some hold values of its requests, such as where documents start.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from workbench.kernels.errors import PagedFlexError
from workbench.kernels.paged_flex import lookup_tables as tables
from workbench.kernels.paged_flex import mask_kernel as device
from workbench.kernels.paged_flex import spans
from workbench.kernels.paged_flex.spans import HostSpan, Ints, Span

SMALLEST_CAP = 2.0**-126
TorchMaskMod = Callable[[Any, Any, torch.Tensor, torch.Tensor], torch.Tensor]
TorchScoreMod = Callable[[torch.Tensor, Any, Any, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Mask:
    """Which keys a query sees, by positions in its request."""

    name: str
    mask_mod: Any
    torch_mask_mod: TorchMaskMod
    """(request, head, query, key) -> visible: the mask_mod of torch's flex_attention, for whole
    tensors of positions."""
    span: Any = device.unknown_span
    """Device functions as in `mask_kernel`, like `mask_mod`; without a span every tile is
    visited."""
    host_span: HostSpan = spans.everything
    """The same bounds on the host, for planning: see `spans`. Keys outside are never visited."""
    param: int = 0
    """Compile-time parameter of all three."""
    aux: torch.Tensor | None = None
    """[requests, n] int32: what both read."""
    torch_mask_mod_of: Callable[[torch.Tensor], TorchMaskMod] | None = None
    """Makes `torch_mask_mod` from aux, if it reads any."""
    columns: int = 0
    """How many entries of a row of aux are read at most."""
    tokens: tuple[int, ...] | None = None
    """Of each request, the positions that its row covers; a longer request is refused. None if a
    row covers any position."""

    @cached_property
    def host_aux(self) -> NDArray[np.int32]:
        """Return aux on the host, [requests, n]; one that is on a GPU is copied once."""
        return np.zeros((0, 0), np.int32) if self.aux is None else self.aux.cpu().numpy()

    def visible(self, first: Ints, last: Ints, length: Ints, row: Ints) -> Span:
        """Return (near_end, low, high), 0 <= near_end <= low <= high <= length, of tiles.

        Arguments and meaning as in `spans`.
        """
        near_end, low, high = self.host_span(first, last, length, row, self.host_aux, self.param)
        high = np.clip(high, 0, length)
        low = np.clip(low, 0, high)
        return np.clip(near_end, 0, low), low, high

    def on(self, place: torch.device | str) -> "Mask":
        """Return the mask with its values on a device: a mask_mod must not copy when compiled."""
        if self.aux is None or self.torch_mask_mod_of is None:
            return self
        # once and in front: torch.compile cannot copy from the host inside a mask_mod
        aux = self.aux.to(place)
        return replace(self, aux=aux, torch_mask_mod=self.torch_mask_mod_of(aux))


@dataclass(frozen=True)
class Score:
    """A change of scaled scores; fields as of Mask, aux is a flat float32 tensor."""

    name: str
    score_mod: Any
    torch_score_mod: TorchScoreMod
    param: float = 0.0
    aux: torch.Tensor | None = field(default=None)
    by_head: bool = False
    """A value of aux for every query head is needed."""


def full() -> Mask:
    """Return the mask of every key of the request (an encoder)."""
    return Mask(
        "full",
        mask_mod=device.full_mask,
        torch_mask_mod=lambda b, h, q, k: (k >= 0) & (q >= 0),
        span=device.full_span,
    )


def causal() -> Mask:
    """Return the mask of keys up to the query's own."""
    return Mask(
        "causal",
        mask_mod=device.causal_mask,
        torch_mask_mod=lambda b, h, q, k: k <= q,
        span=device.causal_span,
        host_span=spans.causal,
    )


def sliding_window(window: int) -> Mask:
    """Return the mask of the last `window` keys up to the query's own."""
    tables.check_size("window", window)
    return Mask(
        f"window {window}",
        mask_mod=device.window_mask,
        torch_mask_mod=lambda b, h, q, k: (k <= q) & (q - k < window),
        span=device.window_span,
        host_span=spans.window,
        param=window,
    )


def window_around(window: int) -> Mask:
    """Return the mask of the query's own key and `window` - 1 keys on each side (encoders)."""
    tables.check_size("window", window)
    return Mask(
        f"window {window} on both sides",
        mask_mod=device.around_mask,
        torch_mask_mod=lambda b, h, q, k: (q - k).abs() < window,
        span=device.around_span,
        host_span=spans.around,
        param=window,
    )


def sink_window(sinks: Sequence[int], window: int) -> Mask:
    """Return the mask of sinks[request] first keys and the last `window` ones, causal (R-SWA)."""
    tables.check_size("window", window)
    aux = tables.integer_table(
        [[sink] for sink in tables.list_of(sinks, "sinks")], "sinks", columns=1
    )

    def torch_mask_mod_of(aux: torch.Tensor) -> TorchMaskMod:
        return lambda b, h, q, k: (k <= q) & ((k < aux.to(q.device)[b, 0]) | (q - k < window))

    return Mask(
        name=f"window {window} with sinks",
        mask_mod=device.sink_window_mask,
        span=device.sink_window_span,
        host_span=spans.sink_window,
        param=window,
        torch_mask_mod=torch_mask_mod_of(aux),
        torch_mask_mod_of=torch_mask_mod_of,
        aux=aux,
        columns=1,
    )


def chunked(chunk: int) -> Mask:
    """Return the mask of the query's own chunk of `chunk` tokens, causal."""
    tables.check_size("chunk", chunk)
    return Mask(
        f"chunks of {chunk}",
        mask_mod=device.chunked_mask,
        torch_mask_mod=lambda b, h, q, k: (k <= q) & (k // chunk == q // chunk),
        span=device.chunked_span,
        host_span=spans.chunked,
        param=chunk,
    )


def document(lengths: Sequence[Sequence[int]]) -> Mask:
    """Return the causal mask of a query's document; lengths[request]: its documents' tokens.

    Together they must reach at least to the end of the request, and may reach further; a call with
    a longer request is refused.
    """
    lengths = tables.lists_of(lengths, "lengths")
    tokens_of = tuple(_document_tokens(request, i) for i, request in enumerate(lengths))
    starts = []
    for request in lengths:
        places, end = list[int](), 0
        for tokens in request:
            # the start of its document for every token: a lookup in the kernel, not a search
            places += [end] * tokens
            end += tokens
        starts.append(places or [0])
    # known at compile time: not a kernel for every length
    width = 1 << (max(map(len, starts), default=1) - 1).bit_length()
    rows = [row + row[-1:] * (width - len(row)) for row in starts]
    aux = torch.tensor(rows, dtype=torch.int32).reshape(len(rows), width)

    def torch_mask_mod_of(aux: torch.Tensor) -> TorchMaskMod:
        def visible(b: Any, h: Any, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            # padding of a tile has positions outside of the table
            start = aux.to(q.device)[b, q.clamp(0, width - 1).long()]
            return (k <= q) & (k >= start)

        return visible

    return Mask(
        name="documents",
        mask_mod=device.document_mask,
        span=device.document_span,
        host_span=spans.document,
        param=width,
        torch_mask_mod=torch_mask_mod_of(aux),
        torch_mask_mod_of=torch_mask_mod_of,
        aux=aux,
        columns=width,
        tokens=tokens_of,
    )


def _document_tokens(lengths: Sequence[int], request: int) -> int:
    """Return the tokens of a request's documents together. Errors: PagedFlexError."""
    for tokens in lengths:
        tables.check_size(f"lengths[{request}]", tokens)
    tables.check_position(sum(lengths), "lengths", request)
    return sum(lengths)


def prefix_lm(ranges: Sequence[Sequence[tuple[int, int]]]) -> Mask:
    """Return the causal mask, full within ranges[request]: start, end inclusive (vLLM 0.23)."""
    ranges = tables.lists_of(ranges, "ranges")
    for i, request in enumerate(ranges):
        for pair in request:
            tables.check_range(pair, "ranges", i)
    most = max((len(request) for request in ranges), default=0)
    # every request has as many ranges as the longest list: empty ones end before their start
    rows = [
        [p for pair in [*request, *[(0, -1)] * (most - len(request))] for p in pair]
        for request in ranges
    ]
    aux = tables.integer_table([row or [0, -1] for row in rows], "ranges", columns=2 * max(most, 1))

    def torch_mask_mod_of(aux: torch.Tensor) -> TorchMaskMod:
        def visible(b: Any, h: Any, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            visible = k <= q
            for i in range(most):
                start, end = aux.to(q.device)[b, 2 * i], aux.to(q.device)[b, 2 * i + 1]
                visible = visible | ((q >= start) & (q <= end) & (k >= start) & (k <= end))
            return visible

        return visible

    return Mask(
        name="prefix LM",
        mask_mod=device.prefix_lm_mask,
        span=device.prefix_lm_span,
        host_span=spans.prefix_lm,
        param=most,
        torch_mask_mod=torch_mask_mod_of(aux),
        torch_mask_mod_of=torch_mask_mod_of,
        aux=aux,
        columns=2 * most,
    )


def soft_cap(cap: float) -> Score:
    """Return the score cap * tanh(score / cap)."""
    tables.check_finite("cap", cap)
    # the kernel multiplies scores with 2 / cap, which must be finite too
    if cap < SMALLEST_CAP:
        raise PagedFlexError(
            f"Invalid cap {cap}. Expected a finite number of at least {SMALLEST_CAP:g}. Nearest "
            f"valid value: {SMALLEST_CAP:g}",
            field="cap",
            given=cap,
            limit=SMALLEST_CAP,
        )
    return Score(
        f"soft cap {cap:g}",
        score_mod=device.soft_cap_score,
        torch_score_mod=lambda s, b, h, q, k: cap * torch.tanh(s / cap),
        param=float(cap),
    )


def alibi(slopes: Sequence[float]) -> Score:
    """Return the score with a penalty of slopes[head] per token of distance."""
    aux = tables.float_table(slopes, "slopes")

    def changed(s: torch.Tensor, b: Any, h: Any, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return s + aux.to(device=s.device, dtype=s.dtype)[h] * (k - q).to(s.dtype)

    return Score(
        "alibi",
        score_mod=device.alibi_score,
        torch_score_mod=changed,
        param=len(aux),
        aux=aux,
        by_head=True,
    )
