"""A grid of plans: block size over tensor parallelism, one small chart per backend, and a table."""

from collections.abc import Iterator, Sequence

import plotly.graph_objects as go

from workbench.core.arithmetic import cdiv
from workbench.core.plan import Plan
from workbench.core.what_if.outcomes import Grid, Outcome, is_same_choice
from workbench.views.frame import frame, panels
from workbench.views.html import Html, bullets, document, faint, join, note, table, tag
from workbench.views.palette import ATTENTION, CURRENT, THEMES
from workbench.views.settings import in_labels
from workbench.views.units import percent_text, tokens_text

MAX_COLUMNS = 4


def block_sizes(grid: Grid, current: Plan | None = None, theme: str = "auto") -> go.Figure:
    """Draw small multiples of the block size in tokens: one chart per grid row, one bar per column.

    The bar of `current` is outlined; a refused configuration has a cross and its reason instead.
    """
    columns = min(len(grid.rows), MAX_COLUMNS) or 1
    lines = cdiv(len(grid.rows), columns) or 1
    figure = panels(
        rows=lines,
        cols=columns,
        subplot_titles=[str(row) for row in grid.rows],
        shared_yaxes=True,
        vertical_spacing=0.36 / max(lines, 2),
    )
    for position, row in enumerate(grid.rows):
        place = {"row": position // columns + 1, "col": position % columns + 1}
        figure.add_trace(_bars(grid, row, current), **place)
        figure.add_trace(_crosses(grid, row), **place)
    figure.update_layout(
        frame(
            "<b>block size in tokens</b>"
            "<br><sub>orange: this scenario; crossed: vLLM would not start</sub>",
            theme,
            title_y=0.94,
            title_yanchor="top",
            height=120 + 180 * lines,
            margin={"l": 60, "r": 20, "t": 90, "b": 50},
            showlegend=False,
        )
    )
    figure.update_annotations(font_size=12)
    figure.update_xaxes(type="category", showgrid=False)
    figure.update_xaxes(title_text=grid.column_label.replace("_", " "), row=lines)
    figure.update_yaxes(gridcolor=THEMES[theme].grid, rangemode="tozero", tickformat=",")
    figure.update_yaxes(title_text="tokens", col=1)
    return figure


def _bars(grid: Grid, row: object, current: Plan | None) -> go.Bar:
    plans = [grid.cell(row, column).plan for column in grid.columns]
    same = [bool(current and plan and is_same_choice(plan, current)) for plan in plans]
    return go.Bar(
        x=[str(column) for column in grid.columns],
        y=[None if plan is None else plan.block_size for plan in plans],
        text=["" if plan is None else f"{plan.block_size:,}" for plan in plans],
        textposition="outside",
        cliponaxis=False,
        marker={
            "color": [CURRENT if chosen else ATTENTION for chosen in same],
            "pattern": {"shape": ["x" if plan and plan.errors else "" for plan in plans]},
        },
        customdata=[_hover(plan) for plan in plans],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _crosses(grid: Grid, row: object) -> go.Scatter:
    refused = [column for column in grid.columns if grid.cell(row, column).plan is None]
    return go.Scatter(
        x=[str(column) for column in refused],
        y=[0] * len(refused),
        mode="markers+text",
        text=["refused"] * len(refused),
        textposition="top center",
        marker={"symbol": "x", "size": 10, "color": CURRENT},
        customdata=[in_labels(grid.cell(row, column).refused or "") for column in refused],
        hovertemplate="refused: %{customdata}<extra></extra>",
        cliponaxis=False,
    )


def _hover(plan: Plan | None) -> str:
    if plan is None:
        return ""
    lines = [
        tokens_text(plan.block_size),
        f"kernel block {tokens_text(plan.kernel_block_size)}",
        f"padding {percent_text(plan.padding_percent)}",
    ]
    lines += [f"{problem.severity}: {problem.code}" for problem in plan.problems]
    return "<br>".join(lines)


def sized_columns(plan: Plan, candidates: Sequence[int] = (1, 2, 4, 8)) -> tuple[int, ...]:
    """Return the tensor-parallel sizes to show, the plan's own one included."""
    return tuple(sorted({*candidates, plan.settings.tensor_parallel}))


SHORT = {"tensor_parallel": "TP"}
"""Field -> what fits above a narrow column."""


def grid_html(grid: Grid, current: Plan | None = None) -> str:
    """Return block size and kernel block per cell; the current one in bold, errors named."""
    label = SHORT.get(grid.column_label, grid.column_label.replace("_", " "))
    rows = (
        (tag("b", row), *(_cell(grid.cell(row, column), current) for column in grid.columns))
        for row in grid.rows
    )
    return document(
        table(("", *(f"{label} {column}" for column in grid.columns)), rows),
        note("block size / kernel block, in tokens; ✕ vLLM would not start"),
        bullets([*_reasons(grid, current), *_of_columns(grid, current, label)]),
    )


def _reasons(grid: Grid, current: Plan | None) -> Iterator[Html]:
    """Yield why rows would not start in the column of `current`, without what it suffers, too."""
    column = None if current is None else getattr(current.settings, grid.column_label, None)
    if current is None or column not in grid.columns:
        return
    shared = {problem.code for problem in current.errors}
    for row in grid.rows:
        plan = grid.cell(row, column).plan
        own = [one for one in plan.errors if one.code not in shared] if plan else []
        if own:
            texts = [in_labels(problem.message.split(". ")[0]).rstrip(".") for problem in own]
            reasons = (text.removeprefix(f"{row} ") for text in texts)
            between = " " if texts[0].startswith(f"{row} ") else ": "
            yield join(tag("b", row), between, "; ".join(reasons))


def _of_columns(grid: Grid, current: Plan | None, label: str) -> Iterator[Html]:
    """Yield why no row would start in a column, where that is not so in the column of `current`."""
    known = {problem.code for problem in current.errors} if current else set()
    for column in grid.columns:
        plans = [grid.cell(row, column).plan for row in grid.rows]
        codes = [{one.code for one in plan.errors} if plan else set() for plan in plans]
        shared = set.intersection(*codes) - known if codes else set()
        found = plans[0].errors if plans and plans[0] else ()
        reasons = [in_labels(one.message.split(". ")[0]) for one in found if one.code in shared]
        if reasons:
            yield join(tag("b", f"{label} {column}"), ": ", "; ".join(reasons))


def _cell(cell: Outcome, current: Plan | None) -> Html | str:
    plan = cell.plan
    if plan is None:
        return faint("refused", title=in_labels(cell.refused or ""))
    kernel = f"{plan.kernel_block_size:,}" if plan.kernel_block_size else "-"
    text: Html | str = f"{plan.block_size:,} / {kernel}"
    if plan.errors:
        reasons = "; ".join(in_labels(problem.message) for problem in plan.errors)
        text = faint(f"✕ {text}", title=reasons)
    same = current is not None and is_same_choice(plan, current)
    return tag("b", "▸ ", text) if same else text
