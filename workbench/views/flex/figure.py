"""Three nested grids of flex attention, and which mask blocks go with which tiles."""

from __future__ import annotations

from collections import Counter
from itertools import islice, product
from typing import Any, NamedTuple

import plotly.graph_objects as go

from workbench.core.flex.legality import (
    DIRECT,
    GENERIC,
    ILLEGAL,
    KINDS,
    REFUSED,
    SMALL,
    TOO_LARGE,
    combinations,
    legality,
)
from workbench.core.flex.plan import FlexPlan
from workbench.views.palette import (
    ATTENTION,
    ATTENTION_BEFORE,
    CONV,
    CURRENT,
    LEGEND_BELOW,
    PADDING,
    RECURRENT,
    THEMES,
)

MAX_LINES = 160
"""More lines of one grid are not drawn."""
MAX_TILES = 1500
CACHE_BLOCKS = 2
LOOKS = {
    DIRECT: (RECURRENT, "D"),
    GENERIC: (ATTENTION_BEFORE, "G"),
    SMALL: (CONV, "!"),
    TOO_LARGE: (ATTENTION, "M"),
    ILLEGAL: (CURRENT, "✕"),
    REFUSED: (PADDING, "o"),
}
"""Verdict -> colour and letter."""


def nested_grids(flex: FlexPlan, theme: str = "auto") -> go.Figure:
    """Draw tile in mask block in cache block, to scale: keys across, queries down. 4 traces.

    Two cache blocks are drawn, so that a mask block that does not fit into one is seen to cross.
    """
    colours = THEMES[theme]
    q, kv = flex.mask.q_block_size, flex.mask.kv_block_size
    width, height = CACHE_BLOCKS * flex.cache_block_size, max(q, 1)
    size, cache = (width, height), flex.cache_block_size
    n, m = (flex.tiles.block_n, flex.tiles.block_m) if flex.tiles else (0, 0)
    tile = f"tile: {m} x {n}" if flex.tiles else "tile: none"
    return go.Figure(
        [
            _tiles(flex, width, height),
            _grid(tile, (n, m), size, _Line(1, "dot", ATTENTION_BEFORE)),
            _grid(f"mask block: {q} x {kv}", (kv, q), size, _Line(2, "dash", CURRENT)),
            _grid(f"cache block: {cache}", (cache, height), size, _Line(4, "solid", ATTENTION)),
        ],
        layout={
            "height": 330,
            "margin": {"t": 70, "b": 110},
            "title": {"text": _title(flex), "x": 0, "xref": "paper", "font": {"size": 15}},
            **colours.surface,
            "legend": LEGEND_BELOW,
            "xaxis": {
                "title": {"text": f"slots of {CACHE_BLOCKS} cache blocks, in tokens"},
                "showgrid": False,
                "zeroline": False,
                "range": [-0.01 * width, 1.01 * width],
            },
            "yaxis": {
                "title": {"text": "queries, in tokens"},
                "showgrid": False,
                "zeroline": False,
                "range": [1.04 * height, -0.04 * height],
            },
        },
    )


class _Line(NamedTuple):
    """Style of the lines of one grid."""

    width: int
    dash: str
    colour: str


def _grid(name: str, step: tuple[int, int], size: tuple[int, int], line: _Line) -> go.Scatter:
    """Draw lines every `step` (across, down) tokens; a step of None gives a trace without lines."""
    (across, down), (width, height) = step, size
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
        line={"width": line.width, "dash": line.dash, "color": line.colour},
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
    colours = THEMES[theme]
    own = (flex.mask.q_block_size, flex.mask.kv_block_size)
    masks = combinations(own)
    own_tile = (flex.fields.block_m, flex.fields.block_n)
    tiles: tuple[Any, ...] = ((None, None), *combinations(_known(own_tile)))
    if own_tile not in tiles:
        tiles = (*tiles, own_tile)
    judged = legality(flex, masks, tiles)
    order = tuple(LOOKS)
    found = Counter(verdict.kind for row in judged for verdict in row)
    count = len(order)
    scale = [
        (edge, LOOKS[kind][0])
        for index, kind in enumerate(order)
        for edge in (index / count, (index + 1) / count)
    ]
    row, column = masks.index(own), tiles.index(own_tile)
    legal = sum(verdict.legal for line in judged for verdict in line)
    words = [f"{LOOKS[kind][1]} {KINDS[kind]} ({found[kind]})" for kind in order]
    legend = "<br>".join(" · ".join(words[start : start + 2]) for start in range(0, count, 2))
    return go.Figure(
        go.Heatmap(
            x=[_pair(pair) for pair in tiles],
            y=[_pair(pair) for pair in masks],
            z=[[order.index(verdict.kind) for verdict in line] for line in judged],
            text=[[LOOKS[verdict.kind][1] for verdict in line] for line in judged],
            texttemplate="%{text}",
            customdata=[[verdict.reason for verdict in line] for line in judged],
            hovertemplate="mask block %{y}, tile %{x}<br>%{customdata}<extra></extra>",
            zmin=-0.5,
            zmax=count - 0.5,
            colorscale=scale,
            showscale=False,
            xgap=1,
            ygap=1,
        ),
        layout={
            "height": 250 + 20 * len(masks),
            "margin": {"t": 140, "l": 90, "b": 90},
            "title": {
                "text": f"<b>{legal} of {sum(found.values())} pairs run</b> over cache blocks of "
                f"{flex.cache_block_size}<br><sub>{legend}</sub>",
                "x": 0,
                "xref": "paper",
                "font": {"size": 15},
            },
            **colours.surface,
            "xaxis": {"title": {"text": "tile: block_m x block_n"}, "type": "category"},
            "yaxis": {
                "title": {"text": "mask block: q x kv"},
                "autorange": "reversed",
                "type": "category",
            },
            "shapes": [
                {
                    "type": "rect",
                    "x0": column - 0.5,
                    "x1": column + 0.5,
                    "y0": row - 0.5,
                    "y1": row + 0.5,
                    "line": {"color": colours.text, "width": 3},
                }
            ],
        },
    )


def _known(pair: tuple[int | None, int | None]) -> tuple[int, int] | None:
    m, n = pair
    return None if m is None or n is None else (m, n)


def _pair(pair: tuple[int | None, int | None]) -> str:
    return " x ".join("auto" if size is None else str(size) for size in pair)
