"""Which axes a figure has, what is on each, and so how far each of them reaches."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from workbench.views.static.axis import Axis, axis_range, names_of
from workbench.views.static.marks import Bars, cell_places

OUTSIDE_ROOM = 1.12

Span = tuple[float, float, bool]
"""Low, high, and whether a margin is drawn around them."""


class Frame(NamedTuple):
    """The rectangle of all panels together, in pixels."""

    left: float
    right: float
    top: float
    bottom: float


def axis_key(letter: str, name: str | None) -> str:
    """Return the name in the layout of a trace's axis: "xaxis2" for "x2"."""
    return f"{letter}axis{(name or letter)[1:]}"


def panels_of(figure: Any) -> dict[tuple[str, str], list[Any]]:
    """Return the traces by the names of their two axes."""
    panels: dict[tuple[str, str], list[Any]] = {}
    for trace in figure.data:
        if trace.type in {"bar", "scatter", "heatmap"}:
            key = axis_key("x", trace.xaxis), axis_key("y", trace.yaxis)
            panels.setdefault(key, []).append(trace)
    return panels


def axes_of(figure: Any, frame: Frame) -> dict[str, Axis]:
    """Return every axis that a trace uses, with its range and its place."""
    panels = panels_of(figure)
    return {
        name: _axis(figure, name, panels, frame)
        for name in dict.fromkeys(name for pair in panels for name in pair)
    }


def _axis(
    figure: Any, name: str, panels: Mapping[tuple[str, str], list[Any]], frame: Frame
) -> Axis:
    spec, letter = figure.layout[name], name[0]
    family = _family(figure, name)
    shared = {pair: traces for pair, traces in panels.items() if family & set(pair)}
    values = [value for traces in shared.values() for t in traces for value in _values(t, letter)]
    is_named = spec.type == "category" or any(isinstance(value, str) for value in values)
    start, end = _ends(figure, spec, letter, frame)
    axis = Axis(
        low=0,
        high=1,
        start=start,
        end=end,
        is_log=spec.type == "log",
        names=names_of(values) if is_named else (),
        spec=spec,
    )
    spans = [s for traces in shared.values() for s in _spans(traces, axis, letter, figure.layout)]
    low, high = axis_range(spec, spans, is_log=axis.is_log)
    return replace(axis, low=low, high=high)


def _family(figure: Any, name: str) -> set[str]:
    """Return the axes that share a range with this one."""
    root = _root(figure, name)
    every = (axis.plotly_name for axis in figure.select_xaxes())
    others = (axis.plotly_name for axis in figure.select_yaxes())
    return {name, *(each for each in (*every, *others) if _root(figure, each) == root)}


def _root(figure: Any, name: str) -> str:
    matched = figure.layout[name].matches
    return axis_key(matched[0], matched) if matched else name


def _ends(figure: Any, spec: Any, letter: str, frame: Frame) -> tuple[float, float]:
    base = figure.layout[axis_key(letter, spec.overlaying)] if spec.overlaying else spec
    low, high = base.domain or (0, 1)
    if letter == "x":
        width = frame.right - frame.left
        return frame.left + low * width, frame.left + high * width
    height = frame.bottom - frame.top
    return frame.bottom - low * height, frame.bottom - high * height


def _values(trace: Any, letter: str) -> list[Any]:
    found = trace[letter]
    return [] if found is None else [value for value in found if value is not None]


def _spans(traces: list[Any], axis: Axis, letter: str, layout: Any) -> Iterator[Span]:
    """Yield how far each trace reaches on the axis of this letter."""
    count = sum(trace.type == "bar" for trace in traces)
    bars = Bars(layout.barmode, count, {})
    for trace in traces:
        if trace.type == "heatmap":
            yield from _cell_span(trace, axis, letter)
        elif trace.type == "bar":
            yield from _bar_span(trace, axis, letter, bars)
        else:
            numbers = [
                n for value in _values(trace, letter) if (n := axis.number(value)) is not None
            ]
            has_marks = "markers" in (trace.mode or "")
            yield from [(min(numbers), max(numbers), has_marks)] if numbers else []


def _cell_span(trace: Any, axis: Axis, letter: str) -> Iterator[Span]:
    if trace.z is None or not len(trace.z):
        return
    count = len(trace.z[0]) if letter == "x" else len(trace.z)
    start, step = trace[f"{letter}0"], trace[f"d{letter}"]
    numbers, step = cell_places(trace[letter], start, step, axis, count)
    if numbers:
        yield min(numbers) - step / 2, max(numbers) + step / 2, False


def _bar_span(trace: Any, axis: Axis, letter: str, bars: Bars) -> Iterator[Span]:
    spans = list(bars.spans(trace))
    if letter == ("y" if trace.orientation == "h" else "x"):
        numbers = [axis.number(place) for place, _start, _end in spans]
        yield from ((n - 0.5, n + 0.5, False) for n in numbers if n is not None)
    else:
        # A text above a bar needs room there.
        room = OUTSIDE_ROOM if trace.textposition == "outside" else 1.0
        ends = [axis.number(end) for _place, *both in spans for end in both]
        yield from ((n, n * room, False) for n in ends if n is not None)
