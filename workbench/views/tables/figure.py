"""Block tables of one step: rows as handed out, rows as gathered, and the slots of the tokens."""

from collections.abc import Sequence
from itertools import groupby

import plotly.graph_objects as go

from workbench.core.tables.rows import MANAGER_BLOCKS
from workbench.core.tables.step import GroupStep, TableStep
from workbench.views import palette
from workbench.views.frame import NAMED_ROWS, Cell, cells, cut_text, frame, panels
from workbench.views.frame import figure as figure_of
from workbench.views.units import counted

COLOURS = (
    palette.PADDING,
    palette.ATTENTION,
    palette.CONV,
    palette.RECURRENT,
    palette.CURRENT,
    palette.ATTENTION_BEFORE,
    palette.PINK,
    palette.YELLOW,
)
"""The null block, then blocks: neighbours differ, and the number in the cell or hover names one."""
MAX_COLUMNS = 100
"""More kernel blocks of a row are not drawn; the title says how many are omitted."""
MAX_ROWS = 16
MAX_CELLS = 1500
"""Every cell carries its own words, so this bounds the size of a figure."""
TEXT_COLUMNS = 16
FEW_COLUMNS = 10
"""So few that plotly by itself would put a tick between two of them."""


def block_tables(step: TableStep, group: int = 0, theme: str = "auto") -> go.Figure:
    """Draw the manager blocks of every request, and next to them its kernel blocks for attention.

    A block and its kernel blocks share a colour. Always two traces.
    """
    shown = step.groups[group]
    blocks = [row[: MAX_COLUMNS // shown.attention_ratio + 1] for row in shown.blocks[:MAX_ROWS]]
    table = [row[:MAX_COLUMNS] for row in shown.attention_table[:MAX_ROWS]]
    labels = [f"request {row.request}" for row in step.rows[:MAX_ROWS]]
    managers = [
        [(_kind(block), str(block), _block_words(shown, block, at)) for at, block in enumerate(row)]
        for row in blocks
    ]
    kernels = [
        [
            (_kind(part // shown.attention_ratio), str(part), _part_words(shown, part, at))
            for at, part in enumerate(row)
        ]
        for row in table
    ]
    figure = panels(
        cols=2,
        shared_yaxes=True,
        column_widths=[0.3, 0.7],
        horizontal_spacing=0.03,
        subplot_titles=_subtitles(shown),
    )
    for side, rows in enumerate((managers, kernels), 1):
        few = max(map(len, rows), default=0) <= FEW_COLUMNS
        figure.add_trace(_cells(labels, rows), row=1, col=side)
        figure.update_xaxes(dtick=1 if few else None, col=side)
    figure.update_layout(
        frame(
            _title(step, shown),
            theme,
            height=210 + 26 * len(labels),
            margin={"t": 90, "b": 50, "l": 90},
        )
    )
    figure.update_yaxes(NAMED_ROWS)
    axes = {"showgrid": False, "zeroline": False, "rangemode": "tozero"}
    figure.update_xaxes(axes, title_text="column of the row")
    return figure


def slot_map(step: TableStep, group: int = 0, theme: str = "auto") -> go.Figure:
    """Draw one cell per new token, coloured by manager block, with the slot on hover. One trace."""
    shown = step.groups[group]
    rows: list[list[Cell]] = []
    limit = MAX_CELLS // max(1, min(len(step.rows), MAX_ROWS))
    tokens = list(zip(step.owners, step.positions, shown.slots, strict=False))
    for owner, own in groupby(tokens, key=lambda token: token[0]):
        if len(rows) == MAX_ROWS:
            break
        places = [(position, slot) for _owner, position, slot in own][:limit]
        rows.append(
            [
                (
                    _kind(slot // shown.block_size),
                    "",
                    _slot_words(step, shown, owner, position, slot),
                )
                for position, slot in places
            ]
        )
    labels = [f"request {row.request}" for row in step.rows[: len(rows)]]
    longest = max((row.query_tokens for row in step.rows), default=0)
    cut = f", first {limit} of a request" if longest > limit else ""
    padding = len(shown.slots) - step.num_tokens
    return figure_of(
        _cells(labels, rows, written=False),
        f"<b>{counted(step.num_tokens, 'slot')}</b> in group {shown.name}{cut}; "
        f"{padding:,} entries of padding are -1",
        theme,
        height=170 + 26 * len(labels),
        margin={"t": 70, "b": 50, "l": 90},
        x={
            "title": "new token of the request",
            "showgrid": False,
            "dtick": 1 if longest <= FEW_COLUMNS else None,
        },
        y=NAMED_ROWS,
    )


def _cells(
    labels: Sequence[str], rows: Sequence[Sequence[Cell]], *, written: bool = True
) -> go.Heatmap:
    width = max(map(len, rows), default=0)
    return cells(
        rows,
        dict(enumerate(COLOURS)),
        written=written and width <= TEXT_COLUMNS,
        x=list(range(width)),
        y=labels,
        hovertemplate="%{y}<br>%{customdata}<extra></extra>",
        xgap=1 if width <= MAX_COLUMNS else 0,
        ygap=3,
    )


def _kind(block: int) -> int:
    """Return the colour of a block, as a place in COLOURS."""
    # pools hand blocks out evenly, so plain remainders would give whole columns one colour
    return 0 if block == 0 else 1 + (block + block // (len(COLOURS) - 1)) % (len(COLOURS) - 1)


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
    more = cut_text(columns=columns - MAX_COLUMNS, requests=len(step.rows) - MAX_ROWS)
    kernel = group.block_size // group.attention_ratio
    sizes = f"blocks of {group.block_size:,} tokens, kernel blocks of {kernel:,}"
    return f"<b>group {group.name}</b>: {sizes}{more}"
