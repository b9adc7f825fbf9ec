"""Where the bytes that a request reserves go, over the length of its prompt."""

from __future__ import annotations

import plotly.graph_objects as go

from workbench.core.capacity.occupancy import waste
from workbench.core.plan import Plan
from workbench.views.caption import of_plan
from workbench.views.palette import (
    ATTENTION,
    ATTENTION_BEFORE,
    CONV,
    CURRENT,
    PADDING,
    RECURRENT,
    THEMES,
)

PARTS = {
    "used": (RECURRENT, ""),
    "unfilled tokens": (ATTENTION, "/"),
    "mamba padding": (PADDING, "x"),
    "empty slots": (CONV, "."),
    "checkpoint": (ATTENTION_BEFORE, "-"),
    "draft blocks": (CURRENT, "+"),
    "attention padding": (PADDING, "|"),
}
"""Part -> colour and pattern, so that no part is shown by colour alone."""


@of_plan
def reserved_bytes(plan: Plan, theme: str = "auto") -> go.Figure:
    """Draw stacked bars of the bytes that one request reserves, for prompts of 16 tokens and more.

    Errors: ValueError when the plan has no cache (its pages cannot be made equal).
    """
    cache = plan.built_cache()
    prompts = prompt_lengths(plan.max_model_len)
    rows = [waste(plan, cache, prompt).parts for prompt in prompts]
    colours = THEMES[theme]
    labels = [f"{prompt:,}" for prompt in prompts]
    bars = [
        go.Bar(
            name=part,
            x=labels,
            y=[row[part] / sum(row.values()) for row in rows],
            customdata=[row[part] for row in rows],
            marker={"color": colour, "pattern": {"shape": pattern, "fgcolor": "#ffffff"}},
            hovertemplate=f"<b>{part}</b><br>%{{x}} tokens: %{{customdata:,}} bytes, "
            "%{y:.1%}<extra></extra>",
            showlegend=any(row[part] for row in rows),
        )
        for part, (colour, pattern) in PARTS.items()
    ]
    return go.Figure(
        bars,
        layout={
            "barmode": "stack",
            "height": 340,
            "title": {"text": "<b>bytes reserved for one request</b>", "x": 0, "xref": "paper"},
            **colours.surface,
            "xaxis": {"title": {"text": "prompt tokens"}, "type": "category", "showgrid": False},
            "yaxis": {"tickformat": ".0%", "gridcolor": colours.grid, "range": [0, 1]},
        },
    )


def prompt_lengths(longest: int) -> tuple[int, ...]:
    """Return powers of two from 16 up to `longest`, and `longest` itself."""
    powers = [1 << power for power in range(4, longest.bit_length()) if 1 << power < longest]
    return (*powers, longest)
