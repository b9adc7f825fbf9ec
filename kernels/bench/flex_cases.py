"""The cases of paged attention, as data: requests, pages, masks, and what they cost at least."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

from workbench.kernels.paged_flex import masks
from workbench.kernels.paged_flex.masks import Mask

MaskName = Literal["causal", "window", "documents", "prefix LM"]

_COPIES = 10
"""Of keys and values: a pool of two, one of four, dense ones, and what peers hold."""

_REDUCTION, _FEW_QUERIES = 64, 128
_FEW_REQUESTS = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """`requests` alike requests of so many tokens, the last `queries` of which are asked."""

    requests: int
    tokens: int
    queries: int


@dataclass(frozen=True, slots=True)
class FlexCase:
    """One batch. window: of the mask "window"; lengths: tokens of each document of every request.

    ranges: of "prefix LM", start and end of each, both included. num_blocks of the pool are twice
    what the batch needs: other requests' pages lie between.
    """

    name: str
    title: str
    asked: tuple[Asked, ...]
    block_size: int
    mask: MaskName = "causal"
    window: int = 0
    lengths: tuple[int, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    dtype: str = "bfloat16"

    @property
    def torch_dtype(self) -> torch.dtype:
        """Of queries, keys and values."""
        dtype = getattr(torch, self.dtype)
        assert isinstance(dtype, torch.dtype)
        return dtype

    @property
    def requests(self) -> int:
        """Requests of the batch."""
        return sum(part.requests for part in self.asked)

    @property
    def kv_tokens(self) -> int:
        """Tokens in the pages of the batch."""
        return sum(part.requests * part.tokens for part in self.asked)

    @property
    def query_tokens(self) -> int:
        """Queries of the batch."""
        return sum(part.requests * part.queries for part in self.asked)

    @property
    def alike(self) -> bool:
        """Whether all requests have the same lengths, and can be stacked."""
        return len(self.asked) == 1

    @property
    def is_causal(self) -> bool:
        """Whether no query sees a later key."""
        return self.mask != "prefix LM"

    def sizes(self) -> Iterator[tuple[int, int]]:
        """(tokens, queries) of every request, in the batch's order."""
        for part in self.asked:
            yield from [(part.tokens, part.queries)] * part.requests

    def mask_of(self, requests: int) -> Mask:
        """The mask for so many requests."""
        if self.mask == "window":
            return masks.sliding_window(self.window)
        if self.mask == "documents":
            return masks.document([self.lengths] * requests)
        if self.mask == "prefix LM":
            return masks.prefix_lm([self.ranges] * requests)
        return masks.causal()

    def visible(self, positions: np.ndarray) -> np.ndarray:
        """How many keys the queries at these positions see, int64."""
        seen = positions.astype(np.int64) + 1
        if self.mask == "window":
            return np.minimum(seen, self.window)
        if self.mask == "documents":
            starts = np.cumsum([0, *self.lengths])
            return seen - starts[np.searchsorted(starts, positions, side="right") - 1]
        for start, end in self.ranges if self.mask == "prefix LM" else ():
            inside = (positions >= start) & (positions <= end)
            seen = np.where(inside, np.maximum(seen, end + 1), seen)
        return seen

    @property
    def flop(self) -> int:
        """Of the two products, for pairs that the mask shows; nothing for masked ones."""
        pairs = sum(
            part.requests
            * int(self.visible(np.arange(part.tokens - part.queries, part.tokens)).sum())
            for part in self.asked
        )
        return 4 * pairs * self.heads * self.head_dim

    @property
    def bytes(self) -> int:
        """Keys and values that some query sees, queries and results: each once."""
        element = self.torch_dtype.itemsize
        keys = sum(part.requests * self._keys_seen(part) for part in self.asked)
        kv = 2 * keys * self.kv_heads * self.head_dim * element
        return kv + 2 * self.query_tokens * self.heads * self.head_dim * element

    def _keys_seen(self, part: Asked) -> int:
        if self.mask in {"window", "documents"}:
            first = part.tokens - part.queries
            return part.tokens - first - 1 + int(self.visible(np.array([first]))[0])
        return part.tokens

    @property
    def needed_bytes(self) -> int:
        """A rough bound of the memory that a run holds at once, every peer's included."""
        element = self.torch_dtype.itemsize
        kv = 2 * self.kv_tokens * self.kv_heads * self.head_dim * element
        queries = self.query_tokens * self.heads * self.head_dim * (8 + 6 * element)
        # the engine's block lists are sorted as int64, SDPA's mask is whole
        lists = 6 * 8 * self.query_tokens * -(-max(t for t, _ in self.sizes()) // self.block_size)
        dense = max(3 * tokens * asked for tokens, asked in self.sizes())
        return _COPIES * kv + queries + lists + dense

    def fitted(self, free_bytes: int) -> "FlexCase":
        """The case itself, or its half, quarter ... that fits; ValueError if nothing does."""
        case, divisor = self, 1
        while case.needed_bytes > free_bytes:
            divisor *= 2
            case = replace(self.divided(divisor), title=f"{self.title}, divided by {divisor}")
            if divisor > max(t for t, _ in self.sizes()):
                raise ValueError(
                    f"{self.name} needs {case.needed_bytes} bytes, {free_bytes} are free"
                )
        return case

    def divided(self, by: int) -> "FlexCase":
        """Fewer requests where there are many; shorter ones where there are not."""
        shorter = [part for part in self.asked if part.requests < by]
        asked = tuple(
            replace(part, requests=part.requests // by) if part.requests >= by else _cut(part, by)
            for part in self.asked
        )
        if not shorter or self.mask == "causal":
            return replace(self, asked=asked)
        return replace(
            self,
            asked=asked,
            window=max(self.window // by, 1) if self.window else 0,
            lengths=tuple(max(tokens // by, 1) for tokens in self.lengths),
            ranges=tuple((start // by, (end + 1) // by - 1) for start, end in self.ranges),
        )

    def reduced(self) -> "FlexCase":
        """The same shape, small enough for Triton's interpreter, in float32."""
        by = max(_REDUCTION, max(part.queries for part in self.asked) // _FEW_QUERIES)
        few = tuple(
            replace(_cut(part, by), requests=min(part.requests, _FEW_REQUESTS))
            for part in self.asked
        )
        masked = replace(self, asked=tuple(replace(part, requests=1) for part in self.asked))
        small = masked.divided(by)
        return replace(small, asked=few, heads=8, kv_heads=2, head_dim=32, dtype="float32")


def _cut(part: Asked, by: int) -> Asked:
    return replace(part, tokens=max(part.tokens // by, 1), queries=max(part.queries // by, 1))


_ONE = (Asked(1, 8192, 8192),)

CASES: dict[str, FlexCase] = {
    case.name: case
    for case in (
        FlexCase("P1", "prefill of 8K, causal, page 16", _ONE, 16),
        FlexCase("P2", "prefill of 8K, causal, page 64", _ONE, 64),
        FlexCase("P3", "prefill of 1K over 31K cached", (Asked(1, 32768, 1024),), 64),
        FlexCase(
            "P4",
            "prefill of 32K, window of 1024",
            (Asked(1, 32768, 32768),),
            64,
            mask="window",
            window=1024,
        ),
        FlexCase(
            "P5",
            "prefill of 8K, eight documents",
            _ONE,
            64,
            mask="documents",
            lengths=(512, 1536, 1024, 2048, 768, 1280, 640, 384),
        ),
        FlexCase(
            "P5L",
            "prefill of 8K, prefix LM: ranges of 2K and 1K",
            _ONE,
            64,
            mask="prefix LM",
            ranges=((0, 2047), (4096, 5119)),
        ),
        FlexCase("D1", "decode, 1 request of 8K", (Asked(1, 8192, 1),), 16),
        FlexCase("D2", "decode, 64 requests of 8K", (Asked(64, 8192, 1),), 16),
        FlexCase("D3", "decode, 256 requests of 2K", (Asked(256, 2048, 1),), 16),
        FlexCase(
            "D4",
            "prefill of 4K and 63 decodes of 8K",
            (Asked(1, 4096, 4096), Asked(63, 8192, 1)),
            16,
        ),
    )
}
"""Name -> case; scores are geometric means over all of them."""


def chosen_cases(names: Sequence[str]) -> tuple[FlexCase, ...]:
    """The named cases, all of them for none; ValueError for a name that does not exist."""
    if unknown := [name for name in names if name not in CASES]:
        raise ValueError(f"no case {unknown[0]!r}. Cases: {', '.join(CASES)}")
    return tuple(CASES[name] for name in names or CASES)
