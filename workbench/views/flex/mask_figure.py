"""A mask over the paged cache: logical, in physical order, and in the order of the visits."""

from collections.abc import Iterable

import plotly.graph_objects as go

from workbench.core.arithmetic import cdiv
from workbench.core.flex.build import EMPTY, FULL, PARTIAL, BlockLists, Visits
from workbench.core.flex.mask import MaskRule, PagedBatch
from workbench.views.frame import NAMED_ROWS, Cell, cells, cut_text, figure, step_text, steps
from workbench.views.palette import ATTENTION, ATTENTION_BEFORE, CURRENT, FAINT

MAX_ROWS = 40
MAX_COLUMNS = 64
MAX_CELLS = 1300
"""Longer axes are drawn in steps of several tokens, or cut where blocks are shown: every cell of
those carries its own words."""
TEXT_COLUMNS = 32
UNVISITED = "not visited"
LOOKS = {
    UNVISITED: (FAINT, ""),
    FULL: (ATTENTION, "●"),
    PARTIAL: (ATTENTION_BEFORE, "◐"),
    EMPTY: (CURRENT, "✕"),
}
"""What a visit was -> colour and sign."""
COLOURS = {kind: colour for kind, (colour, _sign) in LOOKS.items()}
SAID = {
    UNVISITED: "not visited",
    FULL: "every key visible to every query",
    PARTIAL: "some keys visible to some queries",
    EMPTY: "visited without any visible key",
}


def logical_mask(batch: PagedBatch, rule: MaskRule, theme: str = "auto") -> go.Figure:
    """Draw queries of every request down, its own keys across: the visible share. One trace."""
    longest = max(batch.seq_lens, default=1)
    columns = steps(0, longest, MAX_COLUMNS)
    rows = _query_steps(batch)
    shares = [
        [_seen_share(batch, rule, request, step, column) for column in columns]
        for request, step in rows
    ]
    pairs = sum(
        high - low
        for token in range(batch.num_tokens)
        for low, high in rule.of(batch.owners[token]).visible(
            batch.positions[token], batch.seq_lens[batch.owners[token]]
        )
    )
    shown = go.Heatmap(
        x=list(map(step_text, columns)),
        y=[f"request {request}, query {step_text(step)}" for request, step in rows],
        z=shares,
        zmin=0,
        zmax=1,
        colorscale=[(0.0, FAINT), (1.0, ATTENTION)],
        hovertemplate="<b>%{y}</b><br>keys %{x}<br>%{z:.0%} of the pairs are visible"
        "<extra></extra>",
        hoverongaps=False,
        colorbar={"title": {"text": "seen"}, "tickformat": ".0%", "len": 0.9},
        xgap=1,
        ygap=1,
    )
    title = f"<b>logical mask</b>: {pairs:,} pairs of query and key are visible"
    return _heatmap(theme, title, "key: position in the request", shown)


def physical_mask(batch: PagedBatch, visits: Visits, theme: str = "auto") -> go.Figure:
    """Draw groups of queries down, KV blocks in physical order across. One trace.

    Blocks that are never visited are omitted; the title says how many there are.
    """
    lists = visits.lists
    used = sorted({block for group in lists.visits for block in group})
    groups = range(min(len(lists.visits), MAX_ROWS))
    shown = used[: _columns(len(groups))]
    grid: list[list[Cell]] = []
    for group in groups:
        kinds = dict(zip(lists.visits[group], visits.kinds[group], strict=True))
        row: list[Cell] = []
        for block in shown:
            kind = kinds.get(block, UNVISITED)
            whose = _whose(batch, lists.kv_block_size, block)
            row.append((kind, LOOKS[kind][1], f"KV block {block}: {SAID[kind]}<br>{whose}"))
        grid.append(row)
    total = cdiv(batch.total_slots, lists.kv_block_size)
    title = (
        f"<b>physical mask</b>: {visits.visited:,} block visits, "
        f"{visits.wasted:,} without any visible key, "
        f"{visits.repeated:,} of a block that was loaded before; "
        f"{total - len(used):,} of {total:,} KV blocks are never visited"
        f"{cut_text(columns=len(used) - len(shown), groups=len(lists.visits) - MAX_ROWS)}"
    )
    across = f"KV block of {lists.kv_block_size} slots, in the order of the cache"
    drawn = _cells(grid, shown, _group_names(batch, lists))
    return _heatmap(theme, title, across, drawn)


