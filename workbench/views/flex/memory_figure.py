"""Memory of flex attention in addition to the cache, over the number of blocks of the pool."""

from __future__ import annotations

import plotly.graph_objects as go

from workbench.core.flex.plan import FlexPlan, mask_memory
from workbench.core.plan import Plan
from workbench.views.caption import of_plan
from workbench.views.palette import ATTENTION, CURRENT, LEGEND_BELOW, RECURRENT, THEMES
from workbench.views.units import bytes_text

BLOCKS = tuple(2**power for power in range(6, 21))
"""Sizes of the pool that are drawn."""


@of_plan
def mask_memory_figure(plan: Plan, flex: FlexPlan, theme: str = "auto") -> go.Figure:
    """Draw the bytes of the buffers and the pairs of the generic build over the pool. 3 traces."""
    colours = THEMES[theme]
    found = [mask_memory(plan, flex, blocks) for blocks in BLOCKS]
    lines = (
        ("inverse table: requests x blocks", [f.inverse_table_bytes for f in found]),
        ("KV block lists: queries x longest request", [f.kv_indices_bytes for f in found]),
    )
    styles = ((CURRENT, "square", "solid"), (ATTENTION, "circle", "dash"))
    traces = [
        go.Scatter(
            x=BLOCKS,
            y=sizes,
            name=name,
            mode="lines+markers",
            line={"color": colour, "dash": dash},
            marker={"symbol": symbol},
            customdata=[bytes_text(size) for size in sizes],
            hovertemplate=f"{name}<br>%{{x:,}} blocks: %{{customdata}}<extra></extra>",
        )
        for (name, sizes), (colour, symbol, dash) in zip(lines, styles, strict=True)
    ]
    traces.append(
        go.Scatter(
            x=BLOCKS,
            y=[f.pairs for f in found],
            name="pairs of the generic build, one byte each",
            mode="lines+markers",
            line={"color": RECURRENT, "dash": "dot"},
            marker={"symbol": "diamond"},
            hovertemplate="%{x:,} blocks: %{y:,} pairs of query and slot<extra></extra>",
        )
    )
    assumed = plan.settings.max_num_seqs is None
    return go.Figure(
        traces,
        layout={
            "height": 380,
            "margin": {"t": 70, "b": 120},
            "title": {
                "text": "<b>what the mask keeps grows with the whole pool</b>, used or not"
                + (f"; {plan.max_num_seqs:,} requests assumed" if assumed else ""),
                "x": 0,
                "xref": "paper",
                "font": {"size": 15},
            },
            **colours.surface,
            "legend": LEGEND_BELOW,
            "xaxis": {
                "type": "log",
                "title": {"text": "blocks in the pool"},
                "gridcolor": colours.grid,
            },
            "yaxis": {
                "type": "log",
                "title": {"text": "bytes, per rank"},
                "gridcolor": colours.grid,
            },
        },
    )
