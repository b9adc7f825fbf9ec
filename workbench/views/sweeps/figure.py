"""Pictures of a sweep: trade-offs with the Pareto front, and parallel coordinates."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from workbench.core.arithmetic import cdiv
from workbench.views.frame import figure
from workbench.views.palette import ATTENTION_BEFORE, CURRENT, RECURRENT
from workbench.views.sweeps.rows import (
    MEASURES,
    SHORT,
    UNITS,
    Row,
    axes_of,
    point_name,
    short_name,
    value_text,
)
from workbench.views.units import is_number

MAX_MARKS = 200
MAX_LINES = 400
AXES = ("waste_share", "concurrency_per_gpu")
NEEDED = {
    "concurrency_per_gpu": ": name a device, or vary KV-cache memory per GPU",
    "smallest_prefix_tokens": ": vary Prefix caching",
}
"""Measure -> what gives points one."""


def pareto_front(
    rows: Sequence[Row],
    front: Sequence[int],
    current: Row | None = None,
    *,
    x: str = AXES[0],
    y: str = AXES[1],
    total: int | None = None,
    theme: str = "auto",
) -> go.Figure:
    """Points by two measures; those on the front are diamonds, the current one is a cross.

    The custom data of a mark is the number of its point. front: numbers of the points that no
    other point beats. Points without a measure are omitted, and so are all beyond some hundred, the
    front first. total: points that have both measures, where `rows` are some of them.
    """
    on_front = set(front)
    has = [row for row in rows if row[x] is not None and row[y] is not None]
    best = sorted((row for row in has if row["point"] in on_front), key=lambda row: row[x])
    others = [row for row in has if row["point"] not in on_front]
    shown = others[:: max(1, cdiv(len(others), MAX_MARKS))]
    names = axes_of(rows)
    present = [current] if current and None not in (current[x], current[y]) else []
    marks = (
        ("other points", shown, (ATTENTION_BEFORE, "circle-open", 7)),
        ("Pareto-optimal", best[:MAX_MARKS], (RECURRENT, "diamond", 11)),
        ("current configuration", present, (CURRENT, "x", 13)),
    )
    traces = [
        go.Scatter(
            name=name,
            x=[row[x] for row in points],
            y=[row[y] for row in points],
            mode="markers",
            marker={"color": colour, "symbol": symbol, "size": size},
            customdata=[row["point"] for row in points],
            text=[_hover_text(row, () if row is current else names) for row in points],
            hovertemplate="%{text}<extra></extra>",
        )
        for name, points, (colour, symbol, size) in marks
    ]
    count = len(has) if total is None else total
    drawn = "" if len(best) + len(shown) == count else f", {len(shown):,} others drawn"
    absent = [one for one in (x, y) if all(row[one] is None for row in rows)]
    title = f"<b>{len(best):,} Pareto-optimal of {count:,} points{drawn}</b>"
    if rows and absent:
        title = f"<b>No point has {MEASURES[absent[0]]}</b>{NEEDED.get(absent[0], '')}"
    return figure(traces, title, theme, height=420, margin={"b": 90}, x=_axis(x), y=_axis(y))


def _axis(name: str) -> dict[str, Any]:
    unit = f" ({UNITS[name]})" if name in UNITS else ""
    shown = {"tickformat": ".3~%"} if name == "waste_share" else {}
    return {"title": MEASURES[name] + unit, **shown}


def _hover_text(row: Row, names: Sequence[str]) -> str:
    sets = point_name({name: row["sets"][name] for name in names})
    measures = ", ".join(
        f"{MEASURES[name]} {value_text(name, row[name])}" for name in list(MEASURES)[:5]
    )
    if row.get("point") is None:
        return f"<b>current configuration</b><br>{measures}"
    return f"<b>{sets or 'this point'}</b> (point {row['point']})<br>{measures}"


def parallel_coordinates(
    rows: Sequence[Row], front: Sequence[int], theme: str = "auto"
) -> go.Figure:
    """Plot a line for every point over what it sets and what follows; the front is an axis too.

    Some hundred lines at most, the front first: more cannot be distinguished.
    """
    on_front = set(front)
    best = [row for row in rows if row["point"] in on_front][:MAX_LINES]
    others = [row for row in rows if row["point"] not in on_front]
    step = max(1, cdiv(len(others), max(1, MAX_LINES - len(best))))
    shown = [*best, *others[::step]]
    is_best = [int(row["point"] in on_front) for row in shown]
    dimensions = [
        _dimension(name, [row["sets"][name] for row in shown], is_setting=True)
        for name in axes_of(rows)
    ]
    dimensions += [
        _dimension(name, [row[name] for row in shown])
        for name in ("block_size", "concurrency_per_gpu", "smallest_prefix_tokens", "waste_share")
        if any(row[name] is not None for row in shown)
    ]
    ends = {"tickvals": [0, 1], "ticktext": ["no", "yes"], "range": [0, 1]}
    dimensions.append({"label": "Pareto-optimal", "values": is_best, **ends})
    scale = {"colorscale": [[0, ATTENTION_BEFORE], [1, CURRENT]], "cmin": 0, "cmax": 1}
    return figure(
        go.Parcoords(dimensions=dimensions, line={"color": is_best, **scale}),
        f"<b>{len(shown):,} of {len(rows):,} points</b>",
        theme,
        height=460,
        margin={"t": 90, "l": 90, "r": 60},
    )


def _dimension(name: str, values: Sequence[Any], *, is_setting: bool = False) -> dict[str, Any]:
    """Numbers on their own scale; names, choices and what is missing as steps."""
    label = short_name(name) if is_setting else SHORT.get(name, MEASURES[name])
    if all(map(is_number, values)) and len(set(values)) > 8:
        return {"label": label, "values": values}
    steps = sorted({value for value in values if is_number(value)})
    steps += sorted({value for value in values if not is_number(value)}, key=str)
    places = {value: place for place, value in enumerate(steps)}
    every = max(1, len(steps) // 12)
    return {
        "label": label,
        "values": [places[value] for value in values],
        "tickvals": list(range(0, len(steps), every)),
        "ticktext": [value_text(name, value, is_setting=is_setting) for value in steps[::every]],
    }
