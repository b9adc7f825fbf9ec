"""The page map: bytes to scale, as attention and as states, from the pool down to one head."""

from typing import Any, Final

import plotly.graph_objects as go

from workbench.core.byte_map.of_plan import byte_map
from workbench.core.layouts.layer_views import V1
from workbench.core.plan import Plan
from workbench.views import palette
from workbench.views.bytes.places import MapPlace
from workbench.views.bytes.rows import MapPicture, compared, map_picture
from workbench.views.frame import FIXED_LEGEND, Figure, bar, frame

DEFAULT_BLOCKS = 3
HEIGHT, USUAL_ROWS = 440, 5
"""Pixels of the figure, always the same: a live one that changes its height stops fitting."""
EDGES: Final = {"page": "rgba(128,128,128,0.6)", "selected": palette.YELLOW}
"""Edges that are not those of the theme."""
CLASSES: Final = {
    "page": (palette.FAINT, ""),
    "K": (palette.ATTENTION, ""),
    "V": (palette.ATTENTION_BEFORE, "/"),
    "K and V": (palette.ATTENTION, "|"),
    "latent": (palette.ATTENTION, ""),
    "hidden state": (palette.ATTENTION, "\\"),
    "scale, norm or rope": (palette.PINK, "."),
    "conv": (palette.CONV, "-"),
    "recurrent": (palette.RECURRENT, ""),
    "whole state": (palette.RECURRENT, "-"),
    "padding": (palette.PADDING, "x"),
    "misplaced": (palette.CURRENT, "x"),
    "selected": (palette.YELLOW, ""),
}
"""Class of a bar -> colour and pattern; one trace each, always all of them."""
BAR: Final = {
    "orientation": "h",
    "hovertemplate": "%{hovertext}<extra></extra>",
    "textposition": "inside",
    "insidetextanchor": "middle",
    "textangle": 0,
}
PATTERN: Final = {"fgcolor": "rgba(255,255,255,0.45)", "size": 7, "solidity": 0.2}


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
    figure = Figure(map_traces(drawn, theme), layout=map_layout(drawn, theme))
    return figure.update_layout(meta={"plan": plan.fingerprint})


def map_traces(drawn: MapPicture, theme: str = "auto") -> list[go.Bar]:
    """Return one trace per class, always all of them, empty where nothing has the class."""
    rule, text = palette.THEMES[theme].rule, palette.THEMES[theme].text
    traces = []
    for name, look in CLASSES.items():
        pieces = [
            (number, piece)
            for number, row in enumerate(drawn.rows)
            for piece in row.bars
            if piece.kind == name
        ]
        trace = bar(
            "in another block's page" if name == "misplaced" else name,
            [piece.stop - piece.start for _row, piece in pieces],
            [row for row, _piece in pieces],
            look,
            base=[piece.start for _row, piece in pieces],
            text=[piece.text for _row, piece in pieces],
            hovertext=[piece.hover for _row, piece in pieces],
            insidetextfont={"color": text} if name == "page" else None,
            width=0.7 * min(1, len(drawn.rows) / USUAL_ROWS),
            showlegend=bool(pieces) and name != "page",
            **BAR,
        )
        trace.marker.update(line={"width": 1, "color": EDGES.get(name, rule)}, pattern=PATTERN)
        traces.append(trace)
    return traces


def map_layout(drawn: MapPicture, theme: str = "auto", marked: int | None = None) -> go.Layout:
    """Return axes, title and colours that go with `map_traces`; a line at the marked byte."""
    rows = len(drawn.rows)
    layout = frame(
        f"{drawn.title}<br><sub>{drawn.subtitle}</sub>",
        theme,
        title_y=1,
        title_yanchor="top",
        title_xref="container",
        title_pad={"t": 42, "l": 12},
        barmode="overlay",
        height=HEIGHT,
        margin={"l": 170, "r": 30, "t": 100, "b": 100},
        legend=FIXED_LEGEND,
        hoverlabel={"align": "left"},
        dragmode="zoom",
        x={
            "title": "byte of the tensor",
            "range": list(drawn.window),
            "tickformat": ",d",
            "nticks": 7,
            "linecolor": palette.THEMES[theme].grid,
        },
        y={
            "tickvals": list(range(rows)),
            "ticktext": [row.name for row in drawn.rows],
            "range": [rows - 0.5, -0.5],
            "showgrid": False,
            "fixedrange": True,
        },
    )
    if marked is not None and drawn.window[0] <= marked < drawn.window[1]:
        line = {"color": palette.CURRENT, "width": 2}
        place = {"x0": marked + 0.5, "x1": marked + 0.5, "y0": 0, "y1": 1, "yref": "paper"}
        layout["shapes"] = [{"type": "line", **place, "line": line}]
    return go.Layout(layout)
