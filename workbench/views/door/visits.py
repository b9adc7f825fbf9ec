"""The scenarios that were tried, newest first: what changed, its answers, and one click back."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from workbench.core.what_if.answers import Answers
from workbench.views.door.buttons import button, opening
from workbench.views.door.tiles import TILES
from workbench.views.html import Html, tag

HISTORY = "history"
LISTED = 40


class Line(NamedTuple):
    """A scenario of the list. number: its place; changes: what differs from the one before it."""

    number: int
    changes: str
    answers: Answers | None


def history(lines: Sequence[Line], shown: int, *, is_open: bool) -> Html:
    """Return the button that opens the list, and the list while it is open."""
    pop = tag("div", *_rows(lines, shown), class_="wb-pop wb-history") if is_open else Html()
    return opening(HISTORY, "History", "History: what was tried", pop)


def _rows(lines: Sequence[Line], shown: int) -> Iterable[Html]:
    for line in reversed(lines[-LISTED:]):
        yield button(
            _line(line), "go", line.number, aria_current="true" if line.number == shown else None
        )


def _line(line: Line) -> Html:
    answers = "refused"
    if line.answers is not None:
        answers = " · ".join(tile.value(line.answers) for tile in TILES)
    return Html(tag("b", line.changes) + tag("span", answers, class_="wb-faint"))
