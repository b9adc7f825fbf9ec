"""A mask over the paged cache: logical, in physical order, and in the order of the visits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import plotly.graph_objects as go

from workbench.core.arithmetic import cdiv
from workbench.core.flex.build import EMPTY, FULL, PARTIAL, Visits
from workbench.core.flex.mask import MaskRule, PagedBatch
from workbench.views.palette import (
    ATTENTION,
    ATTENTION_BEFORE,
    CURRENT,
    THEMES,
)

MAX_ROWS = 40
MAX_COLUMNS = 64
MAX_CELLS = 1300
"""Longer axes are drawn in steps of several tokens, or cut where blocks are shown: every cell of
those carries its own words."""
TEXT_COLUMNS = 32
UNVISITED = "not visited"
LOOKS = {
    UNVISITED: ("rgba(128,128,128,0.12)", ""),
    FULL: (ATTENTION, "●"),
    PARTIAL: (ATTENTION_BEFORE, "◐"),
    EMPTY: (CURRENT, "✕"),
}
"""What a visit was -> colour and sign."""
SAID = {
    UNVISITED: "not visited",
    FULL: "every key visible to every query",
    PARTIAL: "some keys visible to some queries",
    EMPTY: "visited without any visible key",
}


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of an axis: from `start` (inclusive) to `end` (exclusive)."""

    start: int
    end: int

    def __str__(self) -> str:
        return str(self.start) if self.end == self.start + 1 else f"{self.start}-{self.end - 1}"


def logical_mask(batch: PagedBatch, rule: MaskRule, theme: str = "auto") -> go.Figure:
    """Draw queries of every request down, its own keys across: the visible share. One trace."""
    longest = max(batch.seq_lens, default=1)
    columns = _steps(0, longest, MAX_COLUMNS)
    rows = _query_steps(batch)
    shares = [
        [_seen_share(batch, rule, request, step, column) for column in columns]
        for request, step in rows
    ]
    names = [f"request {request}, query {step}" for request, step in rows]
    pairs = sum(
        high - low
        for token in range(batch.num_tokens)
        for low, high in rule.of(batch.owners[token]).visible(
            batch.positions[token], batch.seq_lens[batch.owners[token]]
        )
    )
    words = "<b>%{y}</b><br>keys %{x}<br>%{z:.0%} of the pairs are visible<extra></extra>"
    title = f"<b>logical mask</b>: {pairs:,} pairs of query and key are visible"
    return _heatmap(
        theme,
        title,
        ("key: position in the request", names),
        go.Heatmap(
            x=[str(column) for column in columns],
            y=names,
            z=shares,
            zmin=0,
            zmax=1,
            colorscale=[(0.0, "rgba(128,128,128,0.12)"), (1.0, ATTENTION)],
            hovertemplate=words,
            hoverongaps=False,
            colorbar={"title": {"text": "seen"}, "tickformat": ".0%", "len": 0.9},
            xgap=1,
            ygap=1,
        ),
    )


def physical_mask(batch: PagedBatch, visits: Visits, theme: str = "auto") -> go.Figure:
    """Draw groups of queries down, KV blocks in physical order across. One trace.

    Blocks that are never visited are omitted; the title says how many there are.
    """
    lists = visits.lists
    used = sorted({block for group in lists.visits for block in group})
    groups = range(min(len(lists.visits), MAX_ROWS))
    shown = used[: _columns(len(groups))]
    kinds = [dict(zip(lists.visits[group], visits.kinds[group], strict=True)) for group in groups]
    cells = [[row.get(block, UNVISITED) for block in shown] for row in kinds]
    words = [
        [
            f"KV block {block}: {SAID[kind]}{_whose(batch, lists.kv_block_size, block)}"
            for block, kind in zip(shown, row, strict=True)
        ]
        for row in cells
    ]
    total = cdiv(batch.total_slots, lists.kv_block_size)
    title = (
        f"<b>physical mask</b>: {visits.visited:,} block visits, "
        f"{visits.wasted:,} without any visible key, "
        f"{visits.repeated:,} of a block that was loaded before; "
        f"{total - len(used):,} of {total:,} KV blocks are never visited"
        f"{_cut(len(used) - len(shown), len(lists.visits))}"
    )
    names = [_group_name(batch, lists.q_block_size, group) for group in groups]
    columns = [str(block) for block in shown]
    return _heatmap(
        theme,
        title,
        (f"KV block of {lists.kv_block_size} slots, in the order of the cache", names),
        _kinds(columns, names, cells, words, [[LOOKS[kind][1] for kind in row] for row in cells]),
    )


