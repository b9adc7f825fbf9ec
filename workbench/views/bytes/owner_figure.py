"""Owners of the bytes of every page, after each block was filled through its view."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.views.palette import CURRENT, LEGEND_BELOW, PADDING, RECURRENT, THEMES

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
    figure = make_subplots(
        cols=len(columns),
        shared_yaxes=True,
        horizontal_spacing=0.04,
        subplot_titles=[_title(title, pages) for title, pages in columns],
    )
    for column, (_title_text, pages) in enumerate(columns, 1):
        for bar in _bars(pages[:MAX_PAGES]):
            bar.showlegend = column == 1
            figure.add_trace(bar, row=1, col=column)
    colours = THEMES[theme]
    rows = max(len(pages[:MAX_PAGES]) for _title_text, pages in columns)
    figure.update_layout(
        barmode="stack",
        height=190 + 34 * max(rows, 2),
        margin={"t": 60, "b": 100},
        legend=LEGEND_BELOW,
        **colours.surface,
    )
    figure.update_xaxes(title_text="bytes", tickformat=",", gridcolor=colours.grid)
    figure.update_yaxes(autorange="reversed")
    return figure


def _title(title: str, pages: Sequence[OwnedPage]) -> str:
    left = len(pages) - len(pages[:MAX_PAGES])
    return title + (f" ({left:,} more pages)" if left else "")


def _bars(pages: Sequence[OwnedPage]) -> Iterator[go.Bar]:
    rows = [f"page {page.block}" for page in pages]
    for name, sizes, colour, pattern in (
        ("own block", [page.own_bytes for page in pages], RECURRENT, ""),
        ("another block", [page.misplaced_bytes for page in pages], CURRENT, "x"),
        ("padding", [page.unwritten_bytes for page in pages], PADDING, "/"),
    ):
        yield go.Bar(
            name=name,
            legendgroup=name,
            y=rows,
            x=sizes,
            orientation="h",
            marker={"color": colour, "pattern": {"shape": pattern, "fgcolor": "#ffffff"}},
            hovertemplate=f"%{{y}}: %{{x:,}} bytes of {name}<extra></extra>",
        )
