"""Requests laid out on the pages of a cache: random pages, shuffled rows, garbage in between.

What a serving engine does over many steps, at once; for tests, labs and benchmarks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from workbench.kernels.mode import triton_mode
from workbench.kernels.paged_flex.heads import cache_views
from workbench.kernels.paged_flex.shapes import Layout, empty_cache
from workbench.kernels.paged_flex.work import DUMMY_REQUEST, PagedBatch, paged_batch

GARBAGE = 1_000_000
"""What a table's tail holds: no block of any cache here."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request's own numbers: neither its batch nor its pages change them.

    keys, values: [tokens, kv_heads, dim]; queries: [n, query_heads, dim] of its last n tokens.
    Values of another size are stored in the row of their key, or, in_key, are its first dims.
    """

    keys: torch.Tensor
    values: torch.Tensor
    queries: torch.Tensor
    in_key: bool = False

    @property
    def value_dim(self) -> int:
        """Return the dims of a value."""
        return self.values.shape[-1]

    def cut(self, tokens: int, queries: int) -> "Request":
        """Return the first `tokens`, with the last `queries` of them; needs all queries."""
        last = self.queries[tokens - queries : tokens]
        return Request(self.keys[:tokens], self.values[:tokens], last, self.in_key)


@dataclass(frozen=True, slots=True)
class PagedInputs:
    """What `paged_attention` takes: query, kv_cache, batch, value_dim."""

    query: torch.Tensor
    kv_cache: torch.Tensor
    batch: PagedBatch
    value_dim: int

    def tokens_of(self, row: int) -> slice:
        """Return the range of a batch row's tokens in the packed queries."""
        start, end = (int(place) for place in self.batch.query_start_loc[row : row + 2])
        return slice(start, end)


def random_request(
    tokens: int,
    queries: int,
    *,
    heads: int = 2,
    kv_heads: int = 1,
    dim: int = 16,
    value_dim: int | None = None,
    in_key: bool = False,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Request:
    """Draw a request of normal numbers on the CPU, the same for the same arguments.

    value_dim: `dim` if None; in_key: values are the first dims of the keys.
    """
    value_dim = dim if value_dim is None else value_dim
    random = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random).to(dtype)

    keys = draw(tokens, kv_heads, dim)
    values = keys[..., :value_dim] if in_key else draw(tokens, kv_heads, value_dim)
    return Request(keys, values, draw(queries, heads, dim), in_key)


def lay_out(
    requests: Sequence[Request],
    block_size: int,
    *,
    ratio: int = 1,
    layout: Layout = "NHD",
    seed: int = 0,
    spare: int = 3,
    dummies: Sequence[int] = (),
    padding: int = 0,
    poison: float = float("nan"),
    device: str | torch.device | None = None,
    place: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: tensor,
) -> PagedInputs:
    """Lay the requests out as one batch in a cache filled with `poison` wherever it is unused.

    block_size: of the cache, kernel blocks; one entry of the table covers `ratio` of them.
    dummies: batch rows without a request, of one token each. padding: queries after the last.
    Block 0 and the `spare` blocks stay unused. place: where query, cache and table go.
    """
    device = triton_mode().torch_device if device is None else device
    random = np.random.default_rng(seed)
    entry = block_size * ratio
    _, kv_heads, dim = requests[0].keys.shape
    value_dim, in_key = requests[0].value_dim, requests[0].in_key
    in_rows = in_key or value_dim != dim
    like, dtype = requests[0].queries, requests[0].keys.dtype
    counts = [-(-len(request.keys) // entry) for request in requests]
    num_blocks = sum(counts) + max(spare, 1)
    # from 1: block 0 is the null block
    pages = np.split(1 + random.permutation(num_blocks - 1), np.cumsum(counts))
    # one row more than requests, in random order: batch row and table row must not be confused
    table_rows = random.permutation(len(requests) + 1)
    table = np.full((len(requests) + 1, max(counts, default=0) + 2), GARBAGE, dtype=np.int32)
    cache = empty_cache(
        num_blocks * ratio,
        block_size,
        kv_heads,
        dim + value_dim * (in_rows and not in_key),
        dtype=dtype,
        layout=layout,
        device=device,
        fill=poison,
        in_rows=in_rows,
    )
    views, _ = cache_views(cache, dim, value_dim)
    queries, lengths, rows, taken = [], [], [], 0
    for i in range(len(requests) + len(dummies)):
        if i in dummies:
            queries.append(
                torch.full((1, *like.shape[1:]), poison, dtype=like.dtype, device=like.device)
            )
            lengths.append(0)
            rows.append(DUMMY_REQUEST)
            continue
        request, own, row = requests[taken], pages[taken], int(table_rows[taken])
        table[row, : len(own)] = own
        # kernel block and offset of every token; `ratio` kernel blocks share an entry
        part, token = np.divmod(np.arange(len(request.keys)), block_size)
        block = torch.from_numpy(own[part // ratio] * ratio + part % ratio).to(device)
        slot = torch.from_numpy(token).to(device)
        views.values[block, slot] = request.values.to(device)
        # the last to be written: values may be a part of them
        views.keys[block, slot] = request.keys.to(device)
        queries.append(request.queries)
        lengths.append(len(request.keys))
        rows.append(row)
        taken += 1
    starts = np.concatenate([[0], np.cumsum([len(query) for query in queries])])
    queries.append(
        torch.full((padding, *like.shape[1:]), poison, dtype=like.dtype, device=like.device)
    )
    placed = place(torch.from_numpy(table).to(device))
    batch = paged_batch(
        starts, lengths, placed, num_blocks=num_blocks, entry_tokens=entry, idx_mapping=rows
    )
    return PagedInputs(place(torch.cat(queries).to(device)), place(cache), batch, value_dim)
