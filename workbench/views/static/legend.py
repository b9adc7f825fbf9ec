"""The legend of a static picture: lines of names, each next to how its part is drawn."""

from collections.abc import Iterator
from typing import Any, Final

from workbench.views.html import Html, join, tag
from workbench.views.static import marks
from workbench.views.static.text import plain_text, text_element, width_of

WIDTH: Final = 960
"""Pixels of every picture; HTML shows it smaller where there is less room."""
EDGE: Final = 14
LINE: Final = 20


def legend_entries(
    figure: Any, patterns: dict[tuple[str, str], str]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, trace and filling of everything that the legend explains."""
    traces = [t for t in figure.data if t.type in {"bar", "scatter"}]
    if figure.layout.showlegend is False or (len(traces) < 2 and not figure.layout.showlegend):
        return
    bars = marks.Bars(None, 1, patterns)
    for trace in traces:
        if trace.showlegend is not False and trace.name:
            yield trace.name, trace, bars.fill_of(trace) if trace.type == "bar" else None


def legend_rows(entries: list[tuple[str, Any, Any]]) -> list[list[tuple[float, Any]]]:
    """Return the entries in lines, each with its place."""
    rows: list[list[tuple[float, Any]]] = []
    at = float(WIDTH)
    for entry in entries:
        width = width_of(entry[0]) + 52
        if at + width > WIDTH - EDGE:
            rows, at = [*rows, []], float(EDGE)
        rows[-1].append((at, entry))
        at += width
    return rows


def legend(rows: list[list[tuple[float, Any]]], top: float) -> Iterator[Html]:
    """Yield the swatches and names of these lines, from `top` down."""
    for number, row in enumerate(rows):
        y = top + LINE * (number + 0.5)
        for x, (name, trace, filling) in row:
            yield _swatch(trace, filling, x, y)
            yield text_element([plain_text(name)], x + 34, y + 4, **marks.LABEL)


def _swatch(trace: Any, filling: str | None, x: float, y: float) -> Html:
    if filling is not None:
        return tag("rect", x=f"{x:.1f}", y=f"{y - 6:.1f}", width=28, height=12, fill=filling)
    mode = trace.mode or "lines"
    parts = []
    if "lines" in mode:
        parts.append(marks.line_of([(x, y), (x + 28, y)], trace.line, jumps=False))
    if "markers" in mode:
        first = [marks.each(v, 1)[0] for v in (trace.marker.symbol, trace.marker.color)]
        parts.append(marks.symbol(first[0], x + 14, y, 9, first[1] or trace.line.color))
    return join(*parts)
