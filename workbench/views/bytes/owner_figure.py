"""Owners of the bytes of every page, after each block was filled through its view."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import plotly.graph_objects as go

from workbench.views.frame import bar, cut_text, frame, panels
from workbench.views.palette import CURRENT, PADDING, RECURRENT, THEMES

MAX_PAGES = 64
"""More pages than this are not drawn one by one; the title says how many are omitted."""


class OwnedPage(Protocol):
    """Bytes of one page by owner."""

    @property
    def block(self) -> int:
        """Block that this page belongs to."""

    @property
    def own_bytes(self) -> int:
        """Bytes written by this block."""

    @property
    def misplaced_bytes(self) -> int:
        """Bytes written by another block."""

    @property
    def unwritten_bytes(self) -> int:
        """Bytes that no block wrote: padding."""


def page_owners(pages: Sequence[OwnedPage], title: str = "", theme: str = "auto") -> go.Figure:
    """Draw one bar per page: its own bytes, those of other blocks (crossed), and padding."""
    return _figure(((title, pages),), theme)


def owners_side_by_side(
    before: Sequence[OwnedPage],
    after: Sequence[OwnedPage],
    titles: tuple[str, str] = ("before the rewrite", "after the rewrite"),
    theme: str = "auto",
) -> go.Figure:
    """Draw the same pages twice, with the bytes of other blocks crossed: before, and after."""
    return _figure(tuple(zip(titles, (before, after), strict=True)), theme)


def _figure(columns: tuple[tuple[str, Sequence[OwnedPage]], ...], theme: str) -> go.Figure:
    figure = panels(
        cols=len(columns),
        shared_yaxes=True,
        horizontal_spacing=0.04,
        subplot_titles=[title + cut_text(pages=len(pages) - MAX_PAGES) for title, pages in columns],
    )
    for column, (_title_text, pages) in enumerate(columns, 1):
        for trace in _bars(pages[:MAX_PAGES]):
            trace.showlegend = column == 1
            figure.add_trace(trace, row=1, col=column)
    rows = max(len(pages[:MAX_PAGES]) for _title_text, pages in columns)
    height = 190 + 34 * max(rows, 2)
    figure.update_layout(
        frame("", theme, barmode="stack", height=height, margin={"t": 60, "b": 100})
    )
    figure.update_xaxes(title_text="bytes", tickformat=",", gridcolor=THEMES[theme].grid)
    figure.update_yaxes(autorange="reversed")
    return figure


def _bars(pages: Sequence[OwnedPage]) -> Iterator[go.Bar]:
    rows = [f"page {page.block}" for page in pages]
    for name, sizes, look in (
        ("own block", [page.own_bytes for page in pages], (RECURRENT, "")),
        ("another block", [page.misplaced_bytes for page in pages], (CURRENT, "x")),
        ("padding", [page.unwritten_bytes for page in pages], (PADDING, "/")),
    ):
        yield bar(
            name,
            sizes,
            rows,
            look,
            legendgroup=name,
            orientation="h",
            hovertemplate=f"%{{y}}: %{{x:,}} bytes of {name}<extra></extra>",
        )
