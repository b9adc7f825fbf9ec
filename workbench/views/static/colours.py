"""Colours of a static picture: plotly's scales, and a card that is readable on any page."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from workbench.views.html import Html, tag

CARDS: Final = {
    "light": ("#ffffff", "#222222", "#dddddd"),
    "dark": ("#111111", "#e0e0e0", "#444444"),
}
"""Background, text and grid; the picture brings its background, so no page can hide its text."""


def style(paper: str | None, text: str | None) -> Html:
    """Return the style sheet: of a theme that the figure names, else of the reader's."""
    if paper and paper.startswith("#"):
        return tag("style", Html(_rules(paper, text or "#222222", "#88888866")))
    dark = f"@media (prefers-color-scheme:dark){{{_rules(*CARDS['dark'])}}}"
    return tag("style", Html(_rules(*CARDS["light"]) + dark))


def _rules(paper: str, text: str, grid: str) -> str:
    # Text has an edge in the colour of the paper, to be read on top of lines.
    edge = f"stroke:{paper};stroke-width:3px;stroke-linejoin:round;paint-order:stroke"
    return f".wbs-b{{fill:{paper}}}.wbs-t{{fill:{text};{edge}}}.wbs-g{{stroke:{grid};fill:none}}"


def rgba(colour: str) -> tuple[float, float, float, float]:
    """Return red, green, blue (0 to 255) and opacity of "#0072B2" or "rgba(0,114,178,0.5)".

    >>> rgba("#0072B2")
    (0.0, 114.0, 178.0, 1.0)
    """
    if colour.startswith("#"):
        red, green, blue = (float(int(colour[at : at + 2], 16)) for at in (1, 3, 5))
        return red, green, blue, 1.0
    parts = [float(part) for part in colour.partition("(")[2].rstrip(")").split(",")]
    red, green, blue, *more = parts
    return red, green, blue, more[0] if more else 1.0


def colour_at(scale: Sequence[Any], share: float) -> str:
    """Return the colour at a share of a scale of (share, colour), blended between two of them."""
    share = min(max(share, 0.0), 1.0)
    steps = [(float(at), str(colour)) for at, colour in scale]
    for (low, one), (high, two) in pairwise(steps):
        if low <= share <= high and low != high:
            return one if one == two else _blend(one, two, (share - low) / (high - low))
    return steps[-1][1]


def _blend(one: str, two: str, share: float) -> str:
    pairs = zip(rgba(one), rgba(two), strict=True)
    red, green, blue, opacity = (first + (second - first) * share for first, second in pairs)
    if opacity >= 1:
        return f"#{round(red):02x}{round(green):02x}{round(blue):02x}"
    return f"rgba({red:.0f},{green:.0f},{blue:.0f},{opacity:.3g})"
