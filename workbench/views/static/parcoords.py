"""Parallel coordinates: one upright axis per dimension, one line per point."""

from collections.abc import Iterator
from typing import Any

from workbench.views.html import Html
from workbench.views.static import marks
from workbench.views.static.axis import nice_steps, tick_text
from workbench.views.static.colours import colour_at
from workbench.views.static.scales import Frame
from workbench.views.static.text import text_element

TICKS = 5


def parallel_axes(trace: Any, frame: Frame) -> Iterator[Html]:
    """Yield the lines, by colour, and the axes over them with their names."""
    dimensions = trace.dimensions
    step = (frame.right - frame.left - 120) / max(len(dimensions) - 1, 1)
    places = [frame.left + 60 + number * step for number in range(len(dimensions))]
    columns = [[_pixel(d, value, frame) for value in d["values"]] for d in dimensions]
    drawn: dict[str, str] = {}
    for code, *points in zip(trace.line.color, *columns, strict=True):
        colour = colour_at(trace.line.colorscale, float(code))
        line = "L".join(f"{x:.0f} {y:.1f}" for x, y in zip(places, points, strict=True))
        drawn[colour] = drawn.get(colour, "") + f"M{line}"
    for colour, commands in drawn.items():
        yield marks.path(commands, fill="none", stroke=colour, stroke_opacity=0.6)
    for number, (dimension, x) in enumerate(zip(dimensions, places, strict=True)):
        yield from _axis(dimension, x, frame, number % 2)


def _ends(dimension: Any) -> tuple[float, float]:
    if dimension.range is not None:
        return float(dimension.range[0]), float(dimension.range[1])
    values = [float(value) for value in dimension["values"]]
    return min(values, default=0.0), max(values, default=1.0)


def _pixel(dimension: Any, value: float, frame: Frame) -> float:
    low, high = _ends(dimension)
    share = (float(value) - low) / (high - low) if high > low else 0.5
    return frame.bottom - share * (frame.bottom - frame.top)


def _axis(dimension: Any, x: float, frame: Frame, step_up: int) -> Iterator[Html]:
    yield marks.path(f"M{x:.0f} {frame.top:.1f}V{frame.bottom:.1f}", class_="wbs-g")
    look = {"anchor": "middle", **marks.LABEL}
    # Every other name is one line higher: neighbours may be longer than the distance.
    yield text_element([dimension.label], x, frame.top - 12 - 16 * step_up, **look)
    for value, text in _ticks(dimension):
        yield text_element([text], x + 5, _pixel(dimension, value, frame) + 4, **marks.LABEL)


def _ticks(dimension: Any) -> list[tuple[float, str]]:
    if dimension.tickvals is not None:
        texts = map(str, dimension.ticktext)
        return list(zip(map(float, dimension.tickvals), texts, strict=True))
    return [(value, tick_text(value, None)) for value in nice_steps(*_ends(dimension), TICKS)]
