"""Where bits differ: trials down, tokens across, one field for each way to choose tiles."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from workbench.core.arithmetic import cdiv
from workbench.core.flex.lab import BitLab, BitRun, BitTrial
from workbench.core.plan import Plan
from workbench.views.caption import of_plan
from workbench.views.palette import CURRENT, THEMES

MAX_COLUMNS = 16
MAX_ROWS = 40
GAP = 0.03


@of_plan
def bits_figure(plan: Plan, lab: BitLab, theme: str = "auto") -> go.Figure:  # noqa: ARG001
    """Draw the share of elements with other bits, by token. One heatmap for each way, side by side.

    Equal cells are empty, others carry the sign; point at one for its count.
    """
    colours = THEMES[theme]
    width = (1 - GAP * (len(lab.runs) - 1)) / len(lab.runs)
    steps = _steps(lab.tokens)
    count = len(lab.runs[0].trials)
    left = f"; {count - MAX_ROWS:,} more trials" if count > MAX_ROWS else ""
    layout: dict[str, Any] = {
        "height": 210 + 24 * min(count, MAX_ROWS),
        "margin": {"t": 110, "b": 60, "l": 230, "r": 20},
        "title": {
            "text": f"<b>which bits differ</b>: {lab.request}<br><sub>≠ some bits of these tokens "
            f"differ from the request alone; empty: none{left}</sub>",
            "x": 0,
            "xref": "paper",
            "font": {"size": 15},
        },
        **colours.surface,
        "yaxis": {"autorange": "reversed", "type": "category", "showgrid": False},
        "annotations": [],
    }
    traces = []
    for index, run in enumerate(lab.runs):
        axis = "" if index == 0 else str(index + 1)
        start = index * (width + GAP)
        layout[f"xaxis{axis}"] = {
            "domain": [start, start + width],
            "type": "category",
            "showgrid": False,
            "title": {"text": "token of the request"},
        }
        layout["annotations"].append(
            {
                "text": f"<b>{run.name}</b>" + ("<br>control" if run.control else ""),
                "x": start + width / 2,
                "y": 1.01,
                "xref": "paper",
                "yref": "paper",
                "yanchor": "bottom",
                "showarrow": False,
            }
        )
        traces.append(_heatmap(lab, run, steps, f"x{axis}"))
    return go.Figure(traces, layout=layout)


def _heatmap(lab: BitLab, run: BitRun, steps: list[range], axis: str) -> go.Heatmap:
    per_token = run.trials[0].elements // max(lab.tokens, 1)
    trials = run.trials[:MAX_ROWS]
    counts = [[sum(trial.per_token[i] for i in step) for step in steps] for trial in trials]
    names = [_name(trial) for trial in trials]
    return go.Heatmap(
        x=[_columns(lab, step) for step in steps],
        y=names,
        z=[
            [count / (per_token * len(step)) for count, step in zip(row, steps, strict=True)]
            for row in counts
        ],
        text=[["≠" if count else "" for count in row] for row in counts],
        texttemplate="%{text}",
        customdata=[
            [
                f"{count:,} of {per_token * len(step):,}"
                for count, step in zip(row, steps, strict=True)
            ]
            for row in counts
        ],
        hovertemplate=f"<b>{run.name}</b><br>%{{y}}<br>token %{{x}}<br>%{{customdata}} elements "
        "have other bits<extra></extra>",
        xaxis=axis,
        zmin=0,
        zmax=0.25,
        colorscale=[
            (0.0, "rgba(0,158,115,0.18)"),
            (0.0001, "rgba(213,94,0,0.35)"),
            (1.0, CURRENT),
        ],
        showscale=False,
        xgap=1,
        ygap=2,
    )


def _name(trial: BitTrial) -> str:
    return f"{trial.kind}: {trial.detail}"


def _steps(tokens: int) -> list[range]:
    width = max(1, cdiv(tokens, MAX_COLUMNS))
    return [range(start, min(start + width, tokens)) for start in range(0, tokens, width)]


def _columns(lab: BitLab, step: range) -> str:
    first, last = lab.first_token + step[0], lab.first_token + step[-1]
    return str(first) if first == last else f"{first}-{last}"
