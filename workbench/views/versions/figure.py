"""What an upgrade changes: numbers relative to the older version, a matrix, the order of steps."""

from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise
from textwrap import wrap

import plotly.graph_objects as go

from workbench.core.plan import Plan
from workbench.core.trace import Step
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.differences import Comparison
from workbench.core.what_if.facts import FACTS, Fact
from workbench.core.what_if.outcomes import Outcome
from workbench.views.frame import SMALLEST_TEXT, cells, figure
from workbench.views.palette import ATTENTION, CONV, CURRENT, FAINT, PADDING, RECURRENT, THEMES
from workbench.views.rows import result_text
from workbench.views.units import counted, is_number
from workbench.views.versions.differences import matrix_rows, value_text

MARKS = (
    (PADDING, "circle-open", "top right"),
    (ATTENTION, "circle", "top left"),
    (CURRENT, "diamond", "bottom center"),
    (CONV, "square", "top center"),
    (RECURRENT, "cross", "bottom right"),
)
"""Colour, symbol and place of the text, one per rule set; a sixth begins again."""
LOWEST, HIGHEST = 0.02, 50.0
"""Ratios outside are drawn at the edge; their text gives the numbers."""


def versions(outcomes: Sequence[Outcome], theme: str = "auto") -> go.Figure:
    """Draw every number that differs between rule sets, as a ratio to the first one.

    One marker per rule set, one line per number; ratios on a logarithmic axis, the values as text.
    """
    plans = [outcome.plan for outcome in outcomes if outcome.plan is not None]
    shown = {fact: fact.read(plans[0]) for fact in FACTS if plans and _differs(fact, plans)}
    traces = []
    written: set[tuple[str, str]] = set()
    for outcome, (colour, symbol, place) in zip(outcomes, cycle(MARKS), strict=False):
        if outcome.plan is None:
            continue
        values = [(fact, base, fact.read(outcome.plan)) for fact, base in shown.items()]
        points = [
            (value / base, fact.label, value_text(value, fact.unit))
            for fact, base, value in values
            if is_number(value)
        ]
        traces.append(
            go.Scatter(
                x=[min(max(x, LOWEST), HIGHEST) for x, _label, _text in points],
                y=[label for _x, label, _text in points],
                text=[_once(written, label, text) for _x, label, text in points],
                customdata=[text for _x, _label, text in points],
                name=RULE_SETS[outcome.rules].title,
                mode="markers+text",
                textposition=place,
                marker={"color": colour, "symbol": symbol, "size": 11},
                hovertemplate="%{y}<br>%{customdata}<br>%{x:.3g} x<extra>%{fullData.name}</extra>",
                cliponaxis=False,
            )
        )
    title = "what differs, relative to the first version" if shown else "no number differs"
    return figure(
        traces,
        f"<b>{title}</b>",
        theme,
        height=170 + 46 * max(len(shown), 1),
        margin={"l": 150, "r": 150, "t": 60, "b": 70},
        x={"type": "log", "title": "times"},
        y={"autorange": "reversed"},
    )


def _differs(fact: Fact, plans: Sequence[Plan]) -> bool:
    """Return whether a number of the first plan, other than 0, is another one in some plan."""
    first, *others = (fact.read(plan) for plan in plans)
    return is_number(first) and first != 0 and not {None, first}.issuperset(others)


def _once(written: set[tuple[str, str]], label: str, text: str) -> str:
    """Return the text of a marker; empty where another marker is at the same place."""
    if (label, text) in written:
        return ""
    written.add((label, text))
    return text


SAME, OTHER, STOPS = "same", "other", "stops"
COLOURS = {SAME: FAINT, OTHER: CONV, STOPS: CURRENT}


def upgrade_matrix(comparisons: Sequence[Comparison], theme: str = "auto") -> go.Figure:
    """Draw models by numbers: what an upgrade changes, with both values in the cell.

    Models of which it changes nothing are only counted.
    """
    (_model, _verdict, *columns), *rows = matrix_rows(comparisons)
    grid: dict[str, list[tuple[str, str, str]]] = {}
    for comparison, (model, verdict, *texts) in zip(comparisons, rows, strict=True):
        start = _start(comparison)
        if start != SAME or any(texts):
            words = "" if start == SAME else verdict
            changed = [(OTHER if text else SAME, text, text) for text in texts]
            grid[model] = [(start, words.partition(":")[0], words), *changed]
    drawn = cells(
        [*grid.values()],
        COLOURS,
        x=["start", *columns],
        y=[*grid],
        textfont={"size": SMALLEST_TEXT},
        hovertemplate="%{y}<br>%{x}: %{customdata}<extra></extra>",
    )
    return figure(
        drawn,
        f"<b>what an upgrade changes</b>, by model: {len(grid):,} of {counted(len(rows), 'model')}",
        theme,
        height=140 + 22 * max(len(grid), 1),
        margin={"l": 190, "r": 20, "t": 110, "b": 20},
        x={"side": "top"},
        y={"autorange": "reversed"},
    )


def _start(comparison: Comparison) -> str:
    if comparison.old.starts and not comparison.new.starts:
        return STOPS
    return SAME if comparison.old.starts == comparison.new.starts else OTHER


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
    rows = {name: [s for s in plan.steps if s.rule.name in STEPS] for name, plan in plans.items()}
    drawn = (_row(name, number, steps) for number, (name, steps) in enumerate(rows.items()))
    return figure(
        [*_links(rows, THEMES[theme].text), *drawn],
        "<b>the order of the decisions</b>, with their results",
        theme,
        height=110 + ROW_PIXELS * max(len(rows), 1),
        margin={"t": 40, "b": 60, "l": 110},
        showlegend=False,
        x={
            "title": "earlier to later",
            "range": [0.4, max(map(len, rows.values()), default=1) + 0.6],
            "showticklabels": False,
            "showgrid": False,
        },
        y={
            "tickvals": list(range(len(rows))),
            "ticktext": list(rows),
            "range": [max(len(rows), 1) - 0.45, -0.55],
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
            "symbol": ["x" if s.result is False else STEPS[s.rule.name][0] for s in steps],
            "color": [STEPS[step.rule.name][1] for step in steps],
        },
        text=[
            "<br>".join([*wrap(step.rule.title, 15), f"<b>{result_text(step)}</b>"])
            for step in steps
        ],
        textposition="bottom center" if number else "top center",  # away from the links
        hovertext=[str(step) for step in steps],
        hovertemplate="%{hovertext}<extra></extra>",
    )


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
