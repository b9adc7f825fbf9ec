"""Two bars: how a device's memory is spent, and what the cache's share of it holds."""

from __future__ import annotations

import plotly.graph_objects as go

from workbench.core.capacity.memory_budget import memory_budget
from workbench.core.capacity.occupancy import check_prompt, pool_use, usual_prompt
from workbench.core.plan import Plan
from workbench.views.capacity.waste_figure import PARTS
from workbench.views.caption import of_plan
from workbench.views.palette import (
    ATTENTION,
    ATTENTION_BEFORE,
    CONV,
    CURRENT,
    LEGEND_BELOW,
    PADDING,
    RECURRENT,
    THEMES,
)
from workbench.views.units import bytes_text

DEVICE, POOL = "device", "cache"
OUTSIDE = "outside gpu_memory_utilization"
DEVICE_PARTS = {
    "weights": (ATTENTION, ""),
    "activations": (CONV, "/"),
    "graph reserve": (CURRENT, "x"),
    "KV cache": (RECURRENT, "."),
    OUTSIDE: (PADDING, "-"),
}
POOL_PARTS = {
    **PARTS,
    "null block": (CURRENT, "."),
    "idle blocks": (ATTENTION_BEFORE, "/"),
    "rank imbalance": (CONV, "|"),
    "remainder": (PADDING, "."),
}
GIB = 2**30


@of_plan
def memory_bar(plan: Plan, prompt_tokens: int | None = None, theme: str = "auto") -> go.Figure:
    """Draw the device's memory above, the pool full of such requests below, in GiB.

    Where the ranks have memory of different sizes it is the rank with most of it.
    The upper bar is empty without a memory budget, the lower one is empty without any memory
    size; the title says what is missing. Always the same traces, in the same order.
    """
    prompt_tokens = usual_prompt(plan) if prompt_tokens is None else prompt_tokens
    check_prompt(plan, prompt_tokens)
    device, pool, title = device_parts(plan), pool_parts(plan, prompt_tokens), _title(plan)
    colours = THEMES[theme]
    row = DEVICE if device else POOL  # a row of its own would stay empty
    bars = [
        *(_bar(row, name, device.get(name, 0), look) for name, look in DEVICE_PARTS.items()),
        *(_bar(POOL, name, pool.get(name, 0), look) for name, look in POOL_PARTS.items()),
    ]
    return go.Figure(
        bars,
        layout={
            "barmode": "stack",
            "height": 330,
            "margin": {"t": 60, "b": 120},
            "legend": LEGEND_BELOW,
            "title": {"text": title, "x": 0, "xref": "paper", "font": {"size": 15}},
            **colours.surface,
            "xaxis": {"title": {"text": "GiB"}, "gridcolor": colours.grid, "rangemode": "tozero"},
            "yaxis": {"type": "category", "autorange": "reversed"},
        },
    )


def device_parts(plan: Plan) -> dict[str, int]:
    """Return part of the device -> bytes, empty without a budget; nothing is negative."""
    budget = memory_budget(plan.settings)
    if budget is None or plan.cache is None or plan.cache.available_bytes is None:
        return {}
    taken = (budget.weights_bytes, budget.activation_bytes, budget.cuda_graph_bytes)
    cache = max(plan.cache.available_bytes, 0)
    return {
        **dict(zip(DEVICE_PARTS, taken, strict=False)),
        "KV cache": cache,
        OUTSIDE: max(budget.device_bytes - sum(taken) - cache, 0),
    }


def pool_parts(plan: Plan, prompt_tokens: int) -> dict[str, int]:
    """Return part of the pool -> bytes, empty while its size is unknown."""
    use = None if plan.cache is None else pool_use(plan, plan.cache, prompt_tokens)
    return {} if use is None else use.parts


def _title(plan: Plan) -> str:
    if plan.cache is None:
        return "<b>no cache</b>: the pages cannot be made equal"
    available = plan.cache.available_bytes
    if available is None:
        return "<b>no memory yet</b>: set KV memory, or device memory and weights"
    ranks = plan.cache.rank_bytes
    if len(ranks) > 1:
        most = max(ranks)
        return (
            f"<b>memory of rank {ranks.index(most)} of {len(ranks)}</b>: {bytes_text(most)} for "
            f"the cache, {bytes_text(available)} on the rank with the least"
        )
    return f"<b>memory of one rank</b>: {bytes_text(max(available, 0))} for the cache"


def _bar(row: str, name: str, size: int, look: tuple[str, str]) -> go.Bar:
    colour, pattern = look
    return go.Bar(
        name=name,
        x=[size / GIB],
        y=[row],
        orientation="h",
        customdata=[bytes_text(size)],
        marker={"color": colour, "pattern": {"shape": pattern, "fgcolor": "#ffffff"}},
        hovertemplate=f"<b>{name}</b>: %{{customdata}}<extra>{row}</extra>",
        showlegend=size > 0,
    )
