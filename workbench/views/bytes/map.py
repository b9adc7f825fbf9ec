"""The page map: bytes to scale, as attention and as states, from the pool down to one head."""

from __future__ import annotations

from typing import Any, Final

import plotly.graph_objects as go

from workbench.core.byte_map.of_plan import byte_map
from workbench.core.layouts.layer_views import V1
from workbench.core.plan import Plan
from workbench.views.bytes.places import LEVELS, MapPlace
from workbench.views.bytes.rows import (
    COMPARISONS,
    LIMIT,
    Comparison,
    MapPicture,
    compared,
    map_picture,
)
from workbench.views.caption import of_plan
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

DEFAULT_BLOCKS = 3
HEIGHT, USUAL_ROWS = 440, 5
"""Pixels of the figure, always the same: a live one that changes its height stops fitting."""
EXTRA, SELECTED, PAGES = "#CC79A7", "#F0E442", "rgba(128,128,128,0.12)"
EDGES: Final = {"page": "rgba(128,128,128,0.6)", "selected": SELECTED}
"""Edges that are not those of the theme."""
CLASSES: Final = {
    "page": (PAGES, ""),
    "K": (ATTENTION, ""),
    "V": (ATTENTION_BEFORE, "/"),
    "K and V": (ATTENTION, "|"),
    "latent": (ATTENTION, ""),
    "hidden state": (ATTENTION, "\\"),
    "scale, norm or rope": (EXTRA, "."),
    "conv": (CONV, "-"),
    "recurrent": (RECURRENT, ""),
    "whole state": (RECURRENT, "-"),
    "padding": (PADDING, "x"),
    "misplaced": (CURRENT, "x"),
    "selected": (SELECTED, ""),
}
"""Class of a bar -> colour and pattern; one trace each, always all of them."""


@of_plan
def page_map(
    plan: Plan,
    /,
    level: str = "block",
    *,
    num_blocks: int | None = None,
    runner: str = V1,
    layout: str | None = None,
    rule: str | None = None,
    compare: str | None = None,
    theme: str = "auto",
    **place: Any,
) -> go.Figure:
    """Draw the bytes of one tensor of `plan` to scale: rows for pages, attention and states.

    level: one of LEVELS; place: `tensor`, `block`, `kernel_block`, `token`, `head`, `part`, or a
    `window` of bytes (see `MapPlace`). num_blocks: of the plan, else 3. runner, layout, rule: see
    `plan_layout`. compare: a rewrite rule whose attention is drawn as well, "never" or "guessed";
    its misplaced bytes are crossed. Errors: LayoutError.
    """
    if num_blocks is None:
        num_blocks = plan.cache.blocks_or(DEFAULT_BLOCKS) if plan.cache else DEFAULT_BLOCKS
    options: dict[str, Any] = {"num_blocks": num_blocks, "runner": runner, "layout": layout}
    pool = byte_map(plan, **options, rule=rule)
    other = None if compare is None else compared(plan, compare, **options)
    drawn = map_picture(pool, MapPlace(level, **place), other)
    return go.Figure(map_traces(drawn, theme), layout=map_layout(drawn, theme))


def map_traces(drawn: MapPicture, theme: str = "auto") -> list[go.Bar]:
    """Return one trace per class, always all of them, empty where nothing has the class."""
    traces = []
    for name, (colour, pattern) in CLASSES.items():
        bars = [
            (number, bar)
            for number, row in enumerate(drawn.rows)
            for bar in row.bars
            if bar[0] == name
        ]
        traces.append(
            go.Bar(
                name="in another block's page" if name == "misplaced" else name,
                orientation="h",
                y=[number for number, _bar in bars],
                base=[bar[1] for _number, bar in bars],
                x=[bar[2] - bar[1] for _number, bar in bars],
                text=[bar[3] for _number, bar in bars],
                hovertext=[bar[4] for _number, bar in bars],
                hovertemplate="%{hovertext}<extra></extra>",
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                insidetextfont={"color": THEMES[theme].text} if name == "page" else None,
                width=0.7 * min(1, len(drawn.rows) / USUAL_ROWS),
                showlegend=bool(bars) and name != "page",
                marker={
                    "color": colour,
                    "line": {"width": 1, "color": EDGES.get(name, THEMES[theme].rule)},
                    "pattern": {
                        "shape": pattern, "fgcolor": "rgba(255,255,255,0.45)", "size": 7,
                        "solidity": 0.2,
                    },
                },
            )
        )  # fmt: skip
    return traces


def map_layout(drawn: MapPicture, theme: str = "auto") -> go.Layout:
    """Return axes, title and colours that go with `map_traces`."""
    colours = THEMES[theme]
    rows = len(drawn.rows)
    return go.Layout(
        title={
            "text": f"{drawn.title}<br><sup>{drawn.subtitle}</sup>",
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "y": 1,
            "yanchor": "top",
            "pad": {"t": 26},
            "font": {"size": 15},
        },
        barmode="overlay",
        height=HEIGHT,
        margin={"l": 170, "r": 30, "t": 100, "b": 100},
        **colours.surface,
        legend={**LEGEND_BELOW, "itemclick": False, "itemdoubleclick": False},
        hoverlabel={"align": "left"},
        uniformtext={"minsize": 9, "mode": "hide"},
        dragmode="zoom",
        xaxis={
            "title": {"text": "byte of the tensor"},
            "range": list(drawn.window),
            "tickformat": ",d",
            "nticks": 7,
            "gridcolor": colours.grid,
            "linecolor": colours.grid,
            "zeroline": False,
        },
        yaxis={
            "tickmode": "array",
            "tickvals": list(range(rows)),
            "ticktext": [row.name for row in drawn.rows],
            "range": [rows - 0.5, -0.5],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
    )


__all__ = [
    "COMPARISONS",
    "LEVELS",
    "LIMIT",
    "Comparison",
    "MapPicture",
    "MapPlace",
    "compared",
    "map_layout",
    "map_picture",
    "map_traces",
    "page_map",
]
