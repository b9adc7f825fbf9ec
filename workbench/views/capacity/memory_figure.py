"""How a device's memory and the cache's share of it are spent, and what one request reserves."""

import plotly.graph_objects as go

from workbench.core.capacity.memory_estimate import budget_of, estimate_margin
from workbench.core.capacity.occupancy import check_prompt, pool_use, usual_prompt, waste
from workbench.core.plan import Plan
from workbench.views import palette
from workbench.views.frame import NAMED_ROWS, Look, bar, figure
from workbench.views.units import bytes_text

DEVICE, POOL = "device", "cache"
OUTSIDE = "outside gpu_memory_utilization"
PARTS = {
    "used": (palette.RECURRENT, ""),
    "unfilled tokens": (palette.ATTENTION, "/"),
    "mamba padding": (palette.PADDING, "x"),
    "empty slots": (palette.CONV, "."),
    "checkpoint": (palette.ATTENTION_BEFORE, "-"),
    "draft blocks": (palette.CURRENT, "+"),
    "attention padding": (palette.PADDING, "|"),
}
"""Part -> colour and pattern, so that no part is shown by colour alone."""
DEVICE_PARTS = {
    "weights": (palette.ATTENTION, ""),
    "activations": (palette.CONV, "/"),
    "graph reserve": (palette.CURRENT, "x"),
    "outside torch": (palette.ATTENTION_BEFORE, "+"),
    "KV cache": (palette.RECURRENT, "."),
    OUTSIDE: (palette.PADDING, "-"),
}
POOL_PARTS = {
    **PARTS,
    "null block": (palette.CURRENT, "."),
    "idle blocks": (palette.ATTENTION_BEFORE, "/"),
    "rank imbalance": (palette.CONV, "|"),
    "remainder": (palette.PADDING, "."),
}
GIB = 2**30


def memory_bar(plan: Plan, prompt_tokens: int | None = None, theme: str = "auto") -> go.Figure:
    """Draw the device's memory above, the pool full of such requests below, in GiB.

    Where the ranks have memory of different sizes it is the rank with most of it.
    The upper bar is empty without a memory budget, the lower one is empty without any memory
    size; the title says what is missing. Always the same traces, in the same order.
    """
    prompt_tokens = usual_prompt(plan) if prompt_tokens is None else prompt_tokens
    check_prompt(plan, prompt_tokens)
    device, pool = device_parts(plan), pool_parts(plan, prompt_tokens)
    row = DEVICE if device else POOL  # a row of its own would stay empty
    bars = [
        *(_bar(row, name, device.get(name, 0), look) for name, look in DEVICE_PARTS.items()),
        *(_bar(POOL, name, pool.get(name, 0), look) for name, look in POOL_PARTS.items()),
    ]
    return figure(
        bars,
        _title(plan),
        theme,
        plan=plan,
        barmode="stack",
        height=330,
        margin={"t": 60, "b": 120},
        x={"title": "GiB", "rangemode": "tozero"},
        y=NAMED_ROWS,
    )


def device_parts(plan: Plan) -> dict[str, int]:
    """Return part of the device -> bytes, empty without a budget; nothing is negative."""
    budget = budget_of(plan)
    if budget is None or plan.cache is None or plan.cache.available_bytes is None:
        return {}
    taken = (
        *(budget.weights_bytes, budget.activation_bytes, budget.cuda_graph_bytes),
        budget.other_bytes,
    )
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
    margin = estimate_margin(plan)
    about = "" if margin is None else f", estimated \N{PLUS-MINUS SIGN} {bytes_text(margin)}"
    return f"<b>memory of one rank</b>: {bytes_text(max(available, 0))} for the cache{about}"


def _bar(row: str, name: str, size: int, look: Look) -> go.Bar:
    return bar(
        name,
        [size / GIB],
        [row],
        look,
        orientation="h",
        customdata=[bytes_text(size)],
        hovertemplate=f"<b>{name}</b>: %{{customdata}}<extra>{row}</extra>",
        showlegend=size > 0,
    )


def reserved_bytes(plan: Plan, theme: str = "auto") -> go.Figure:
    """Draw stacked bars of the bytes that one request reserves, for prompts of 16 tokens and more.

    Errors: ValueError when the plan has no cache (its pages cannot be made equal).
    """
    cache = plan.built_cache()
    prompts = prompt_lengths(plan.max_model_len)
    rows = [waste(plan, cache, prompt).parts for prompt in prompts]
    bars = [
        bar(
            part,
            [f"{prompt:,}" for prompt in prompts],
            [row[part] / sum(row.values()) for row in rows],
            look,
            customdata=[row[part] for row in rows],
            hovertemplate=f"<b>{part}</b><br>%{{x}} tokens: %{{customdata:,}} bytes, "
            "%{y:.1%}<extra></extra>",
            showlegend=any(row[part] for row in rows),
        )
        for part, look in PARTS.items()
    ]
    return figure(
        bars,
        "<b>bytes reserved for one request</b>",
        theme,
        plan=plan,
        barmode="stack",
        height=340,
        legend=None,
        x={"title": "prompt tokens", "type": "category", "showgrid": False},
        y={"tickformat": ".0%", "range": [0, 1]},
    )


def prompt_lengths(longest: int) -> tuple[int, ...]:
    """Return powers of two from 16 up to `longest`, and `longest` itself."""
    powers = [1 << power for power in range(4, longest.bit_length()) if 1 << power < longest]
    return (*powers, longest)
