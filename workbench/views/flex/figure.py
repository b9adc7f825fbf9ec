"""Nested grids of flex attention, which mask blocks go with which tiles, and the mask's memory."""

from collections import Counter
from itertools import islice, product
from typing import Any

import plotly.graph_objects as go

from workbench.core.flex import legality
from workbench.core.flex.plan import FlexPlan, mask_memory
from workbench.core.plan import Plan
from workbench.views import palette
from workbench.views.frame import NAMED_ROWS, cells, curve, figure
from workbench.views.palette import ATTENTION, CURRENT, RECURRENT
from workbench.views.units import bytes_text

MAX_LINES = 160
"""More lines of one grid are not drawn."""
MAX_TILES = 1500
CACHE_BLOCKS = 2
LOOKS = {
    legality.DIRECT: (palette.RECURRENT, "D"),
    legality.GENERIC: (palette.ATTENTION_BEFORE, "G"),
    legality.SMALL: (palette.CONV, "!"),
    legality.TOO_LARGE: (palette.ATTENTION, "M"),
    legality.ILLEGAL: (palette.CURRENT, "✕"),
    legality.REFUSED: (palette.PADDING, "o"),
}
"""Verdict -> colour and letter."""


def nested_grids(flex: FlexPlan, theme: str = "auto") -> go.Figure:
    """Draw tile in mask block in cache block, to scale: keys across, queries down. 4 traces.

    Two cache blocks are drawn, so that a mask block that does not fit into one is seen to cross.
    """
    q, kv = flex.mask.q_block_size, flex.mask.kv_block_size
    width, height = CACHE_BLOCKS * flex.cache_block_size, max(q, 1)
    size, cache = (width, height), flex.cache_block_size
    n, m = (flex.tiles.block_n, flex.tiles.block_m) if flex.tiles else (0, 0)
    tile = f"tile: {m} x {n}" if flex.tiles else "tile: none"
    return figure(
        [
            _tiles(flex, width, height),
            _grid(tile, (n, m), size, (1, "dot", palette.ATTENTION_BEFORE)),
            _grid(f"mask block: {q} x {kv}", (kv, q), size, (2, "dash", palette.CURRENT)),
            _grid(f"cache block: {cache}", (cache, height), size, (4, "solid", palette.ATTENTION)),
        ],
        _title(flex),
        theme,
        height=330,
        margin={"t": 70, "b": 110},
        x={
            "title": f"slots of {CACHE_BLOCKS} cache blocks, in tokens",
            "showgrid": False,
            "range": [-0.01 * width, 1.01 * width],
        },
        y={
            "title": "queries, in tokens",
            "showgrid": False,
            "range": [1.04 * height, -0.04 * height],
        },
    )


def _grid(
    name: str, step: tuple[int, int], size: tuple[int, int], line: tuple[int, str, str]
) -> go.Scatter:
    """Draw lines every `step` (across, down) tokens, none for 0. line: width, dash, colour."""
    (across, down), (width, height), (thickness, dash, colour) = step, size, line
    xs: list[float | None] = []
    ys: list[float | None] = []
    if across > 0 and down > 0:
        for x in range(0, min(width, across * MAX_LINES) + 1, across):
            xs += [x, x, None]
            ys += [0, height, None]
        for y in range(0, min(height, down * MAX_LINES) + 1, down):
            xs += [0, width, None]
            ys += [y, y, None]
    return go.Scatter(
        x=xs,
        y=ys,
        mode="lines",
        name=name,
        line={"width": thickness, "dash": dash, "color": colour},
        hoverinfo="skip",
    )


def _tiles(flex: FlexPlan, width: int, height: int) -> go.Scatter:
    """Draw an invisible point in every tile, for its hover text."""
    corners: list[tuple[int, int]] = []
    words: list[str] = []
    m, n = (flex.tiles.block_m, flex.tiles.block_n) if flex.tiles else (0, 0)
    if m > 0 and n > 0:
        every = product(range(0, height, m), range(0, width, n))
        corners = list(islice(every, MAX_TILES))
        words = [
            f"tile: keys {x} to {x + n - 1}<br>mask block {x // flex.mask.kv_block_size}, "
            f"cache block {x // flex.cache_block_size}"
            for _y, x in corners
        ]
    return go.Scatter(
        x=[x + n / 2 for _y, x in corners],
        y=[y + m / 2 for y, _x in corners],
        customdata=words,
        mode="markers",
        marker={"opacity": 0, "size": 12},
        hovertemplate="%{customdata}<extra></extra>",
        showlegend=False,
    )