def visit_order(batch: PagedBatch, visits: Visits, theme: str = "auto") -> go.Figure:
    """Draw groups of queries down, visits in order across, as KV block numbers. One trace."""
    lists = visits.lists
    groups = range(min(len(lists.visits), MAX_ROWS))
    longest = max(lists.counts, default=0)
    width = min(longest, _columns(len(groups)))
    cells: list[list[str | None]] = []
    words, numbers = [], []
    for group in groups:
        blocks, kinds = lists.visits[group][:width], visits.kinds[group][:width]
        spare = width - len(blocks)
        cells.append([*kinds, *[None] * spare])
        numbers.append([*(f"{LOOKS[k][1]}{b}" for b, k in zip(blocks, kinds, strict=True))])
        numbers[-1] += [""] * spare
        words.append(
            [
                f"visit {index}: KV block {block}, {SAID[kind]}"
                f"{_whose(batch, lists.kv_block_size, block)}"
                for index, (block, kind) in enumerate(zip(blocks, kinds, strict=True), 1)
            ]
            + [""] * spare
        )
    title = (
        f"<b>order of the visits</b>: sums are added in this order"
        f"{_cut(longest - width, len(lists.visits))}"
    )
    names = [_group_name(batch, lists.q_block_size, group) for group in groups]
    columns = [str(index + 1) for index in range(width)]
    texts = numbers if width <= TEXT_COLUMNS else None
    return _heatmap(
        theme,
        title,
        ("visit", names),
        _kinds(columns, names, cells, words, texts),
    )


def _kinds(
    columns: Sequence[str],
    names: Sequence[str],
    cells: Sequence[Sequence[str | None]],
    words: Sequence[Sequence[str]],
    texts: Sequence[Sequence[str]] | None,
) -> go.Heatmap:
    order = tuple(LOOKS)
    count = len(order)
    return go.Heatmap(
        x=columns,
        y=list(names),
        z=[[None if kind is None else order.index(kind) for kind in row] for row in cells],
        text=texts,
        texttemplate=None if texts is None else "%{text}",
        customdata=words,
        hovertemplate="<b>%{y}</b><br>%{customdata}<extra></extra>",
        hoverongaps=False,
        zmin=-0.5,
        zmax=count - 0.5,
        colorscale=[
            (edge, LOOKS[kind][0])
            for index, kind in enumerate(order)
            for edge in (index / count, (index + 1) / count)
        ],
        showscale=False,
        xgap=1,
        ygap=2,
    )


def _heatmap(
    theme: str, title: str, axes: tuple[str, Sequence[str]], trace: go.Heatmap
) -> go.Figure:
    across, names = axes
    signs = " · ".join(f"{sign} {SAID[kind]}" for kind, (_colour, sign) in LOOKS.items() if sign)
    legend = "" if trace.showscale is not False else f"<br><sub>{signs}</sub>"
    return go.Figure(
        trace,
        layout={
            "height": 230 + 22 * len(names),
            "margin": {"t": 90, "b": 60, "l": 150},
            "title": {
                "text": title + legend,
                "x": 0,
                "xref": "paper",
                "font": {"size": 15},
            },
            **THEMES[theme].surface,
            "xaxis": {"title": {"text": across}, "type": "category", "showgrid": False},
            "yaxis": {"autorange": "reversed", "type": "category", "showgrid": False},
        },
    )


def _steps(start: int, end: int, count: int) -> list[_Step]:
    width = max(1, cdiv(end - start, count))
    return [_Step(low, min(low + width, end)) for low in range(start, end, width)]


def _query_steps(batch: PagedBatch) -> list[tuple[int, _Step]]:
    """Return positions of the new tokens, request by request, in at most MAX_ROWS rows."""
    per_request = max(1, MAX_ROWS // max(1, len(batch.rows)))
    rows = [
        (request, step)
        for request, (count, length) in enumerate(
            zip(batch.query_lens, batch.seq_lens, strict=True)
        )
        for step in _steps(length - count, length, per_request)
    ]
    return rows[:MAX_ROWS]


def _seen_share(
    batch: PagedBatch, rule: MaskRule, request: int, queries: _Step, keys: _Step
) -> float | None:
    """Return the share of the pairs that are visible; None past the end of the request."""
    length = batch.seq_lens[request]
    if keys.start >= length:
        return None
    visible = sum(
        max(0, min(high, keys.end) - max(low, keys.start))
        for query in range(queries.start, queries.end)
        for low, high in rule.of(request).visible(query, length)
    )
    pairs = (queries.end - queries.start) * (min(keys.end, length) - keys.start)
    return round(visible / pairs, 4)


def _group_name(batch: PagedBatch, q_block_size: int, group: int) -> str:
    owners = batch.owners[group * q_block_size : (group + 1) * q_block_size]
    requests = [request for request, _tokens in groupby(owners)]
    first, last = requests[0], requests[-1]
    whose = f"request {first}" if first == last else f"requests {first}-{last}"
    return f"group {group}: {whose}"


def _whose(batch: PagedBatch, kv_block_size: int, block: int) -> str:
    """Return which requests own the slots of a KV block."""
    size = batch.block_size
    cache_blocks = {
        slot // size for slot in (block * kv_block_size, (block + 1) * kv_block_size - 1)
    }
    owners = [
        request
        for request, places in enumerate(batch.places)
        if any(physical in cache_blocks for physical, _logical in places)
    ]
    if not owners:
        return "<br>of no request in this batch"
    return f"<br>of request {', '.join(map(str, owners[:4]))}"


def _columns(rows: int) -> int:
    return min(MAX_COLUMNS, MAX_CELLS // max(1, rows))


def _cut(columns: int, groups: int) -> str:
    """Return what is omitted: the number of columns, and the groups after the last row."""
    left = [
        f"{columns:,} more columns" if columns else "",
        f"{groups - MAX_ROWS:,} more groups" if groups > MAX_ROWS else "",
    ]
    more = ", ".join(filter(None, left))
    return f" ({more})" if more else ""
