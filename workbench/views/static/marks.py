"""What a trace draws between its axes: bars, lines, symbols and cells."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from workbench.views.html import Html, tag
from workbench.views.static.axis import Axis
from workbench.views.static.colours import rgba
from workbench.views.static.text import SIZE, plain_text, text_element, width_of

DASHES: Final = {"dot": "2 3", "dash": "8 5", "longdash": "12 6", "dashdot": "8 4 2 4"}
HATCHES: Final = {
    "/": "M0 8L8 0M-2 2L2 -2M6 10L10 6",
    "\\": "M0 0L8 8M-2 6L2 10M6 -2L10 2",
    "x": "M0 0L8 8M8 0L0 8",
    "-": "M0 4H8",
    "|": "M4 0V8",
    "+": "M0 4H8M4 0V8",
    ".": "M3 4H5",
}
"""Pattern of plotly -> path in a tile of 8 x 8."""
BAR_SHARE: Final = 0.8
WHITE, BLACK = "#ffffff", "#111111"
BRIGHT: Final = 105_000
"""Weighted sum of red, green and blue (0 to 255,000) from which black is easier to read."""
MOSTLY_THERE: Final = 0.5
LABEL: Final[dict[str, Any]] = {"class_": "wbs-t"}


def each(value: Any, count: int) -> list[Any]:
    """Return one value per point, of a list or of what holds for all of them."""
    if value is None or isinstance(value, str | int | float):
        return [value] * count
    return [*value, *[None] * (count - len(value))][:count]


def path(commands: str, **look: Any) -> Html:
    """Return a path; nothing without commands."""
    return tag("path", d=commands, **look) if commands else Html()


# Bars ---------------------------------------------------------------------------------------------


class Bars:
    """The bars of one panel: they know what is below them, and collect their patterns."""

    def __init__(
        self, barmode: str | None, count: int, patterns: dict[tuple[str, str], str]
    ) -> None:
        self.stacked = barmode in {"stack", "relative"}
        self.share = 1 if self.stacked or barmode == "overlay" else max(count, 1)
        self.number = 0
        self.ends: dict[Any, float] = {}
        self.patterns = patterns

    def spans(self, trace: Any) -> Iterator[tuple[Any, float, float]]:
        """Yield (position, start, end) of every bar, in values of its axes; stacks them."""
        places, sizes = (trace.y, trace.x) if trace.orientation == "h" else (trace.x, trace.y)
        bases = each(trace.base, len(sizes))
        for place, size, base in zip(places, sizes, bases, strict=True):
            if size is None:
                yield place, 0.0, 0.0
                continue
            start = base if base is not None else self.ends.get(place, 0.0) * self.stacked
            self.ends[place] = start + size
            yield place, float(start), float(start + size)

    def draw(self, trace: Any, across: Axis, along: Axis) -> Iterator[Html]:
        """Yield the bars of a trace. across: axis of the positions; along: that of the sizes."""
        spans = list(self.spans(trace))
        colours = each(trace.marker.color, len(spans))
        shapes = each(trace.marker.pattern.shape, len(spans))
        thick = (trace.width or BAR_SHARE) * across.step / self.share
        shift = (self.number - (self.share - 1) / 2) * thick if self.share > 1 else 0
        self.number += 1
        for at, (place, start, end) in enumerate(spans):
            middle, one, two = across.place(place), along.place(start), along.place(end)
            if middle is None or one is None or two is None or one == two:
                continue
            box = _box(middle + shift, thick, one, two, is_flat=trace.orientation == "h")
            yield tag("rect", **box, fill=self._fill(colours[at], shapes[at]), **_edge(trace))
            yield _bar_text(trace, at, box)

    def fill_of(self, trace: Any) -> str:
        """Return the filling of the first bar of a trace, for the legend."""
        colours, shapes = trace.marker.color, trace.marker.pattern.shape
        return self._fill(each(colours, 1)[0], each(shapes, 1)[0])

    def _fill(self, colour: str, shape: str | None) -> str:
        if not shape:
            return colour
        name = self.patterns.setdefault((colour, shape), f"wbs-p{len(self.patterns)}")
        return f"url(#{name})"


def _edge(trace: Any) -> dict[str, Any]:
    line = trace.marker.line
    return {"stroke": line.color, "stroke_width": line.width} if line.width and line.color else {}


def _box(middle: float, thick: float, one: float, two: float, *, is_flat: bool) -> dict[str, str]:
    low, long = min(one, two), abs(two - one)
    x, y, width, height = low, middle - thick / 2, long, thick
    if not is_flat:
        x, y, width, height = y, x, height, width
    return {"x": f"{x:.2f}", "y": f"{y:.2f}", "width": f"{width:.2f}", "height": f"{height:.2f}"}


def _bar_text(trace: Any, at: int, box: Mapping[str, str]) -> Html:
    """Return the text of a bar: inside where it fits, or above it."""
    text = each(trace.text, at + 1)[at]
    if not text:
        return Html()
    x, y, width, height = (float(box[name]) for name in ("x", "y", "width", "height"))
    if trace.textposition == "outside":
        return text_element([text], x + width / 2, y - 4, anchor="middle", **LABEL)
    if width_of(text) > width or height < SIZE:
        return Html()
    colour = each(trace.marker.color, at + 1)[at]
    look = on_colour(colour) | {"stroke": colour, "stroke_width": 3, "paint_order": "stroke"}
    if trace.insidetextfont.color:
        look = LABEL
    return text_element([text], x + width / 2, y + height / 2 + 4, anchor="middle", **look)


def patterns_html(patterns: Mapping[tuple[str, str], str]) -> Html:
    """Return the hatchings that bars refer to."""
    drawn = (
        tag(
            "pattern",
            tag("rect", width=8, height=8, fill=colour),
            path(HATCHES[shape], stroke=WHITE, stroke_width=1.5, stroke_opacity=0.8),
            id=name,
            width=8,
            height=8,
            patternUnits="userSpaceOnUse",
        )
        for (colour, shape), name in patterns.items()
    )
    return tag("defs", *drawn) if patterns else Html()


# Lines and symbols --------------------------------------------------------------------------------


def scatter(trace: Any, x: Axis, y: Axis) -> Iterator[Html]:
    """Yield the line, the symbols and the texts of a trace, as its mode says."""
    xs, ys = trace.x if trace.x is not None else (), trace.y if trace.y is not None else ()
    points = [(x.place(a), y.place(b)) for a, b in zip(xs, ys, strict=False)]
    mode = trace.mode or "lines"
    if "lines" in mode:
        yield line_of(points, trace.line, jumps=trace.line.shape == "hv")
    if "markers" in mode and trace.marker.opacity != 0:
        yield from _symbols(trace, points)
    if "text" in mode:
        yield from _texts(trace, points)


def line_of(points: Sequence[tuple[float | None, float | None]], line: Any, *, jumps: bool) -> Html:
    """Return points joined; a gap ends a line, and steps are level, then steep, where it jumps."""
    commands, is_open = "", False
    for x, y in points:
        if x is None or y is None:
            is_open = False
            continue
        draw = (f"H{x:.1f}V{y:.1f}" if jumps else f"L{x:.1f} {y:.1f}") if is_open else ""
        commands += draw or f"M{x:.1f} {y:.1f}"
        is_open = True
    dash = DASHES.get(line.dash or "")
    look = {"fill": "none", "stroke": line.color or "#767676", "stroke_width": line.width or 2}
    return path(commands, **look, stroke_dasharray=dash)


SYMBOLS: Final[Mapping[str, str]] = {
    "square": "M-1 -1H1V1H-1Z",
    "diamond": "M0 -1.3L1.3 0L0 1.3L-1.3 0Z",
    "triangle-up": "M0 -1.2L1.1 .9H-1.1Z",
    "triangle-down": "M0 1.2L1.1 -.9H-1.1Z",
    "hexagon": "M-.6 -1H.6L1.2 0L.6 1H-.6L-1.2 0Z",
    "x": "M-1 -.6L-.6 -1L0 -.4L.6 -1L1 -.6L.4 0L1 .6L.6 1L0 .4L-.6 1L-1 .6L-.4 0Z",
}
"""Outline of a symbol around the origin; what is not here is a circle."""


def symbol(name: str | None, x: float, y: float, size: float, colour: str | None) -> Html:
    """Return one symbol; an open one has no filling."""
    open_, shape = (name or "").endswith("-open"), (name or "circle").removesuffix("-open")
    colour = colour or "#767676"
    look = {"fill": "none" if open_ else colour, "stroke": colour if open_ else None}
    if shape not in SYMBOLS:
        return tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=f"{size / 2:g}", **look)
    moved = f"translate({x:.1f} {y:.1f}) scale({size / 2:g})"
    return path(SYMBOLS[shape], transform=moved, **look, vector_effect="non-scaling-stroke")


def _symbols(trace: Any, points: Sequence[tuple[float | None, float | None]]) -> Iterator[Html]:
    count = len(points)
    colour = trace.line.color if trace.marker.color is None else trace.marker.color
    looks = (trace.marker.symbol, trace.marker.size, colour)
    for (x, y), name, size, colour in zip(points, *(each(v, count) for v in looks), strict=True):
        if x is not None and y is not None:
            yield symbol(name, x, y, size or 6, colour)


def _texts(trace: Any, points: Sequence[tuple[float | None, float | None]]) -> Iterator[Html]:
    count = len(points)
    places = each(trace.textposition or "middle center", count)
    for (x, y), text, place in zip(points, each(trace.text, count), places, strict=True):
        if x is None or y is None or not text:
            continue
        lines = text.split("<br>")
        up, side = place.split(" ")
        # The text of a point keeps clear of its symbol.
        down = {"top": -9 - 1.3 * SIZE * (len(lines) - 1), "bottom": 22}.get(up, 4)
        anchor, right = {"left": ("end", -9), "right": ("start", 9)}.get(side, ("middle", 0))
        yield text_element(lines, x + right, y + down, anchor=anchor, **LABEL)


# Cells --------------------------------------------------------------------------------------------


def cells(trace: Any, x: Axis, y: Axis, colour_of: Callable[[float], str]) -> Iterator[Html]:
    """Yield one path per colour with all its cells, then the texts that fit."""
    columns, across = cell_places(trace.x, trace.x0, trace.dx, x, len(trace.z[0]))
    rows, down = cell_places(trace.y, trace.y0, trace.dy, y, len(trace.z))
    width, height = across * x.step, down * y.step
    gaps = (trace.xgap or 0, trace.ygap or 0)
    box = f"h{width - gaps[0]:.1f}v{height - gaps[1]:.1f}h{gaps[0] - width:.1f}z"
    drawn: dict[str, str] = {}
    texts: list[Html] = []
    for number, line in enumerate(trace.z):
        middle = y.pixel(rows[number])
        words = each(trace.text[number] if trace.text is not None else None, len(line))
        for at, value in enumerate(line):
            if value is None or value != value:  # noqa: PLR0124 - not a number
                continue
            centre = x.pixel(columns[at])
            corner = f"M{centre - width / 2:.1f} {middle - height / 2:.1f}"
            drawn[colour_of(value)] = drawn.get(colour_of(value), "") + corner + box
            if words[at] and width_of(words[at]) <= width and height >= SIZE:
                texts.append(_cell_text(words[at], centre, middle, colour_of(value)))
    yield from (path(commands, fill=colour) for colour, commands in drawn.items())
    yield tag("g", *texts, text_anchor="middle")


def cell_places(
    values: Any, start: Any, step: Any, axis: Axis, count: int
) -> tuple[list[float], float]:
    """Return the numbers of columns or rows on their axis, and the step between two of them."""
    if values is None:
        step = float(step or 1)
        return [float(start or 0) + at * step for at in range(count)], step
    numbers = [axis.number(value) or 0.0 for value in values]
    return numbers, abs(numbers[1] - numbers[0]) if len(numbers) > 1 else 1.0


def _cell_text(words: Any, x: float, y: float, colour: str) -> Html:
    place = {"x": f"{x:.1f}", "y": f"{y + 4:.1f}"}
    return tag("text", plain_text(str(words)), **place, **on_colour(colour))


def on_colour(colour: str) -> dict[str, Any]:
    """Return the look of a text on a colour: black or white, or the page's on what is faint."""
    red, green, blue, opacity = rgba(colour)
    if opacity < MOSTLY_THERE:
        return LABEL
    return {"fill": BLACK if 299 * red + 587 * green + 114 * blue > BRIGHT else WHITE}