def _title(flex: FlexPlan) -> str:
    mask = f"mask block {flex.mask.q_block_size} x {flex.mask.kv_block_size}"
    cache = f"cache block {flex.cache_block_size}"
    if flex.tiles is None:
        return f"<b>✕ no tile</b>: {mask} is refused, {cache}"
    tile = f"tile {flex.tiles.block_m} x {flex.tiles.block_n}"
    sign = "✕" if flex.refusals else "✓"
    return f"<b>{sign} {tile} in {mask} in {cache}</b>, {flex.build} build"


def legal_pairs(flex: FlexPlan, theme: str = "auto") -> go.Figure:
    """Draw mask blocks down, tiles across, with the verdict of each pair and its reason on hover.

    The first column leaves the tile to the engine. A frame marks the plan's own pair. One trace.
    """
    own = (flex.mask.q_block_size, flex.mask.kv_block_size)
    masks = legality.combinations(own)
    own_tile = (flex.fields.block_m, flex.fields.block_n)
    tiles: tuple[Any, ...] = ((None, None), *legality.combinations(_known(own_tile)))
    if own_tile not in tiles:
        tiles = (*tiles, own_tile)
    judged = legality.legality(flex, masks, tiles)
    found = Counter(verdict.kind for row in judged for verdict in row)
    row, column = masks.index(own), tiles.index(own_tile)
    legal = sum(verdict.legal for line in judged for verdict in line)
    words = [f"{LOOKS[kind][1]} {legality.KINDS[kind]} ({found[kind]})" for kind in LOOKS]
    legend = "<br>".join(" · ".join(pair) for pair in zip(words[::2], words[1::2], strict=True))
    drawn = cells(
        [
            [(verdict.kind, LOOKS[verdict.kind][1], verdict.reason) for verdict in line]
            for line in judged
        ],
        {kind: colour for kind, (colour, _letter) in LOOKS.items()},
        x=[_pair(pair) for pair in tiles],
        y=[_pair(pair) for pair in masks],
        hovertemplate="mask block %{y}, tile %{x}<br>%{customdata}<extra></extra>",
    )
    drawn_figure = figure(
        drawn,
        f"<b>{legal} of {sum(found.values())} pairs run</b> over cache blocks of "
        f"{flex.cache_block_size}<br><sub>{legend}</sub>",
        theme,
        height=250 + 20 * len(masks),
        margin={"t": 140, "l": 90, "b": 90},
        x={"title": "tile: block_m x block_n", "type": "category"},
        y={**NAMED_ROWS, "title": "mask block: q x kv"},
    )
    corners = {"x0": column - 0.5, "x1": column + 0.5, "y0": row - 0.5, "y1": row + 0.5}
    return drawn_figure.add_shape(
        type="rect", line={"color": palette.THEMES[theme].text, "width": 3}, **corners
    )


def _known(pair: tuple[int | None, int | None]) -> tuple[int, int] | None:
    m, n = pair
    return None if m is None or n is None else (m, n)


def _pair(pair: tuple[int | None, int | None]) -> str:
    return " x ".join("auto" if size is None else str(size) for size in pair)


BLOCKS = tuple(2**power for power in range(6, 21))
"""Sizes of the pool that are drawn."""


def mask_memory_figure(plan: Plan, flex: FlexPlan, theme: str = "auto") -> go.Figure:
    """Draw the bytes of the buffers and the pairs of the generic build over the pool. 3 traces."""
    found = [mask_memory(plan, flex, blocks) for blocks in BLOCKS]
    lines = (
        ("inverse table: requests x blocks", [f.inverse_table_bytes for f in found]),
        ("KV block lists: queries x longest request", [f.kv_indices_bytes for f in found]),
    )
    looks = ((CURRENT, "solid", "square"), (ATTENTION, "dash", "circle"))
    traces = [
        curve(
            name,
            BLOCKS,
            sizes,
            look,
            customdata=[bytes_text(size) for size in sizes],
            hovertemplate=f"{name}<br>%{{x:,}} blocks: %{{customdata}}<extra></extra>",
        )
        for (name, sizes), look in zip(lines, looks, strict=True)
    ]
    pairs = curve(
        "pairs of the generic build, one byte each",
        BLOCKS,
        [f.pairs for f in found],
        (RECURRENT, "dot", "diamond"),
        hovertemplate="%{x:,} blocks: %{y:,} pairs of query and slot<extra></extra>",
    )
    assumed = plan.settings.max_num_seqs is None
    return figure(
        [*traces, pairs],
        "<b>what the mask keeps grows with the whole pool</b>, used or not"
        + (f"; {plan.max_num_seqs:,} requests assumed" if assumed else ""),
        theme,
        plan=plan,
        height=380,
        margin={"t": 70, "b": 120},
        x={"type": "log", "title": "blocks in the pool"},
        y={"type": "log", "title": "bytes, per rank"},
    )
