"""The alternative text of a figure: what it shows, for those who do not see it."""

from collections.abc import Iterator
from typing import Any, Final

from workbench.views.static.text import plain_text

LONGEST: Final = 900
MOST_VALUES: Final = 6
KINDS: Final = {
    "bar": "bars",
    "scatter": "points and lines",
    "heatmap": "cells",
    "parcoords": "parallel axes",
}


def alternative_text(figure: Any) -> str:
    """Return the title, the axes, and every named part of a figure with its few numbers."""
    layout = figure.layout
    titles = [layout.title.text or "", *(note.text for note in layout.annotations)]
    kinds = dict.fromkeys(
        KINDS.get(trace.type, f"{trace.type}, not drawn") for trace in figure.data
    )
    axes = [axis.title.text for axis in (*figure.select_xaxes(), *figure.select_yaxes())]
    shown = f"Drawn as {', '.join(kinds)}" + _over(dict.fromkeys(filter(None, axes)))
    parts = [plain_text(title).rstrip(".") for title in titles if title]
    text = ". ".join([*parts, shown, *dict.fromkeys(_parts(figure))]) + "."
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1].rsplit(' ', 1)[0]}…"


def _over(axes: dict[str, None]) -> str:
    return f" over: {', '.join(map(plain_text, axes))}" if axes else ""


def _parts(figure: Any) -> Iterator[str]:
    """Yield the named parts; a part with few numbers is named with them."""
    for trace in figure.data:
        if trace.type == "heatmap" and trace.y is not None and isinstance(trace.y[0], str):
            yield f"Rows: {', '.join(map(plain_text, trace.y[:MOST_VALUES]))}"
        elif trace.type == "parcoords":
            yield f"Axes: {', '.join(dimension.label for dimension in trace.dimensions)}"
        elif trace.type in {"bar", "scatter"} and trace.name and trace.showlegend is not False:
            yield plain_text(trace.name) + _values(trace)


def _values(trace: Any) -> str:
    """Return the numbers of a bar, as long as they are few."""
    found = trace.x if trace.orientation == "h" else trace.y
    if trace.type != "bar" or found is None or not 0 < len(found) <= MOST_VALUES:
        return ""
    values = (value for value in found if value is not None)
    return ": " + ", ".join(f"{v:,.4g}" if v < 1000 else f"{v:,.0f}" for v in values)
