"""Words inside a picture: what plotly writes with tags becomes lines and spans of SVG."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Final

from workbench.views.html import Html, join, tag

SIZE: Final = 12
CHARACTER: Final = 0.56
"""Width of an average character of the system's font, in parts of its size."""
_TAG = re.compile(r"<(/?)(b|i|sup|sub|em|strong)>", re.IGNORECASE)
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
SMALL: Final = {"sup": 0.85, "sub": 0.85}
"""A second line of a title is written in small type; it is not raised."""


def plain_text(text: str) -> str:
    """Return a text of plotly without its tags.

    >>> plain_text("<b>1,056 tokens</b><br>in a block")
    '1,056 tokens in a block'
    """
    return unescape(re.sub(r"<[^<>]+>", "", _BREAK.sub(" ", text))).strip()


def width_of(text: str, size: float = SIZE) -> float:
    """Return about how many pixels the longest line takes."""
    return max(len(plain_text(line)) for line in _BREAK.split(text)) * size * CHARACTER


def wrapped(text: str, width: float, size: float) -> list[str]:
    """Return the lines of a text, those that are too long broken between words; tags stay whole."""
    lines: list[str] = []
    for line in _BREAK.split(text):
        kept = ""
        if "<su" in line:
            size *= SMALL["sup"]
        for word in line.split(" "):
            longer = f"{kept} {word}".strip()
            if kept and width_of(longer, size) > width:
                lines.append(kept)
                longer = word
            kept = longer
        lines.append(kept)
    return lines


def text_element(
    lines: list[str],
    x: float,
    y: float,
    *,
    size: float = SIZE,
    anchor: str = "start",
    **look: object,
) -> Html:
    """Return lines below each other; y is the first baseline. Weight carries over line breaks."""
    style: dict[str, object] = {"bold": False, "scale": 1.0}
    rows = []
    for number, line in enumerate(lines):
        parts = list(_spans(line, style))
        down = {} if number == 0 else {"dy": f"{1.3 * size:g}"}
        rows.append(tag("tspan", *parts, x=f"{x:.1f}", **down))
    named = {"font_size": f"{size:g}", "text_anchor": anchor}
    return tag("text", *rows, x=f"{x:.1f}", y=f"{y:.1f}", **named, **look)


def _spans(line: str, style: dict[str, object]) -> Iterator[Html]:
    """Yield the pieces of a line between its tags, and remember what is open."""
    at = 0
    for found in _TAG.finditer(line):
        yield _span(line[at : found.start()], style)
        at, closing, name = found.end(), bool(found[1]), found[2].lower()
        if name in SMALL:
            style["scale"] = 1.0 if closing else SMALL[name]
        elif name in {"b", "strong"}:
            style["bold"] = not closing
    yield _span(line[at:], style)


def _span(text: str, style: dict[str, object]) -> Html:
    if not text:
        return Html()
    bold = "600" if style["bold"] else None
    scale = None if style["scale"] == 1.0 else f"{style['scale']}em"
    words = join(unescape(text))
    return tag("tspan", words, font_weight=bold, font_size=scale) if bold or scale else words
