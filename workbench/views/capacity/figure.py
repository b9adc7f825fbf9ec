"""Capacity over tensor parallelism and dtype, the gain of fp8, shared against separate pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from workbench.core.capacity.occupancy import check_prompt, usual_prompt
from workbench.core.capacity.separate_pools import separate_pools, shared_and_separate
from workbench.core.plan import Plan
from workbench.core.what_if.alternatives import FP8, capacity_on, fp8_gain
from workbench.core.what_if.choices import tensor_parallel_sizes
from workbench.views.capacity.waste_figure import prompt_lengths
from workbench.views.caption import of_plan
from workbench.views.palette import ATTENTION, CONV, CURRENT, LEGEND_BELOW, RECURRENT, THEMES
from workbench.views.units import bytes_text, tokens_text

DTYPES = ("auto", FP8)
LARGEST_TENSOR_PARALLEL = 16
MIB = 2**20
GIB = 2**30


@of_plan
def capacity(plan: Plan, prompt_tokens: int | None = None, theme: str = "auto") -> go.Figure:
    """Draw the requests that fit over tensor-parallel sizes, one bar per KV-cache dtype.

    Without a memory size the bars show the bytes that one request takes on a rank. A cross: vLLM
    would not start there. Weights of a budget are split anew for every size.
    """
    prompt_tokens = usual_prompt(plan) if prompt_tokens is None else prompt_tokens
    check_prompt(plan, prompt_tokens)
    sizes = [size for size in tensor_parallel_sizes(plan.model) if size & (size - 1) == 0]
    sizes = [size for size in sizes if size <= LARGEST_TENSOR_PARALLEL]
    knows_memory = plan.cache is not None and plan.cache.available_bytes is not None
    bars = []
    for dtype, colour, pattern in zip(DTYPES, (ATTENTION, CONV), ("", "/"), strict=True):
        plans = [capacity_on(plan, size, dtype, prompt_tokens) for size in sizes]
        heights = [fits if knows_memory else _mib(taken) for fits, taken in plans]
        bars.append(
            go.Bar(
                name=f"kv_cache_dtype {dtype}",
                x=[f"TP {size}" for size in sizes],
                y=[height or 0 for height in heights],
                text=["✕" if height is None else f"{height:,}" for height in heights],
                textposition="outside",
                cliponaxis=False,
                customdata=[bytes_text(taken) for _fits, taken in plans],
                marker={"color": colour, "pattern": {"shape": pattern, "fgcolor": "#ffffff"}},
                hovertemplate=f"%{{x}}, {dtype}: %{{y:,}}<br>one request: %{{customdata}} a rank"
                "<extra></extra>",
            )
        )
    unit = "requests that fit" if knows_memory else "MiB of one request on a rank"
    title = f"<b>{unit}</b>, prompts of {tokens_text(prompt_tokens)}"
    return _figure(bars, title, theme, {"title": {"text": unit}, "rangemode": "tozero"})


@of_plan
def gain_of_fp8(plan: Plan, theme: str = "auto") -> go.Figure:
    """Draw how many times as many requests an fp8 cache holds, over prompt length.

    The states do not shrink and the blocks get longer, so short prompts gain little.
    """
    gains = fp8_gain(plan, prompt_lengths(plan.max_model_len)) or ()
    line = go.Scatter(
        x=[gain.prompt_tokens for gain in gains],
        y=[gain.factor for gain in gains],
        customdata=[(bytes_text(gain.bytes_now), bytes_text(gain.bytes_fp8)) for gain in gains],
        mode="lines+markers",
        line={"color": RECURRENT},
        hovertemplate="%{x:,} tokens: %{y:.3f} x<br>now %{customdata[0]}<br>fp8 %{customdata[1]}"
        "<extra></extra>",
        name="gain",
        showlegend=False,
    )
    title = "<b>gain of an fp8 KV cache</b>: requests in the same memory"
    if not gains:
        title = "<b>no fp8 gain to show</b>: fp8 is already on or not available here"
    return _figure(
        [line], title, theme, {"title": {"text": "relative number of requests"}}, _log_tokens()
    )


@of_plan
def shared_or_separate(
    plan: Plan, designed_for_tokens: int | None = None, theme: str = "auto"
) -> go.Figure:
    """Draw requests that fit in one pool, and in two pools split for `designed_for_tokens`.

    Separate pools need no padding and no inflated blocks, but are full at one length only.
    """
    if designed_for_tokens is None:
        designed_for_tokens = usual_prompt(plan)
    check_prompt(plan, designed_for_tokens)
    pools, cache = separate_pools(plan, designed_for_tokens), plan.cache
    prompts: Sequence[int] = ()
    rows: list[tuple[int, int]] = []
    if pools is not None and cache is not None:
        prompts = prompt_lengths(plan.max_model_len)
        rows = [shared_and_separate(plan, cache, pools, prompt) for prompt in prompts]
    looks = (("one shared pool", ATTENTION, "solid", 0), ("two pools", CURRENT, "dash", 1))
    lines = [
        go.Scatter(
            name=name,
            x=list(prompts),
            y=[row[index] for row in rows],
            mode="lines+markers",
            line={"color": colour, "dash": dash},
            marker={"symbol": "square" if index else "circle"},
            hovertemplate=f"%{{x:,}} tokens: %{{y:,}} requests in {name}<extra></extra>",
        )
        for name, colour, dash, index in looks
    ]
    title = (
        "<b>no pools to compare</b>: a hybrid model and a memory size are needed"
        if pools is None
        else f"<b>shared or separate pools</b>, split for {tokens_text(designed_for_tokens)}: "
        f"{pools.attention_bytes / GIB:.2f} and {pools.state_bytes / GIB:.2f} GiB"
    )
    requests = {"title": {"text": "requests that fit"}, "type": "log"}
    return _figure(lines, title, theme, requests, _log_tokens())


def _figure(
    traces: Sequence[Any],
    title: str,
    theme: str,
    y_axis: dict[str, Any],
    x_axis: dict[str, Any] | None = None,
) -> go.Figure:
    colours = THEMES[theme]
    return go.Figure(
        list(traces),
        layout={
            "height": 350,
            "margin": {"t": 60, "b": 110},
            "legend": LEGEND_BELOW,
            "title": {"text": title, "x": 0, "xref": "paper", "font": {"size": 15}},
            **colours.surface,
            "xaxis": {"gridcolor": colours.grid, **(x_axis or {"type": "category"})},
            "yaxis": {"gridcolor": colours.grid, **y_axis},
        },
    )


def _log_tokens() -> dict[str, Any]:
    return {"title": {"text": "prompt tokens"}, "type": "log", "dtick": 1}


def _mib(size: int | None) -> float | None:
    return None if size is None else round(size / MIB, 2)
