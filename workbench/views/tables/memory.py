"""Arrays in memory and the programs that read and wrote each entry, as inline SVG.

It needs no script and no style sheet. The text keeps its size: a wide array scrolls sideways.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from workbench.views import palette
from workbench.views.html import Html, document, join, note, tag

COLOURS = (
    *(palette.ATTENTION, palette.CONV, palette.RECURRENT, palette.PINK),
    *(palette.ATTENTION_BEFORE, palette.CURRENT, palette.YELLOW),
)
WIDTH, HEIGHT, LABEL = 44, 36, 66
LEGEND = (
    "r0: read by program 0; w0: written by it. A colour is a program. Dashed: an entry that holds "
    "no data. ✗: outside of the array."
)


class MemoryCell(NamedTuple):
    """One entry. readers, writers: programs."""

    text: str
    readers: tuple[int, ...] = ()
    writers: tuple[int, ...] = ()
    is_empty: bool = False
    """It holds no data."""
    stray: str = ""
    """The access that left the array here: "r0"."""

    @property
    def mark(self) -> str:
        """Return who touched it, in short."""
        read = f"r{','.join(map(str, self.readers))}" if self.readers else ""
        wrote = f"w{','.join(map(str, self.writers))}" if self.writers else ""
        return self.stray or " ".join(filter(None, (read, wrote)))


@dataclass(frozen=True, slots=True)
class MemoryArray:
    """One array: its name, what it holds, and its rows with their labels."""

    name: str
    meaning: str
    rows: Sequence[tuple[str, Sequence[MemoryCell]]]

    @property
    def words(self) -> str:
        """Return the array in words: the alternative text of its picture."""
        touched = (
            f"{label} entry {at} is {cell.text} ({cell.mark})"
            for label, cells in self.rows
            for at, cell in enumerate(cells)
            if cell.mark
        )
        return f"{self.name}, {self.meaning}: {'; '.join(touched) or 'no program touched it'}"


def memory_html(arrays: Sequence[MemoryArray], *messages: Html | str) -> Html:
    """Return messages, then every array with the programs that touched its entries."""
    return document(*messages, *(_array(array) for array in arrays), note(LEGEND))


def _array(array: MemoryArray) -> Html:
    columns = max((len(cells) for _, cells in array.rows), default=0)
    width, height = LABEL + columns * WIDTH + 2, len(array.rows) * HEIGHT + 2
    drawn = (_row(label, cells, y) for y, (label, cells) in enumerate(array.rows))
    picture = tag(
        "svg",
        tag("title", array.words),
        *drawn,
        width=width,
        height=height,
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=array.words,
        font_family="sans-serif",
    )
    title = tag("div", tag("b", array.name), f": {array.meaning}")
    scroll = tag("div", picture, style="overflow-x: auto; overflow-y: hidden")
    return tag("div", title, scroll, style="margin: 8px 0")


def _row(label: str, cells: Sequence[MemoryCell], y: int) -> Html:
    name = _text(label, LABEL - 8, y * HEIGHT + 22, anchor="end")
    return join(name, *(_cell(cell, x, y) for x, cell in enumerate(cells)))


def _cell(cell: MemoryCell, x: int, y: int) -> Html:
    left, top = LABEL + x * WIDTH + 1, y * HEIGHT + 1
    touched = (*cell.writers, *cell.readers)
    colour = COLOURS[touched[0] % len(COLOURS)] if touched else "none"
    box = tag(
        "rect",
        x=left,
        y=top,
        width=WIDTH - 2,
        height=HEIGHT - 2,
        fill=colour,
        fill_opacity=0.4 if cell.writers else 0.18,
        stroke=palette.CURRENT if cell.stray else palette.PADDING,
        stroke_width=3 if cell.stray else 1,
        stroke_dasharray="3 3" if cell.is_empty else None,
    )
    middle = left + WIDTH / 2 - 1
    return join(
        box, _text(cell.text, middle, top + 15), _text(cell.mark, middle, top + 30, weight=600)
    )


def _text(text: str, x: float, y: float, anchor: str = "middle", weight: int = 400) -> Html:
    if not text:
        return Html()
    look = {"font_size": 12, "font_weight": weight, "fill": "currentColor"}
    return tag("text", text, x=f"{x:g}", y=y, text_anchor=anchor, **look)
