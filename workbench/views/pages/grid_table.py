"""A grid of plans as a table: the numbers of the small-multiples chart."""

from __future__ import annotations

from html import escape

from workbench.core.plan import Plan
from workbench.core.what_if.outcomes import Grid, Outcome, is_same_choice
from workbench.views.html import document, table


def grid_html(grid: Grid, current: Plan | None = None) -> str:
    """Return block size and kernel block per cell; the present plan in bold, errors named."""
    header = ("", *(f"{escape(_label(grid.column_label))} {column}" for column in grid.columns))
    rows = [
        (
            f"<b>{escape(str(row))}</b>",
            *(_cell(grid.cell(row, column), current) for column in grid.columns),
        )
        for row in grid.rows
    ]
    note = '<p class="wb-faint">block size / kernel block, in tokens; ✕ vLLM would not start</p>'
    return document(table(header, rows), note)


def _label(field: str) -> str:
    return {"tensor_parallel": "TP"}.get(field, field.replace("_", " "))


def _cell(cell: Outcome, current: Plan | None) -> str:
    plan = cell.plan
    if plan is None:
        return f'<span class="wb-faint" title="{escape(cell.refused or "")}">refused</span>'
    text = f"{plan.block_size:,} / {plan.kernel_block_size or '-'}"
    if plan.errors:
        reasons = "; ".join(problem.message for problem in plan.errors)
        text = f'<span class="wb-faint" title="{escape(reasons)}">✕ {text}</span>'
    same = current is not None and is_same_choice(plan, current)
    return f"<b>▸ {text}</b>" if same else text
