"""Who owns the bytes of every page, after each block was filled through its view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import plotly.graph_objects as go

from workbench.views.palette import CURRENT, LEGEND_BELOW, PADDING, RECURRENT, THEMES

MAX_PAGES = 64
"""More pages than this are not drawn one by one; the title tells how many are left out."""


class OwnedPage(Protocol):
    """Bytes of one page by owner."""

    @property
    def block(self) -> int:
        """The block whose page this is."""

    @property
    def own_bytes(self) -> int:
        """Written by this block."""

    @property
    def misplaced_bytes(self) -> int:
        """Written by another block."""

    @property
    def unwritten_bytes(self) -> int:
        """Written by nobody: padding."""


def page_owners(pages: Sequence[OwnedPage], title: str = "", theme: str = "auto") -> go.Figure:
    """One bar per page: its own bytes, those of other blocks (crossed), and padding."""
    shown = list(pages[:MAX_PAGES])
    rows = [f"page {page.block}" for page in shown]
    colours = THEMES[theme]
    parts = (
        ("own block", [page.own_bytes for page in shown], RECURRENT, ""),
        ("another block", [page.misplaced_bytes for page in shown], CURRENT, "x"),
        ("padding", [page.unwritten_bytes for page in shown], PADDING, "/"),
    )
    left = len(pages) - len(shown)
    text = title + (f" ({left:,} more pages)" if left else "")
    return go.Figure(
        [
            go.Bar(
                name=name,
                y=rows,
                x=sizes,
                orientation="h",
                marker={"color": colour, "pattern": {"shape": pattern, "fgcolor": "#ffffff"}},
                hovertemplate=f"%{{y}}: %{{x:,}} bytes of {name}<extra></extra>",
            )
            for name, sizes, colour, pattern in parts
        ],
        layout={
            "barmode": "stack",
            "height": 190 + 34 * max(len(shown), 2),
            "margin": {"t": 60, "b": 100},
            "legend": LEGEND_BELOW,
            "title": {"text": text, "x": 0, "xref": "paper", "font": {"size": 15}},
            **colours.surface,
            "xaxis": {
                "title": {"text": "bytes"},
                "tickformat": ",",
                "gridcolor": colours.grid,
            },
            "yaxis": {"autorange": "reversed"},
        },
    )
