"""A figure of plotly as one SVG: title, panels with their axes, legend; its words as its title."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from workbench.views.html import Html, tag
from workbench.views.static import marks
from workbench.views.static.axis import Axis
from workbench.views.static.colours import colour_at, style
from workbench.views.static.legend import EDGE, LINE, WIDTH, legend, legend_entries, legend_rows
from workbench.views.static.parcoords import parallel_axes
from workbench.views.static.scales import Frame, axes_of, axis_key, panels_of
from workbench.views.static.text import SIZE, text_element, width_of, wrapped
from workbench.views.static.words import alternative_text

HEIGHT: Final = 450
TITLE_SIZE: Final = 15
TICK_ROOM, AXIS_TITLE_ROOM = 22, 20
BAR_ROOM: Final = 90
LONGEST_LABEL: Final = 320
"""Pixels that the names of rows may take."""


def picture(figure: Any) -> Html:
    """Return the figure as SVG with alternative text. Without a size of its own it is 960 wide."""
    title = wrapped(figure.layout.title.text or "", WIDTH - 2 * EDGE, TITLE_SIZE)
    patterns: dict[tuple[str, str], str] = {}
    entries = list(legend_entries(figure, patterns))
    rows = legend_rows(entries)
    top = _top(figure, title)
    bottom = _bottom(figure)
    given = figure.layout.margin
    height = float(figure.layout.height or HEIGHT)
    inner = max(height - float(given.t or 100) - float(given.b or 80), 60.0)
    frame = Frame(_left(figure), WIDTH - _right(figure), top, top + inner)
    height = frame.bottom + bottom + LINE * len(rows) + EDGE
    words = alternative_text(figure)
    return tag(
        "svg",
        tag("title", words),
        style(figure.layout.paper_bgcolor, figure.layout.font.color),
        tag("rect", width=WIDTH, height=f"{height:g}", class_="wbs-b"),
        text_element(title, EDGE, EDGE + TITLE_SIZE, size=TITLE_SIZE, **marks.LABEL),
        *_panels(figure, frame, patterns),
        *_annotations(figure, frame),
        *legend(rows, frame.bottom + bottom),
        marks.patterns_html(patterns),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height:g}",
        width=WIDTH,
        height=f"{height:g}",
        role="img",
        aria_label=words,
        font_family="system-ui, sans-serif",
        font_size=SIZE,
    )


# Room around the panels ---------------------------------------------------------------------------


def _top(figure: Any, title: list[str]) -> float:
    used = EDGE + LINE * len([line for line in title if line]) + 12
    lines = max((len(note.text.split("<br>")) for note in figure.layout.annotations), default=0)
    above = [a for a in figure.select_xaxes() if a.side == "top" and a.visible is not False]
    room = sum(2 * TICK_ROOM + AXIS_TITLE_ROOM * bool(axis.title.text) for axis in above)
    room += 2 * LINE * any(trace.type == "parcoords" for trace in figure.data)
    return max(used + LINE * lines + room, 40)


def _bottom(figure: Any) -> float:
    below = [a for a in figure.select_xaxes() if a.side != "top"]
    titled = AXIS_TITLE_ROOM * any(axis.title.text for axis in below)
    return TICK_ROOM + titled + 8 + _tilt_room(figure)


def _tilt_room(figure: Any) -> float:
    """Return the room of names that stand upright, because they do not fit next to each other."""
    frame = Frame(_left(figure), WIDTH - _right(figure), 0, 100)
    axes = axes_of(figure, frame)
    longest = [_longest(axis) for name, axis in axes.items() if name[0] == "x" and _is_tilted(axis)]
    return max(longest, default=0.0)


def _longest(axis: Axis) -> float:
    return max((width_of(text) for _at, text in axis.ticks()), default=0.0)


def _is_tilted(axis: Axis) -> bool:
    return bool(axis.names) and axis.spec.side != "top" and _longest(axis) + 6 > axis.step


def _left(figure: Any) -> float:
    axes = axes_of(figure, Frame(0, WIDTH, 0, 300))
    rows = [axis for name, axis in axes.items() if name[0] == "y" and _shows_ticks(axis)]
    widest = max((min(_longest(axis), LONGEST_LABEL) for axis in rows), default=0.0)
    titled = LINE * any(axis.spec.title.text for axis in rows)
    return EDGE + widest + 10 + titled


def _right(figure: Any) -> float:
    scaled = any(t.type == "heatmap" and t.showscale is not False for t in figure.data)
    return 30 + BAR_ROOM * scaled


# Panels -------------------------------------------------------------------------------------------


def _panels(figure: Any, frame: Frame, patterns: dict[tuple[str, str], str]) -> Iterator[Html]:
    axes = axes_of(figure, frame)
    for (x_name, y_name), traces in panels_of(figure).items():
        x, y = axes[x_name], axes[y_name]
        if any(trace.type != "heatmap" for trace in traces):
            yield _grid(x, y)
        yield from _x_axis(x, y)
        yield from _y_axis(y, x)
        bars = marks.Bars(figure.layout.barmode, sum(t.type == "bar" for t in traces), patterns)
        for trace in traces:
            if trace.visible is not False:
                yield from _trace(trace, x, y, bars)
    yield from (_shape(shape, axes) for shape in figure.layout.shapes)
    yield from _colour_bars(figure, frame)
    for trace in figure.data:
        if trace.type == "parcoords":
            yield from parallel_axes(trace, frame)


def _trace(trace: Any, x: Axis, y: Axis, bars: marks.Bars) -> Iterator[Html]:
    if trace.type == "bar":
        across, along = (y, x) if trace.orientation == "h" else (x, y)
        yield from bars.draw(trace, across, along)
    elif trace.type == "heatmap" and trace.z is not None and len(trace.z):
        yield from marks.cells(trace, x, y, _colours(trace))
    elif trace.type == "scatter":
        yield from marks.scatter(trace, x, y)


def _colours(trace: Any) -> Any:
    low, high = trace.zmin or 0, trace.zmax if trace.zmax is not None else 1
    return lambda value: colour_at(trace.colorscale, (value - low) / ((high - low) or 1))


def _grid(x: Axis, y: Axis) -> Html:
    """Return a faint line at every tick."""
    commands = ""
    if x.spec.showgrid is not False and x.spec.visible is not False:
        commands = "".join(f"M{at:.1f} {y.start:.1f}V{y.end:.1f}" for at, _text in x.ticks())
    if y.spec.showgrid is not False and y.spec.visible is not False:
        commands += "".join(f"M{x.start:.1f} {at:.1f}H{x.end:.1f}" for at, _text in y.ticks())
    return marks.path(commands, class_="wbs-g")


def _shows_ticks(axis: Axis) -> bool:
    return axis.spec.visible is not False and axis.spec.showticklabels is not False


def _x_axis(x: Axis, y: Axis) -> Iterator[Html]:
    """Yield ticks and title of the horizontal axis."""
    if x.spec.visible is False:
        return
    ends = sorted((y.start, y.end))
    is_top = x.spec.side == "top"
    line = ends[0] if is_top else ends[1]
    ticks = x.ticks()
    tilted = _is_tilted(x)
    if _shows_ticks(x):
        yield from _x_labels(x, ticks, line + (-6 if is_top else 16), tilted=tilted)
    if x.spec.title.text:
        room = TICK_ROOM + AXIS_TITLE_ROOM - 6 + (_longest(x) if tilted else 0)
        at = line - TICK_ROOM - 2 if is_top else line + room
        middle = (x.start + x.end) / 2
        yield text_element([x.spec.title.text], middle, at, anchor="middle", **marks.LABEL)


def _x_labels(x: Axis, ticks: list[tuple[float, str]], y: float, *, tilted: bool) -> Iterator[Html]:
    """Yield the words of ticks: upright where names do not fit, and no two on each other."""
    end = -1e9
    for at, text in ticks:
        if tilted and (at - end > SIZE or end < 0):
            turned = f"rotate(-90 {at + 4:.1f} {y - 6:.1f})"
            yield text_element([text], at + 4, y - 6, anchor="end", transform=turned, **marks.LABEL)
            end = at
            continue
        lines = wrapped(text, x.step, SIZE) if x.names and not tilted else [text]
        half = max(map(width_of, lines)) / 2
        if not tilted and at - half > end:
            up = 1.3 * SIZE * (len(lines) - 1) * (x.spec.side == "top")
            yield text_element(lines, at, y - up, anchor="middle", **marks.LABEL)
            end = at + half


def _y_axis(y: Axis, x: Axis) -> Iterator[Html]:
    """Yield ticks and title of the vertical axis."""
    if not _shows_ticks(y):
        return
    last = 1e9
    for at, text in sorted(y.ticks(), reverse=True):
        if last - at >= SIZE:
            lines = text.split("<br>")
            up = at + 4 - 8 * (len(lines) - 1)
            yield text_element(lines, x.start - 8, up, anchor="end", **marks.LABEL)
            last = at
    if y.spec.title.text:
        middle = (y.start + y.end) / 2
        turned = f"rotate(-90 {EDGE + 8} {middle:.1f})"
        look = {"anchor": "middle", "transform": turned, **marks.LABEL}
        yield text_element([y.spec.title.text], EDGE + 8, middle, **look)


def _shape(shape: Any, axes: Mapping[str, Axis]) -> Html:
    """Return a rectangle in the values of its axes."""
    x, y = axes[axis_key("x", shape.xref)], axes[axis_key("y", shape.yref)]
    across = sorted((x.pixel(float(shape.x0)), x.pixel(float(shape.x1))))
    down = sorted((y.pixel(float(shape.y0)), y.pixel(float(shape.y1))))
    return marks.path(
        f"M{across[0]:.1f} {down[0]:.1f}H{across[1]:.1f}V{down[1]:.1f}H{across[0]:.1f}Z",
        fill="none",
        stroke=shape.line.color,
        stroke_width=shape.line.width,
    )


def _annotations(figure: Any, frame: Frame) -> Iterator[Html]:
    """Yield the titles of panels."""
    width, height = frame.right - frame.left, frame.bottom - frame.top
    for note in figure.layout.annotations:
        lines = note.text.split("<br>")
        x, y = frame.left + note.x * width, frame.bottom - note.y * height
        up = 6 + 1.3 * SIZE * (len(lines) - 1)
        yield text_element(lines, x, y - up, anchor="middle", **marks.LABEL)


def _colour_bars(figure: Any, frame: Frame) -> Iterator[Html]:
    """Yield what the colours of cells mean, where they are a scale."""
    for trace in figure.data:
        if trace.type != "heatmap" or trace.showscale is False:
            continue
        left, steps = frame.right + 24, 5
        height = min(160.0, frame.bottom - frame.top) / steps
        heading = trace.colorbar.title.text or ""
        yield text_element([heading], left, frame.top - 6, **marks.LABEL)
        for number in range(steps):
            share = 1 - number / (steps - 1)
            place = {"x": f"{left:g}", "y": f"{frame.top + number * height:.1f}"}
            box = {**place, "width": 14, "height": f"{height:.1f}"}
            yield tag("rect", **box, fill=colour_at(trace.colorscale, share))
            y = frame.top + (number + 0.5) * height + 4
            yield text_element([f"{share:.0%}"], left + 20, y, **marks.LABEL)
