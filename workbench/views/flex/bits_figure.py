"""Where bits differ: trials down, tokens across, one field for each way to choose tiles."""

import plotly.graph_objects as go

from workbench.core.flex.lab import BitLab, BitRun
from workbench.core.plan import Plan
from workbench.views.frame import NAMED_ROWS, frame, panels, step_text, steps
from workbench.views.palette import CURRENT

MAX_COLUMNS = 16
MAX_ROWS = 40
GAP = 0.03


def bits_figure(plan: Plan, lab: BitLab, theme: str = "auto") -> go.Figure:
    """Draw the share of elements with different bits, by token; one heatmap for each way.

    Equal cells are empty, others carry the sign; point at one for its count.
    """
    count = len(lab.runs[0].trials)
    left = f"; {count - MAX_ROWS:,} more trials" if count > MAX_ROWS else ""
    figure = panels(
        cols=len(lab.runs),
        shared_yaxes=True,
        horizontal_spacing=GAP,
        subplot_titles=[
            f"<b>{run.name}</b>" + ("<br>control" if run.control else "") for run in lab.runs
        ],
    )
    figure.update_layout(
        frame(
            f"<b>which bits differ</b>: {lab.request}<br><sub>≠ some bits of these tokens "
            f"differ from the request alone; empty: none{left}</sub>",
            theme,
            plan=plan,
            height=210 + 24 * min(count, MAX_ROWS),
            margin={"t": 110, "b": 60, "l": 230, "r": 20},
        )
    )
    for column, run in enumerate(lab.runs, 1):
        figure.add_trace(_heatmap(lab, run), row=1, col=column)
    figure.update_yaxes(NAMED_ROWS)
    figure.update_xaxes(type="category", showgrid=False, title_text="token of the request")
    return figure


def _heatmap(lab: BitLab, run: BitRun) -> go.Heatmap:
    per_token = run.trials[0].elements // max(lab.tokens, 1)
    trials = run.trials[:MAX_ROWS]
    first = lab.first_token
    columns = steps(first, first + lab.tokens, MAX_COLUMNS)
    sizes = [per_token * len(column) for column in columns]
    counts = [
        [sum(trial.per_token[token - first] for token in column) for column in columns]
        for trial in trials
    ]
    return go.Heatmap(
        x=list(map(step_text, columns)),
        y=[f"{trial.kind}: {trial.detail}" for trial in trials],
        z=[[n / size for n, size in zip(row, sizes, strict=True)] for row in counts],
        text=[["≠" if count else "" for count in row] for row in counts],
        texttemplate="%{text}",
        customdata=[
            [f"{n:,} of {size:,}" for n, size in zip(row, sizes, strict=True)] for row in counts
        ],
        hovertemplate=f"<b>{run.name}</b><br>%{{y}}<br>token %{{x}}<br>%{{customdata}} elements "
        "have different bits<extra></extra>",
        zmin=0,
        zmax=0.25,
        colorscale=[(0, "rgba(0,158,115,0.18)"), (0.0001, "rgba(213,94,0,0.35)"), (1, CURRENT)],
        showscale=False,
        xgap=1,
        ygap=2,
    )
