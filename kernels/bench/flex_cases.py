"""The cases of paged attention, as data: requests, pages, masks, and what they cost at least."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from workbench.kernels.block_table.numbers import round_up
from workbench.kernels.paged_flex import masks
from workbench.kernels.paged_flex.masks import Mask

MaskName = Literal["causal", "window", "documents", "prefix LM"]

_COPIES = 10
"""Of keys and values: a pool of two, one of four, dense ones, and what peers hold."""

_REDUCTION, _FEW_QUERIES = 64, 128
_FEW_REQUESTS = 3


@dataclass(frozen=True, slots=True)
class CasePart:
    """`requests` identical requests of `tokens` tokens; the last `queries` are computed."""

    requests: int
    tokens: int
    queries: int


@dataclass(frozen=True, slots=True)
class FlexCase:
    """One batch. The pool has twice the blocks that it needs: other requests' are in between."""

    name: str
    title: str
    parts: tuple[CasePart, ...]
    block_size: int
    mask: MaskName = "causal"
    window: int = 0
    """Of the mask "window"."""
    lengths: tuple[int, ...] = ()
    """Tokens of each document of every request."""
    ranges: tuple[tuple[int, int], ...] = ()
    """Of "prefix LM", start and end of each, both included."""
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    dtype: str = "bfloat16"

    @property
    def torch_dtype(self) -> Any:
        """Return the torch dtype of queries, keys and values."""
        return getattr(torch, self.dtype)

    @property
    def requests(self) -> int:
        """Return the number of requests in the batch."""
        return sum(part.requests for part in self.parts)

    @property
    def query_tokens(self) -> int:
        """Return the number of queries in the batch."""
        return sum(part.requests * part.queries for part in self.parts)

    @property
    def is_causal(self) -> bool:
        """Return whether no query sees a later key."""
        return self.mask != "prefix LM"

    def sizes(self) -> Iterator[tuple[int, int]]:
        """Return (tokens, queries) of every request, in the batch's order."""
        for part in self.parts:
            yield from [(part.tokens, part.queries)] * part.requests

    def mask_of(self, requests: int) -> Mask:
        """Build the mask for this number of requests."""
        if self.mask == "window":
            return masks.sliding_window(self.window)
        if self.mask == "documents":
            return masks.document([self.lengths] * requests)
        if self.mask == "prefix LM":
            return masks.prefix_lm([self.ranges] * requests)
        return masks.causal()

    def visible(self, positions: np.ndarray) -> np.ndarray:
        """Count the keys that the queries at these positions see, int64."""
        # A query sees itself, so the first one sees one key.
        visible = positions.astype(np.int64) + 1
        if self.mask == "window":
            return np.minimum(visible, self.window)
        if self.mask == "documents":
            starts = np.cumsum([0, *self.lengths])
            return visible - starts[np.searchsorted(starts, positions, side="right") - 1]
        for start, end in self.ranges if self.mask == "prefix LM" else ():
            inside = (positions >= start) & (positions <= end)
            visible = np.where(inside, np.maximum(visible, end + 1), visible)
        return visible

    @property
    def flop(self) -> int:
        """Count the operations of the two products, for visible pairs only."""
        pairs = sum(
            part.requests
            * int(self.visible(np.arange(part.tokens - part.queries, part.tokens)).sum())
            for part in self.parts
        )
        return 4 * pairs * self.heads * self.head_dim

    @property
    def bytes(self) -> int:
        """Count the bytes of visible keys and values, queries and results, each once."""
        keys = 0
        for part in self.parts:
            # any query's keys: those of the first query, and what comes after it
            of_first = self.visible(np.array([part.tokens - part.queries]))
            keys += part.requests * min(part.tokens, part.queries - 1 + int(of_first[0]))
        vectors = keys * self.kv_heads + self.query_tokens * self.heads
        return 2 * vectors * self.head_dim * self.torch_dtype.itemsize

    @property
    def needed_bytes(self) -> int:
        """Estimate the memory that a run holds at once, including that of every peer."""
        element = self.torch_dtype.itemsize
        tokens = sum(round_up(tokens, self.block_size) for tokens, _ in self.sizes())
        kv = 2 * tokens * self.kv_heads * self.head_dim * element
        queries = self.query_tokens * self.heads * self.head_dim * (8 + 6 * element)
        # the engine's block lists are sorted as int64, SDPA's mask is whole
        lists = 6 * 8 * self.query_tokens * -(-max(t for t, _ in self.sizes()) // self.block_size)
        dense = max(3 * tokens * queries for tokens, queries in self.sizes())
        return _COPIES * kv + queries + lists + dense

    def fitted(self, free_bytes: int) -> "FlexCase":
        """Return the case, or the largest half, quarter ... that fits; ValueError if none does."""
        case, divisor, longest = self, 1, max(tokens for tokens, _ in self.sizes())
        while case.needed_bytes > free_bytes:
            if divisor > longest:
                needed = f"{self.name} needs {case.needed_bytes} bytes"
                raise ValueError(f"{needed}, {free_bytes} are free")
            divisor *= 2
            case = replace(self.divided(divisor), title=f"{self.title}, divided by {divisor}")
        return case

    def divided(self, by: int) -> "FlexCase":
        """Return the case with fewer requests, or with shorter ones if it has few requests."""

        def fewer(part: CasePart) -> CasePart:
            if part.requests >= by:
                return replace(part, requests=part.requests // by)
            tokens, queries = max(part.tokens // by, 1), max(part.queries // by, 1)
            return replace(part, tokens=tokens, queries=queries)

        parts = tuple(map(fewer, self.parts))
        if all(part.requests >= by for part in self.parts):
            return replace(self, parts=parts)
        return replace(
            self,
            parts=parts,
            window=max(self.window // by, 1) if self.window else 0,
            lengths=tuple(max(tokens // by, 1) for tokens in self.lengths),
            ranges=tuple((start // by, (end + 1) // by - 1) for start, end in self.ranges),
        )

    def reduced(self) -> "FlexCase":
        """Return the same shape in float32, small enough for Triton's interpreter."""
        by = max(_REDUCTION, max(part.queries for part in self.parts) // _FEW_QUERIES)
        single = replace(self, parts=tuple(replace(part, requests=1) for part in self.parts))
        small = single.divided(by)
        pairs = zip(small.parts, self.parts, strict=True)
        parts = tuple(replace(s, requests=min(p.requests, _FEW_REQUESTS)) for s, p in pairs)
        return replace(small, parts=parts, dtype="float32", heads=8, kv_heads=2, head_dim=32)


def _case(entry: dict[str, Any]) -> FlexCase:
    """Return an entry of flex_cases.json; a part is (requests, tokens, queries)."""
    parts = tuple(CasePart(*part) for part in entry.pop("parts"))
    lengths: tuple[int, ...] = tuple(entry.pop("lengths", ()))
    ranges: tuple[Any, ...] = tuple(map(tuple, entry.pop("ranges", ())))
    return FlexCase(parts=parts, lengths=lengths, ranges=ranges, **entry)


_FILE = Path(__file__).with_name("flex_cases.json")
_CASES = [_case(entry) for entry in json.loads(_FILE.read_text(encoding="utf-8"))]
CASES = {case.name: case for case in _CASES}
"""Name -> case; scores are geometric means over all of them."""
