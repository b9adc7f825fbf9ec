"""The programs of one step: tiles of queries, the keys of each, and what is added up afterwards.

A tile whose request has too few of them to fill the device is split along the keys that its mask
shows. Whether and where depends on the request, the model and the device, never on the batch
(unless `Settings.by_batch` is set), so a request's bits do not depend on its batch either.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workbench.kernels.paged_flex.masks import Mask
from workbench.kernels.paged_flex.settings import Settings, Tile
from workbench.kernels.paged_flex.work import PagedBatch

Ints = NDArray[np.int64]
NO_PARTIAL = -1
"""Of a program that writes its result to `out`."""

DECODES_AT_ONCE = 2
"""Decode tiles, smaller than those of a prefill, that a multiprocessor works on at a time."""

COMBINE_SPLITS = 64
"""Partials that one program adds one after the other; longer lists take two levels, except where
the order of a prefill's sums has to be kept."""


@dataclass(frozen=True, slots=True)
class Launched:
    """The programs of one attend launch, for one KV head.

    items: [programs, 5] batch row, first token of the tile, first key, key after the last, partial
    that is written or NO_PARTIAL; int32. The keys begin at a multiple of the tile's block_n.
    """

    tile: Tile
    items: NDArray[np.int32]
    fold_tokens: int
    """Keys are added up in splits of so many, from the request's first token on; 0: without."""


@dataclass(frozen=True, slots=True)
class Work:
    """The programs of one step, for one KV head."""

    attend: tuple[Launched, ...]
    combine: tuple[NDArray[np.int32], ...]
    """Per launch, [tokens, 5] place in `out`, place in its tile, first partial, number of
    partials, partial that is written or NO_PARTIAL."""
    partials: int
    """Of one KV head: unnormalised sums of a tile over one split."""
    partial_tokens: int
    """The most queries that a tile with partials has."""

    @property
    def metadata_bytes(self) -> int:
        """Return the bytes of the lists, which grow with the batch, never with the cache."""
        lists = [*(launched.items for launched in self.attend), *self.combine]
        return sum(items.nbytes for items in lists)


@dataclass(frozen=True, slots=True)
class _Tiles:
    """Every tile of queries of a batch, [tiles] int64 each: its class, its place, its keys."""

    is_decode: NDArray[np.bool_]
    row: Ints
    first: Ints
    tokens: Ints
    siblings: Ints
    """Tiles of the same request."""
    near_end: Ints
    low: Ints
    high: Ints

    @property
    def keys(self) -> Ints:
        """Return the keys between the ends of the span, the measure of a tile's work."""
        return self.near_end + self.high - self.low


def work_of(
    batch: PagedBatch, settings: Settings, mask: Mask, *, group: int, kv_heads: int
) -> Work:
    """Cut a batch into tiles and splits; the longest programs of a launch come first."""
    tiles = _tiles(batch, settings, mask, group)
    length = _split_tokens(tiles, settings, kv_heads)
    # splits are counted from the request's first token; those without a visible key are omitted
    first_far = tiles.low // np.maximum(length, 1)
    near = np.minimum(_ceil(tiles.near_end, length), first_far)
    splits = near + _ceil(tiles.high, length) - first_far
    whole = (length == 0) | (splits <= 1)
    splits = np.where(whole, 1, splits)

    tile, number = _spread(splits)
    number = np.where(number < near[tile], number, number - near[tile] + first_far[tile])
    begin = np.where(whole[tile], 0, number * length[tile])
    end = np.where(whole[tile], tiles.high[tile], begin + length[tile])
    # of all programs those of split tiles, in the order of their tiles, have a partial each
    is_partial = ~whole[tile]
    partial = np.where(is_partial, np.cumsum(is_partial) - 1, NO_PARTIAL)
    keys = np.where(is_partial, length[tile], tiles.keys[tile])
    items = np.stack([tiles.row[tile], tiles.first[tile], begin, end, partial], axis=1)

    launches = []
    fold = int(length.max(initial=settings.split_tokens)) if settings.one_path else 0
    for tile_size, chosen, fold_tokens in _launches(settings, tiles.is_decode[tile], whole[tile]):
        # stable: the same batch gives the same order of programs
        order = np.flatnonzero(chosen)[np.argsort(-keys[chosen], kind="stable")]
        if len(order):
            own = items[order].astype(np.int32)
            launches.append(Launched(tile_size, own, fold if fold_tokens else 0))
    split = np.flatnonzero(~whole)
    levels, partials = _combine(batch, tiles, split, splits[split], keep_order=settings.one_path)
    widest = int(tiles.tokens[split].max(initial=0))
    return Work(tuple(launches), levels, partials, widest)