def visit_order(batch: PagedBatch, visits: Visits, theme: str = "auto") -> go.Figure:
    """Draw groups of queries down, visits in order across, as KV block numbers. One trace."""
    lists = visits.lists
    groups = range(min(len(lists.visits), MAX_ROWS))
    longest = max(lists.counts, default=0)
    width = min(longest, _columns(len(groups)))
    grid: list[list[Cell]] = []
    for group in groups:
        visited = zip(lists.visits[group][:width], visits.kinds[group][:width], strict=True)
        row: list[Cell] = []
        for number, (block, kind) in enumerate(visited, 1):
            whose = _whose(batch, lists.kv_block_size, block)
            words = f"visit {number}: KV block {block}, {SAID[kind]}<br>{whose}"
            row.append((kind, f"{LOOKS[kind][1]}{block}", words))
        grid.append(row)
    cut = cut_text(columns=longest - width, groups=len(lists.visits) - MAX_ROWS)
    title = f"<b>order of the visits</b>: sums are added in this order{cut}"
    names, written = _group_names(batch, lists), width <= TEXT_COLUMNS
    drawn = _cells(grid, range(1, width + 1), names, written=written)
    return _heatmap(theme, title, "visit", drawn)


def _cells(
    grid: list[list[Cell]], columns: Iterable[int], names: list[str], *, written: bool = True
) -> go.Heatmap:
    hover = "<b>%{y}</b><br>%{customdata}<extra></extra>"
    named = {"x": list(map(str, columns)), "y": names}
    return cells(grid, COLOURS, written=written, hovertemplate=hover, ygap=2, **named)


def _heatmap(theme: str, title: str, across: str, trace: go.Heatmap) -> go.Figure:
    signs = " · ".join(f"{sign} {SAID[kind]}" for kind, (_colour, sign) in LOOKS.items() if sign)
    legend = "" if trace.showscale is not False else f"<br><sub>{signs}</sub>"
    return figure(
        trace,
        title + legend,
        theme,
        height=230 + 22 * len(trace.y),
        margin={"t": 90, "b": 60, "l": 150},
        x={"title": across, "type": "category", "showgrid": False},
        y=NAMED_ROWS,
    )


def _query_steps(batch: PagedBatch) -> list[tuple[int, range]]:
    """Return positions of the new tokens, request by request, in at most MAX_ROWS rows."""
    per_request = max(1, MAX_ROWS // max(1, len(batch.rows)))
    rows = [
        (request, step)
        for request, (count, length) in enumerate(
            zip(batch.query_lens, batch.seq_lens, strict=True)
        )
        for step in steps(length - count, length, per_request)
    ]
    return rows[:MAX_ROWS]


def _seen_share(
    batch: PagedBatch, rule: MaskRule, request: int, queries: range, keys: range
) -> float | None:
    """Return the share of the pairs that are visible; None past the end of the request."""
    length = batch.seq_lens[request]
    if keys.start >= length:
        return None
    visible = sum(
        max(0, min(high, keys.stop) - max(low, keys.start))
        for query in queries
        for low, high in rule.of(request).visible(query, length)
    )
    pairs = len(queries) * (min(keys.stop, length) - keys.start)
    return round(visible / pairs, 4)


def _group_names(batch: PagedBatch, lists: BlockLists) -> list[str]:
    names = []
    size = lists.q_block_size
    for group in range(min(len(lists.visits), MAX_ROWS)):
        owners = batch.owners[group * size : (group + 1) * size]
        first, last = owners[0], owners[-1]
        whose = f"request {first}" if first == last else f"requests {first}-{last}"
        names.append(f"group {group}: {whose}")
    return names


def _whose(batch: PagedBatch, kv_block_size: int, block: int) -> str:
    """Return which requests own the slots of a KV block."""
    ends = (block * kv_block_size, (block + 1) * kv_block_size - 1)
    cache_blocks = {slot // batch.block_size for slot in ends}
    owners = [
        str(request)
        for request, places in enumerate(batch.places)
        if any(physical in cache_blocks for physical, _logical in places)
    ]
    return f"of request {', '.join(owners[:4])}" if owners else "of no request in this batch"


def _columns(rows: int) -> int:
    return min(MAX_COLUMNS, MAX_CELLS // max(1, rows))
