"""The order of a start: the same steps of several plans, one line each, in the order they ran."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from textwrap import wrap

import plotly.graph_objects as go

from workbench.core.plan import Plan
from workbench.core.trace import Step, show
from workbench.views.palette import ATTENTION, CONV, CURRENT, RECURRENT, THEMES

STEPS = {
    "backend": ("diamond", CURRENT),
    "preferred_block_size": ("square", ATTENTION),
    "xpu_default_block_size": ("square", ATTENTION),
    "alignment_granule": ("triangle-up", CONV),
    "block_size": ("square", ATTENTION),
    "mamba_page_size_padded": ("circle", RECURRENT),
    "equal_pages": ("hexagon", RECURRENT),
}
"""Steps that are shown, by the name of their rule -> shape and colour of their mark."""
ROW_PIXELS = 170


def timeline(plans: Mapping[str, Plan], theme: str = "auto") -> go.Figure:
    """Draw the order of steps: one row per plan, named by its key, equal steps linked.

    Every step carries its title and its result, so nothing rests on shape or colour.
    """
    colours = THEMES[theme]
    rows = {name: [s for s in plan.steps if s.rule.name in STEPS] for name, plan in plans.items()}
    return go.Figure(
        [
            *_links(rows, colours.text),
            *(_row(*row) for row in zip(rows, range(len(rows)), rows.values(), strict=True)),
        ],
        layout={
            "height": 90 + ROW_PIXELS * max(len(rows), 1),
            "margin": {"t": 20, "b": 60, "l": 110},
            "showlegend": False,
            **colours.surface,
            "xaxis": {
                "title": {"text": "earlier to later"},
                "range": [0.4, max(map(len, rows.values()), default=1) + 0.6],
                "showticklabels": False,
                "showgrid": False,
                "zeroline": False,
            },
            "yaxis": {
                "tickvals": list(range(len(rows))),
                "ticktext": list(rows),
                "range": [max(len(rows), 1) - 0.45, -0.55],
                "gridcolor": colours.grid,
                "zeroline": False,
            },
        },
    )


def _row(name: str, number: int, steps: list[Step]) -> go.Scatter:
    return go.Scatter(
        name=name,
        x=list(range(1, len(steps) + 1)),
        y=[number] * len(steps),
        mode="lines+markers+text",
        line={"width": 1, "color": "#888888"},
        marker={
            "size": 16,
            "symbol": [_symbol(step) for step in steps],
            "color": [STEPS[step.rule.name][1] for step in steps],
        },
        text=[
            "<br>".join([*wrap(step.rule.title, 15), f"<b>{_result(step)}</b>"]) for step in steps
        ],
        textposition="bottom center" if number else "top center",  # away from the links
        hovertext=[str(step) for step in steps],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _symbol(step: Step) -> str:
    return "x" if step.result is False else STEPS[step.rule.name][0]


def _result(step: Step) -> str:
    return f"{show(step.result)} {step.rule.unit}".strip() if step.result is not None else "none"


def _links(rows: Mapping[str, list[Step]], colour: str) -> list[go.Scatter]:
    """Draw a dotted line from a step to the same step in the next row."""
    places = [
        {step.rule.name: place for place, step in enumerate(steps, 1)} for steps in rows.values()
    ]
    found = [
        (first[name], second[name], above, above + 1)
        for above, (first, second) in enumerate(pairwise(places))
        for name in first.keys() & second.keys()
    ]
    return [
        go.Scatter(
            x=[start, end],
            y=[top, bottom],
            mode="lines",
            line={"width": 1, "dash": "dot", "color": colour},
            hoverinfo="skip",
        )
        for start, end, top, bottom in sorted(found)
    ]
