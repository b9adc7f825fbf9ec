"""How a device's memory and the cache's share of it are spent, and what one request reserves."""

import plotly.graph_objects as go

from workbench.core.arithmetic import GIB
from workbench.core.capacity.memory_estimate import estimate_margin
from workbench.core.capacity.occupancy import check_prompt, usual_length, waste
from workbench.core.plan import Plan
from workbench.views.capacity.memory_parts import (
    DEVICE,
    DEVICE_PARTS,
    PARTS,
    POOL,
    POOL_PARTS,
    device_parts,
    pool_parts,
    prompt_lengths,
)
from workbench.views.frame import NAMED_ROWS, Look, bar, figure
from workbench.views.units import bytes_text


def memory_bar(plan: Plan, prompt_tokens: int | None = None, theme: str = "auto") -> go.Figure:
    """Draw the device's memory above, the pool full of such requests below, in GiB.

    Where the ranks have memory of different sizes it is the rank with most of it.
    The upper bar is empty without a memory budget, the lower one is empty without any memory
    size; the title says what is missing. Always the same traces, in the same order.
    """
    prompt_tokens = usual_length(plan) if prompt_tokens is None else prompt_tokens
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


def _title(plan: Plan) -> str:
    if (cache := plan.kept_cache) is None:
        return f"<b>no cache</b>: {plan.no_cache_text}"
    available = cache.available_bytes
    if available is None:
        return "<b>no memory yet</b>: set the KV-cache memory, or device memory and weights"
    ranks = cache.rank_bytes
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

    Errors: ValueError when the plan has no cache (see plan.no_cache_text).
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