def _tiles(batch: PagedBatch, settings: Settings, mask: Mask, group: int) -> _Tiles:
    counts, lengths = batch.query_lens.astype(np.int64), batch.seq_lens.astype(np.int64)
    is_decode = np.zeros(len(counts), dtype=bool)
    # the heads of a group share a tile: they read the same keys
    size = np.full(len(counts), settings.prefill.block_m // group)
    if settings.decode is not None:
        # also a few queries, as speculative decoding has, if they fit into one decode tile
        is_decode = counts <= settings.decode.block_m // group
        size[is_decode] = settings.decode.block_m // group
    number = _ceil(counts, size)
    row, place = _spread(number)
    first = place * size[row]
    tokens = np.minimum(size[row], counts[row] - first)
    start = lengths[row] - counts[row] + first
    # a dummy request, of length 0, has its queries before the start of its row
    queries = np.maximum(start, 0), np.maximum(start + tokens - 1, 0)
    near_end, low, high = mask.visible(*queries, lengths[row], row)
    return _Tiles(
        is_decode=is_decode[row],
        row=row,
        first=first,
        tokens=tokens,
        siblings=number[row],
        near_end=near_end,
        low=low,
        high=high,
    )


def _split_tokens(tiles: _Tiles, settings: Settings, kv_heads: int) -> Ints:
    """Return the keys of every tile's splits, 0 where it is not split."""
    # every program is launched once per KV head
    is_smaller = tiles.is_decode & (settings.decode != settings.prefill)
    room = settings.fill_programs * np.where(is_smaller, DECODES_AT_ONCE, 1)
    parts = room // (tiles.siblings * kv_heads)
    unit = settings.split_tokens
    if settings.by_batch:
        unit = max(tile.block_n for tile in (settings.prefill, settings.decode) if tile)
        programs = max(settings.by_batch // kv_heads, 1)
        chosen = _ceil(tiles.keys.sum() * np.ones_like(parts), np.int64(programs))
    elif settings.one_path:
        # bits of prefill and decode: both add up in the same splits
        chosen = np.full_like(parts, unit)
    else:
        chosen = _ceil(tiles.keys, np.maximum(parts, 1))
    chosen = np.maximum(_ceil(chosen, np.int64(unit)) * unit, unit)
    # two parts at least: a split that fills no more of the device only costs
    return np.where(parts >= 2, chosen, 0)


def _launches(
    settings: Settings, is_decode: NDArray[np.bool_], whole: NDArray[np.bool_]
) -> list[tuple[Tile, NDArray[np.bool_], bool]]:
    """Return (tile, its programs, whether they add up in splits) of every launch."""
    classes = [(settings.prefill, ~is_decode), (settings.decode or settings.prefill, is_decode)]
    if settings.decode == settings.prefill:
        classes = [(settings.prefill, is_decode | True)]
    if not (settings.one_path and settings.split_tokens):
        return [(tile, chosen, False) for tile, chosen in classes]
    # one program adds the splits in the order of those that are combined afterwards
    return [
        (tile, chosen & part, part is whole) for tile, chosen in classes for part in (whole, ~whole)
    ]


def _combine(
    batch: PagedBatch, tiles: _Tiles, split: Ints, counts: Ints, *, keep_order: bool
) -> tuple[tuple[NDArray[np.int32], ...], int]:
    """Return the launches that add partials up, and the number of partials with their sums."""
    partials = int(counts.sum())
    if not len(split):
        return (), 0
    first = np.cumsum(counts) - counts
    target = np.full_like(first, NO_PARTIAL)
    levels = []
    long = (counts > COMBINE_SPLITS) & (not keep_order)
    if long.any():
        groups = _ceil(counts[long], np.int64(COMBINE_SPLITS))
        owner, number = _spread(groups)
        begin = first[long][owner] + number * COMBINE_SPLITS
        amount = np.minimum(counts[long][owner] - number * COMBINE_SPLITS, COMBINE_SPLITS)
        sums = partials + np.arange(len(owner))
        levels.append(_by_token(batch, tiles, split[long][owner], begin, amount, sums))
        first[long] = partials + np.cumsum(groups) - groups
        counts = np.where(long, 0, counts)
        counts[long] = groups
        partials += len(owner)
    levels.append(_by_token(batch, tiles, split, first, counts, target))
    return tuple(levels), partials


def _by_token(
    batch: PagedBatch, tiles: _Tiles, tile: Ints, first: Ints, counts: Ints, target: Ints
) -> NDArray[np.int32]:
    """Return one program for every token of the tiles."""
    owner, place = _spread(tiles.tokens[tile])
    out = batch.query_start_loc[tiles.row[tile]] + tiles.first[tile]
    columns = [out[owner] + place, place, first[owner], counts[owner], target[owner]]
    return np.stack(columns, axis=1).astype(np.int32)


def _spread(counts: Ints) -> tuple[Ints, Ints]:
    """Return every index i counts[i] times, with 0, 1, ... counts[i] - 1."""
    index = np.repeat(np.arange(len(counts)), counts)
    # cumulative counts turn a running number into a number within its index
    return index, np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)


def _ceil(number: Ints, divisor: Ints | np.int64) -> Ints:
    """Return number / divisor rounded up; 0 where the divisor is 0."""
    return np.where(divisor == 0, 0, -(-number // np.maximum(divisor, 1)))
