"""The blocks of a pool as a raster: their owners, aggregated to what can be seen."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from workbench.core.arithmetic import cdiv
from workbench.core.capacity.occupancy import NULL_BLOCKS
from workbench.core.layouts.error import require_known
from workbench.core.plan import Plan
from workbench.views import palette
from workbench.views.capacity.pool_fill import FREE, NULL, OWNERS, Ints, PoolFill, fill_pool
from workbench.views.frame import FIXED_LEGEND, Figure, flat_scale, frame
from workbench.views.units import counted

COLUMNS, ROWS = 64, 24
"""Cells of the raster at most; a cell is then several blocks."""
PROMPTS = (512, 4096, 1024, 16384)
"""A mix of prompt lengths where none is given, in tokens, as far as the model takes them."""
COLOURS = {
    "attention": palette.ATTENTION,
    "state": palette.RECURRENT,
    FREE: "rgba(128,128,128,0.2)",
    NULL: palette.PADDING,
}
LETTERS = {"attention": "a", "state": "s", FREE: "", NULL: "0"}
"""Letter in a cell, so that no owner is shown by colour alone."""
CYCLE = (
    palette.ATTENTION,
    palette.CONV,
    palette.RECURRENT,
    palette.ATTENTION_BEFORE,
    palette.CURRENT,
    palette.PINK,
)
"""Colours of requests and of groups, over and over; their numbers stand in the cells."""
ROW_LABELS, FEWEST_ROWS = 8, 8
HEIGHT = 560
"""Pixels of the figure, always the same: a live one that changes its height stops fitting."""
VIEWS = ("owner", "request", "group")
"""What the colours mean."""


def pool_raster(
    plan: Plan,
    num_blocks: int | None = None,
    *,
    prompts: Sequence[int] | None = None,
    requests: int | None = None,
    finished_every: int = 0,
    by: str = "owner",
    window: tuple[int, int] | None = None,
    theme: str = "auto",
) -> go.Figure:
    """Draw a pool of `num_blocks` (the plan's, else 10,000) filled by requests of these lengths.

    by: what the colours mean, one of VIEWS. window: first and last block (excluded) that are drawn;
    all by default. requests, finished_every: see `fill_pool`. The hover of a cell counts
    its blocks by owner. Errors: LayoutError for numbers that cannot be; ValueError without a cache.
    """
    if num_blocks is None:
        num_blocks = plan.built_cache().blocks_or(10_000)
    filled = fill_pool(
        plan,
        num_blocks,
        usual_prompts(plan) if prompts is None else prompts,
        requests=requests,
        finished_every=finished_every,
    )
    traces, layout = raster_parts(filled, by, window, theme)
    return Figure(traces, layout=layout).update_layout(meta={"plan": plan.fingerprint})


def usual_prompts(plan: Plan) -> tuple[int, ...]:
    """Return PROMPTS, no longer than the model allows."""
    return tuple(min(prompt, plan.max_model_len) for prompt in PROMPTS)


def raster_parts(
    filled: PoolFill, by: str = "owner", window: tuple[int, int] | None = None, theme: str = "auto"
) -> tuple[list[go.Heatmap | go.Scatter], go.Layout]:
    """Return the heat map, four traces for the legend, and the layout; always the same ones.

    Where a cell has blocks of several owners it shows one of them, and neighbours make up for it,
    so that the raster as a whole has the right shares. A request or group is that of its middle
    block. Errors: LayoutError for an unknown view.
    """
    require_known("view", by, VIEWS, "by")
    start, stop = window or (0, filled.num_blocks)
    start, stop = max(0, start), min(stop, filled.num_blocks)
    step = max(1, cdiv(stop - start, COLUMNS * ROWS))
    count = cdiv(stop - start, step)
    columns = min(COLUMNS, count)
    rows = cdiv(count, columns)
    edges = np.minimum(start + step * np.arange(rows * columns + 1, dtype=np.int64), stop)
    counts = np.diff(filled.owned_before(edges), axis=0)
    colour, letters = _cells(filled, by, edges, counts)
    colours = (*CYCLE, *COLOURS.values())
    heat = go.Heatmap(
        z=colour.reshape(rows, columns),
        zmin=-0.5,
        zmax=len(colours) - 0.5,
        colorscale=flat_scale(colours),
        text=letters.reshape(rows, columns).tolist(),
        texttemplate="%{text}",
        x0=0,
        dx=step,
        y0=start,
        dy=step * columns,
        textfont={"size": 12},
        customdata=_hover(filled, edges, counts).reshape(rows, columns, -1),
        hovertemplate="blocks %{customdata[0]:,} to %{customdata[1]:,}<br>%{customdata[2]:,} "
        "requests up to here<br>"
        + "<br>".join(f"{name}: %{{customdata[{3 + n}]:,}}" for n, name in enumerate(OWNERS))
        + "<extra></extra>",
        hoverongaps=False,
        showscale=False,
        xgap=1,
        ygap=1,
    )
    shown = OWNERS if by == "owner" else (FREE, NULL)
    layout = _layout(raster_title(filled, step, by), start, step, columns, rows, theme)
    return [heat, *_legend(shown)], layout


def _cells(
    filled: PoolFill, by: str, edges: Ints, counts: Ints
) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Return (colour, text) of each cell; colours are places in CYCLE and, after it, in OWNERS."""
    owner = _spread(counts)
    middle = edges[:-1] + np.diff(edges) // 2
    if by != "owner":
        one = filled.owned_before(middle + 1) - filled.owned_before(middle)
        owner = np.where(owner < 0, owner, one.argmax(axis=1))
    letters = np.array([*LETTERS.values(), ""])[owner]
    colour = np.where(owner < 0, np.nan, owner + len(CYCLE))
    if by != "owner":
        numbers = filled.run_of(middle)[VIEWS.index(by) - 1]
        used = np.isin(owner, [OWNERS.index("attention"), OWNERS.index("state")])
        colour = np.where(used, numbers % len(CYCLE), colour)
        letters = np.where(used, (numbers % 100).astype(str), letters)
    return colour, letters


def _spread(counts: Ints) -> Ints:
    """Return one owner per cell (-1: no block), so that sums over many cells come out right."""
    carried = np.zeros(counts.shape[1])
    owners = np.full(len(counts), -1, dtype=np.int64)
    for cell, row in enumerate(counts):
        if row.any():
            carried += row
            owners[cell] = np.where(row > 0, carried, -np.inf).argmax()
            carried[owners[cell]] -= row.sum()
    return owners


def _legend(shown: Sequence[str]) -> list[go.Scatter]:
    """Return empty traces that name the colours and letters."""
    return [
        go.Scatter(
            x=[None],
            y=[None],
            mode="markers",
            marker={"symbol": "square", "size": 11, "color": COLOURS[name]},
            name=f"{name} ({LETTERS[name]})" if LETTERS[name] else name,
            showlegend=name in shown,
            hoverinfo="skip",
        )
        for name in OWNERS
    ]


def _hover(filled: PoolFill, edges: Ints, counts: Ints) -> NDArray[np.int32]:
    """Return [cell, 3 + owners]: first and last block, requests so far, blocks of each owner."""
    last = np.maximum(edges[1:] - 1, edges[:-1])
    request, _group = filled.run_of(last)
    so_far = np.where(last > filled.filled_blocks, filled.request_count, request + 1)
    return np.column_stack([edges[:-1], last, so_far, counts]).astype(np.int32)


def raster_title(filled: PoolFill, step: int, by: str) -> str:
    """Return how full the pool is, how many blocks a cell has, and what its number means."""
    left = filled.num_blocks - NULL_BLOCKS - filled.filled_blocks
    finished = ""
    if filled.finished_every:
        done = filled.request_count // filled.finished_every
        finished = f", {done:,} of them finished"
    cell = "one block" if step == 1 else f"{step:,} blocks; shares are exact only over many cells"
    digits = "" if by == "owner" else f"; numbers: {by}s, their last two digits"
    return (
        f"<b>{filled.request_count:,} requests</b> in a pool of {filled.num_blocks:,} blocks"
        f"{finished}; {counted(left, 'block')} never taken<br><sub>a cell is {cell}{digits}</sub>"
    )


def _layout(title: str, start: int, step: int, columns: int, rows: int, theme: str) -> go.Layout:
    width = step * columns
    layout = frame(
        title,
        theme,
        height=HEIGHT,
        margin={"l": 100, "r": 30, "t": 70, "b": 100},
        legend=FIXED_LEGEND,
        hoverlabel={"align": "left"},
        x={
            "title": "block id, counted from the first of its row",
            "tickformat": ",d",
            "range": [-step / 2, width - step / 2],
            "showgrid": False,
        },
        y={
            "title": "first block of the row",
            "tickformat": ",d",
            "tickvals": [start + width * row for row in range(0, rows, cdiv(rows, ROW_LABELS))],
            "range": [start + (max(rows, FEWEST_ROWS) - 0.5) * width, start - width / 2],
            "showgrid": False,
        },
    )
    return go.Layout(layout)
