"""What an upgrade changes, as a picture: one line per number, relative to the older version."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from workbench.core.versions import RULE_SETS
from workbench.core.what_if.differences import Comparison
from workbench.core.what_if.facts import FACTS
from workbench.core.what_if.outcomes import Outcome
from workbench.views.palette import ATTENTION, CONV, CURRENT, LEGEND_BELOW, PADDING, THEMES
from workbench.views.versions.differences import MATRIX_FACTS, matrix_cell, value_text, verdict_cell

MARKS = (
    (PADDING, "circle-open", "middle left"),
    (ATTENTION, "circle", "top center"),
    (CURRENT, "diamond", "bottom center"),
)
"""Colour, symbol and place of the text, one per rule set."""
LOWEST, HIGHEST = 0.02, 50.0
"""Ratios outside are drawn at the edge; their text gives the numbers."""


def versions(outcomes: Sequence[Outcome], theme: str = "auto") -> go.Figure:
    """Draw every number that differs between rule sets, as a ratio to the first one.

    One marker per rule set, one line per number; ratios on a logarithmic axis, the values as text.
    """
    colours = THEMES[theme]
    base = next((outcome.plan for outcome in outcomes if outcome.plan is not None), None)
    figure = go.Figure()
    rows: list[str] = []
    if base is not None:
        numbers = [fact for fact in FACTS if _is_number(fact.read(base)) and fact.read(base)]
        for fact in numbers:
            values = [None if o.plan is None else fact.read(o.plan) for o in outcomes]
            if len({value for value in values if value is not None}) > 1:
                rows.append(fact.label)
        shown = [fact for fact in numbers if fact.label in rows]
        written: set[tuple[str, str]] = set()
        for outcome, (colour, symbol, place) in zip(outcomes, MARKS, strict=False):
            if outcome.plan is None:
                continue
            values = [fact.read(outcome.plan) for fact in shown]
            points = [
                (value / fact.read(base), fact.label, value_text(value, fact.unit))
                for fact, value in zip(shown, values, strict=True)
                if _is_number(value)
            ]
            figure.add_trace(
                go.Scatter(
                    x=[min(max(x, LOWEST), HIGHEST) for x, _label, _text in points],
                    y=[label for _x, label, _text in points],
                    text=[_once(written, label, text) for _x, label, text in points],
                    customdata=[text for _x, _label, text in points],
                    name=RULE_SETS[outcome.rules].title,
                    mode="markers+text",
                    textposition=place,
                    marker={"color": colour, "symbol": symbol, "size": 11},
                    hovertemplate="%{y}<br>%{customdata}<br>%{x:.3g} x"
                    "<extra>%{fullData.name}</extra>",
                )
            )
    title = "no number differs" if not rows else "what differs, relative to the first version"
    figure.update_layout(
        height=170 + 46 * max(len(rows), 1),
        margin={"l": 150, "r": 40, "t": 60, "b": 70},
        title={"text": f"<b>{title}</b>", "x": 0, "xref": "paper", "font": {"size": 15}},
        legend=LEGEND_BELOW,
        **colours.surface,
    )
    figure.update_xaxes(type="log", gridcolor=colours.grid, title_text="times", zeroline=False)
    figure.update_yaxes(autorange="reversed", gridcolor=colours.grid)
    return figure


def _once(written: set[tuple[str, str]], label: str, text: str) -> str:
    """Return the text of a marker; empty where another marker is at the same place."""
    if (label, text) in written:
        return ""
    written.add((label, text))
    return text


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


SAME, OTHER, STOPS = 0, 1, 2
SCALE = [(0.0, "rgba(128,128,128,0.12)"), (0.5, CONV), (1.0, CURRENT)]


def upgrade_matrix(comparisons: Sequence[Comparison], theme: str = "auto") -> go.Figure:
    """Draw models by numbers: what an upgrade changes, with both values in the cell."""
    colours = THEMES[theme]
    columns = ["start", *(fact.label for fact in MATRIX_FACTS)]
    models = [comparison.model.name for comparison in comparisons]
    text = [
        [verdict_cell(comparison), *(matrix_cell(comparison, f.name) for f in MATRIX_FACTS)]
        for comparison in comparisons
    ]
    codes = [
        [_verdict_code(comparison), *(OTHER if cell else SAME for cell in row[1:])]
        for comparison, row in zip(comparisons, text, strict=True)
    ]
    shown = [
        [cell if code != SAME else "" for cell, code in zip(*pair, strict=True)]
        for pair in zip(text, codes, strict=True)
    ]
    figure = go.Figure(
        go.Heatmap(
            z=codes,
            x=columns,
            y=models,
            text=shown,
            texttemplate="%{text}",
            textfont={"size": 10},
            zmin=SAME,
            zmax=STOPS,
            colorscale=SCALE,
            showscale=False,
            xgap=1,
            ygap=1,
            hovertemplate="%{y}<br>%{x}: %{text}<extra></extra>",
        )
    )
    figure.update_layout(
        height=120 + 22 * max(len(models), 1),
        margin={"l": 190, "r": 20, "t": 90, "b": 20},
        **colours.surface,
    )
    figure.update_xaxes(side="top")
    figure.update_yaxes(autorange="reversed")
    return figure


def _verdict_code(comparison: Comparison) -> int:
    if comparison.old.starts and not comparison.new.starts:
        return STOPS
    return SAME if comparison.old.starts == comparison.new.starts else OTHER
