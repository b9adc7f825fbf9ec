"""What all figures share: the frame around the data, and the marks that are drawn inside it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.core.arithmetic import cdiv
from workbench.core.plan import Plan
from workbench.views.palette import CURRENT, THEMES

UPLOAD_BUTTON: Final = "sendChartToCloud"
"""plotly's "Share chart...": it would send the figure's data to a third-party server."""
LEGEND_BELOW: Final = {
    "orientation": "h",
    "yref": "container",
    "y": 0.01,
    "yanchor": "bottom",
    "x": 0,
    "traceorder": "normal",
}
"""A legend at the foot of the figure, whatever its height."""
FIXED_LEGEND: Final = {**LEGEND_BELOW, "itemclick": False, "itemdoubleclick": False}
NAMED_ROWS: Final = {"autorange": "reversed", "type": "category", "showgrid": False}
"""A vertical axis of rows with names, the first one at the top."""
HATCH_COLOUR = "#ffffff"
SMALLEST_TEXT = 12
"""Pixels; a text that has no room in its bar is shown under the pointer instead."""

Look = tuple[str, str]
"""Colour and pattern of a bar, so that no part is shown by colour alone."""
Axis = Mapping[str, Any]


CONFIG: Final = {"displaylogo": False}
"""No button leads to another site."""
PLAIN_BUTTONS: Final = {**CONFIG, "modeBarButtonsToRemove": ["select2d", "lasso2d"]}
"""Selecting points does nothing in a cell."""


class Figure(go.Figure):  # type: ignore[misc]  # plotly has no types
    """A figure of plotly that is a picture, too: where no script runs, it is an SVG with words."""

    def _repr_mimebundle_(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        from workbench.views.static.show import static_bundle

        # What plotly shows in a program of its own, such as Colab, has precedence.
        shown = super()._repr_mimebundle_(*args, **{"config": PLAIN_BUTTONS, **kwargs})
        return {**static_bundle(self), **shown}

    def _ipython_display_(self) -> None:
        """Show both; in a terminal, where plotly opens a browser, leave it to plotly."""
        from IPython.display import display

        if super()._repr_mimebundle_():
            display(self._repr_mimebundle_(), raw=True)  # type: ignore[no-untyped-call]
        else:
            super()._ipython_display_()


def frame(
    title: str,
    theme: str,
    *,
    plan: Plan | None = None,
    x: Axis | None = None,
    y: Axis | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return a layout: title, legend below, the theme's colours, both axes, then what is `more`.

    plan: the one that is drawn; its fingerprint is in `layout.meta`, which a saved picture keeps.
    """
    colours = THEMES[theme]
    button = {"color": colours.text, "activecolor": CURRENT, "remove": [UPLOAD_BUTTON]}
    axis = {"gridcolor": colours.grid, "zeroline": False}
    return {
        "title": {"text": title, "x": 0, "xref": "paper", "font": {"size": 15}},
        "legend": LEGEND_BELOW,
        "font": {"color": colours.text, "size": SMALLEST_TEXT},
        "uniformtext": {"minsize": SMALLEST_TEXT, "mode": "hide"},
        "paper_bgcolor": colours.paper,
        "plot_bgcolor": colours.paper,
        "modebar": {"bgcolor": "rgba(0,0,0,0)", **button},
        "meta": None if plan is None else {"plan": plan.fingerprint},
        **({} if x is None else {"xaxis": {**axis, **x}}),
        **({} if y is None else {"yaxis": {**axis, **y}}),
        **more,
    }


def figure(traces: Any, title: str, theme: str, **layout: Any) -> Figure:
    """Return traces inside a `frame`."""
    return Figure(traces, layout=frame(title, theme, **layout))


def panels(**options: Any) -> Figure:
    """Return a figure of several panels; options: those of plotly's `make_subplots`."""
    drawn = Figure()
    make_subplots(figure=drawn, **options)
    return drawn


def bar(name: str, x: Sequence[Any], y: Sequence[Any], look: Look, **more: Any) -> go.Bar:
    """Return bars of one part, in its colour and pattern; `hovertemplate` gets no second box."""
    colour, shape = look
    pattern = {"shape": shape, "fgcolor": HATCH_COLOUR}
    return go.Bar(name=name, x=x, y=y, **{"marker": {"color": colour, "pattern": pattern}, **more})


def curve(
    name: str, x: Sequence[Any], y: Sequence[Any], look: Sequence[str], **more: Any
) -> go.Scatter:
    """Return a line with a mark at every point; `look` is its colour, dash and symbol."""
    colour, dash, symbol = look
    line, marker = {"color": colour, "dash": dash}, {"symbol": symbol}
    return go.Scatter(
        name=name, x=x, y=y, mode="lines+markers", **{"line": line, "marker": marker, **more}
    )


def flat_scale(colours: Iterable[str]) -> list[tuple[float, str]]:
    """Return a colour scale of equal steps, for codes from 0 between -0.5 and their count - 0.5."""
    steps = list(colours)
    return [
        ((number + edge) / len(steps), colour)
        for number, colour in enumerate(steps)
        for edge in (0, 1)
    ]


Cell = tuple[Any, str, str]
"""Kind of a cell, the text inside it, and that of its hover as `customdata`."""


def cells(
    grid: Sequence[Sequence[Cell]], colours: Mapping[Any, str], *, written: bool = True, **more: Any
) -> go.Heatmap:
    """Return rows of cells, each in the colour of its kind; past the end of a row is nothing."""
    width = max(map(len, grid), default=0)
    rows = [[*row, *[(None, "", "")] * (width - len(row))] for row in grid]
    codes = {kind: code for code, kind in enumerate(colours)}
    return go.Heatmap(
        z=[[codes.get(kind) for kind, _text, _words in row] for row in rows],
        zmin=-0.5,
        zmax=len(colours) - 0.5,
        colorscale=flat_scale(colours.values()),
        text=[[text for _kind, text, _words in row] for row in rows] if written else None,
        texttemplate="%{text}" if written else None,
        customdata=[[words for _kind, _text, words in row] for row in rows],
        hoverongaps=False,
        showscale=False,
        **{"xgap": 1, "ygap": 1, **more},
    )


def steps(start: int, end: int, count: int) -> list[range]:
    """Return the numbers from `start` to `end` (excluded) in at most `count` equal steps."""
    width = max(1, cdiv(end - start, count))
    return [range(low, min(low + width, end)) for low in range(start, end, width)]


def step_text(step: range) -> str:
    """Return the first and the last number of a step."""
    return str(step[0]) if len(step) == 1 else f"{step[0]}-{step[-1]}"


def cut_text(**left: int) -> str:
    """Return how many columns, rows or others are not drawn; nothing where all are."""
    more = ", ".join(f"{count:,} more {what}" for what, count in left.items() if count > 0)
    return f" ({more})" if more else ""
