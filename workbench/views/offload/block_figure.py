"""What one block id holds: data, padding and empty slots, group by group."""

from __future__ import annotations

import plotly.graph_objects as go

from workbench.core.offload.pool import layer_bytes
from workbench.core.plan import Plan
from workbench.views.caption import of_plan
from workbench.views.palette import ATTENTION_BEFORE, LEGEND_BELOW, PADDING, RECURRENT, THEMES
from workbench.views.units import bytes_text


@of_plan
def host_block_figure(plan: Plan, theme: str = "auto") -> go.Figure:
    """Draw the bytes of one block id, group by group: data, padding, and slots without a layer.

    Errors: ValueError when the plan has no cache.
    """
    cache, colours = plan.built_cache(), THEMES[theme]
    by_name = {layer.name: layer for layer in layer_bytes(plan)}
    groups = [[by_name[name] for name in group.layers] for group in cache.groups]
    labels = [f"{number}: {group.spec.kind}" for number, group in enumerate(cache.groups)]
    whole = cache.grouping.bytes_per_block
    parts = {
        "keys, values or state": [sum(layer.data_bytes for layer in group) for group in groups],
        "padding of the page": [sum(layer.padding_bytes for layer in group) for group in groups],
        "slots without a layer": [whole - sum(x.page_bytes for x in group) for group in groups],
    }
    patterns = ((RECURRENT, ""), (PADDING, "x"), (ATTENTION_BEFORE, "/"))
    bars = [
        go.Bar(
            name=name,
            x=sizes,
            y=labels,
            orientation="h",
            marker={"color": colour, "pattern": {"shape": shape, "fgcolor": "#ffffff"}},
            hovertemplate=f"<b>{name}</b><br>group %{{y}}: %{{x:,}} bytes<extra></extra>",
        )
        for (name, sizes), (colour, shape) in zip(parts.items(), patterns, strict=True)
    ]
    return go.Figure(
        bars,
        layout={
            "barmode": "stack",
            "height": 190 + 28 * len(groups),
            "margin": {"b": 100, "t": 60},
            "title": {
                "text": f"<b>one block id: {bytes_text(whole)} in whichever group uses it</b>",
                "x": 0,
                "xref": "paper",
            },
            **colours.surface,
            "legend": LEGEND_BELOW,
            "xaxis": {"title": {"text": "bytes, per rank"}, "gridcolor": colours.grid},
            "yaxis": {"autorange": "reversed", "showgrid": False, "automargin": True},
        },
    )
