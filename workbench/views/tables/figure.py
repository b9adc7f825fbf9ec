"""Block tables of one step: rows as handed out, rows as gathered, and the slots of the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.core.tables.rows import MANAGER_BLOCKS
from workbench.core.tables.step import GroupStep, TableStep
from workbench.views.palette import THEMES

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442")
"""Neighbouring blocks differ in colour; the number in the cell or the hover names the block."""
NULL_COLOUR = "#999999"
MAX_COLUMNS = 100
"""More kernel blocks of a row are not drawn; the title says how many are omitted."""
MAX_ROWS = 16
MAX_CELLS = 1500
"""Every cell carries its own words, so this bounds the size of a figure."""
TEXT_COLUMNS = 16
FEW_COLUMNS = 10
"""So few that plotly by itself would put a tick between two of them."""
NULL = 0.0


def block_tables(step: TableStep, group: int = 0, theme: str = "auto") -> go.Figure:
    """Draw the manager blocks of every request, and next to them its kernel blocks for attention.

    A block and its kernel blocks share a colour. Always two traces.
    """
    shown = step.groups[group]
    blocks = [row[: MAX_COLUMNS // shown.attention_ratio + 1] for row in shown.blocks[:MAX_ROWS]]
    table = [row[:MAX_COLUMNS] for row in shown.attention_table[:MAX_ROWS]]
    labels = [f"request {row.request}" for row in step.rows[:MAX_ROWS]]
    words = [
        [_block_words(shown, block, column) for column, block in enumerate(row)] for row in blocks
    ]
    parts = [
        [_part_words(shown, block, column) for column, block in enumerate(row)] for row in table
    ]
    figure = make_subplots(
        rows=1,
        cols=2,
        shared_yaxes=True,
        column_widths=[0.3, 0.7],
        horizontal_spacing=0.03,
        subplot_titles=_subtitles(shown),
    )
    managers = [[block // shown.attention_ratio for block in row] for row in table]
    figure.add_trace(_cells(labels, blocks, blocks, words), row=1, col=1)
    figure.add_trace(_cells(labels, table, managers, parts), row=1, col=2)
    colours = THEMES[theme]
    figure.update_layout(
        height=210 + 26 * len(labels),
        margin={"t": 90, "b": 50, "l": 90},
        title={"text": _title(step, shown), "x": 0, "xref": "paper", "font": {"size": 15}},
        **colours.surface,
    )
    figure.update_yaxes(autorange="reversed", type="category", showgrid=False)
    figure.update_xaxes(
        showgrid=False, zeroline=False, title={"text": "column of the row"}, rangemode="tozero"
    )
    for side, rows in enumerate((blocks, table), start=1):
        few = max(map(len, rows), default=0) <= FEW_COLUMNS
        figure.update_xaxes(dtick=1 if few else None, col=side)
    return figure


def slot_map(step: TableStep, group: int = 0, theme: str = "auto") -> go.Figure:
    """Draw one cell per new token, coloured by manager block, with the slot on hover. One trace."""
    shown = step.groups[group]
    rows: list[list[int]] = []
    words: list[list[str]] = []
    limit = MAX_CELLS // max(1, min(len(step.rows), MAX_ROWS))
    tokens = list(zip(step.owners, step.positions, shown.slots, strict=False))
    for owner, own in groupby(tokens, key=lambda token: token[0]):
        if len(rows) == MAX_ROWS:
            break
        cells = [(position, slot) for _owner, position, slot in own][:limit]
        rows.append([slot // shown.block_size for _position, slot in cells])
        words.append([_slot_words(step, shown, owner, *cell) for cell in cells])
    labels = [f"request {row.request}" for row in step.rows[: len(rows)]]
    colours = THEMES[theme]
    longest = max((row.query_tokens for row in step.rows), default=0)
    cut = f", first {limit} of a request" if longest > limit else ""
    padding = len(shown.slots) - step.num_tokens
    return go.Figure(
        _cells(labels, rows, rows, words, text=False),
        layout={
            "height": 170 + 26 * len(labels),
            "margin": {"t": 70, "b": 50, "l": 90},
            "title": {
                "text": f"<b>{step.num_tokens:,} slots</b> in group {shown.name}{cut}; "
                f"{padding:,} entries of padding are -1",
                "x": 0,
                "xref": "paper",
                "font": {"size": 15},
            },
            **colours.surface,
            "xaxis": {
                "title": {"text": "new token of the request"},
                "showgrid": False,
                "zeroline": False,
            },
            "yaxis": {"autorange": "reversed", "type": "category", "showgrid": False},
        },
    )


def _cells(
    labels: Sequence[str],
    numbers: Sequence[Sequence[int]],
    blocks: Sequence[Sequence[int]],
    words: Sequence[Sequence[str]],
    *,
    text: bool = True,
) -> go.Heatmap:
    """Return rows of unequal length as a heatmap; cells past the end of a row are empty."""
    width = max((len(row) for row in blocks), default=0)
    colour: list[list[float | None]] = [
        [_colour(block) for block in row] + [None] * (width - len(row)) for row in blocks
    ]
    filled = [[*row, *[""] * (width - len(row))] for row in words]
    numbered = text and width <= TEXT_COLUMNS
    written = [[str(number) for number in row] + [""] * (width - len(row)) for row in numbers]
    steps = len(COLOURS)
    scale = [(0.0, NULL_COLOUR)] + [
        ((index + 1) / steps, colour_name) for index, colour_name in enumerate(COLOURS)
    ]
    return go.Heatmap(
        x=list(range(width)),
        y=list(labels),
        z=colour,
        text=written if numbered else None,
        texttemplate="%{text}" if numbered else None,
        customdata=filled,
        hovertemplate="%{y}<br>%{customdata}<extra></extra>",
        hoverongaps=False,
        zmin=0,
        zmax=steps,
        colorscale=scale,
        showscale=False,
        xgap=1 if width <= MAX_COLUMNS else 0,
        ygap=3,
    )


def _colour(block: int) -> float:
    # pools hand blocks out evenly, so plain remainders would give whole columns one colour
    return NULL if block == 0 else 1.0 + (block + block // len(COLOURS)) % len(COLOURS)


def _block_words(group: GroupStep, block: int, column: int) -> str:
    if block == 0:
        return "null block: nothing is kept here"
    if group.is_mamba:
        return f"block {block}: a state"
    first = column * group.block_size
    return f"block {block}: tokens {first:,} to {first + group.block_size - 1:,}"


def _subtitles(group: GroupStep) -> tuple[str, str]:
    """Return both subtitles; the second says which blocks the table holds if not kernel blocks."""
    kernel = f"kernel blocks, {group.attention_ratio} in each"
    if group.table_holds == MANAGER_BLOCKS:
        return "manager blocks: in the table", f"{kernel}: made for attention"
    return "manager blocks", kernel


def _part_words(group: GroupStep, kernel_block: int, column: int) -> str:
    block, part = divmod(kernel_block, group.attention_ratio)
    if block == 0:
        return "null block: nothing is kept here"
    words = f"kernel block {kernel_block} = {block} x {group.attention_ratio} + {part}"
    if group.is_mamba:
        return words
    size = group.block_size // group.attention_ratio
    first = column * size
    return f"{words}<br>tokens {first:,} to {first + size - 1:,}"


def _slot_words(step: TableStep, group: GroupStep, owner: int, position: int, slot: int) -> str:
    if slot < 0:
        return f"position {position:,}: no slot here"
    block, offset = divmod(slot, group.kernel_block_size)
    return (
        f"request {step.rows[owner].request}, position {position:,}<br>"
        f"slot {slot:,} = {group.table_holds.removesuffix('s')} {block} x "
        f"{group.kernel_block_size} + {offset}"
    )


def _title(step: TableStep, group: GroupStep) -> str:
    columns = max((len(row) for row in group.attention_table), default=0)
    left = [
        f"{columns - MAX_COLUMNS:,} more columns" if columns > MAX_COLUMNS else "",
        f"{len(step.rows) - MAX_ROWS:,} more requests" if len(step.rows) > MAX_ROWS else "",
    ]
    more = ", ".join(filter(None, left))
    kernel = group.block_size // group.attention_ratio
    sizes = f"blocks of {group.block_size:,} tokens, kernel blocks of {kernel:,}"
    return f"<b>group {group.name}</b>: {sizes}" + (f" ({more})" if more else "")
