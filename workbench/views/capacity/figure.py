"""Capacity over tensor parallelism and dtype, the gain of fp8, shared against separate pools."""

from collections.abc import Sequence
from typing import Final

import plotly.graph_objects as go

from workbench.core.arithmetic import GIB, MIB
from workbench.core.capacity.occupancy import check_prompt, usual_length
from workbench.core.capacity.separate_pools import separate_pools, shared_and_separate
from workbench.core.plan import Plan
from workbench.core.what_if.alternatives import FP8, capacity_on, fp8_gain
from workbench.core.what_if.choices import tensor_parallel_sizes
from workbench.views.capacity.memory_parts import prompt_lengths
from workbench.views.frame import bar, curve, figure
from workbench.views.palette import ATTENTION, CONV, CURRENT, RECURRENT
from workbench.views.units import bytes_text, tokens_text

DTYPES = ("auto", FP8)
MOST_RANKS = 16
FRAME: Final = {"height": 350, "margin": {"t": 60, "b": 110}}
PROMPT_AXIS: Final = {"title": "prompt tokens", "type": "log", "dtick": 1}


def capacity(plan: Plan, prompt_tokens: int | None = None, theme: str = "auto") -> go.Figure:
    """Draw the requests that fit over tensor-parallel sizes, one bar per KV-cache dtype.

    Without a memory size the bars show the bytes that one request takes on a rank. A cross: vLLM
    would not start there. Weights of a budget are split anew for every size.
    """
    prompt_tokens = usual_length(plan) if prompt_tokens is None else prompt_tokens
    check_prompt(plan, prompt_tokens)
    sizes = [n for n in tensor_parallel_sizes(plan.model, MOST_RANKS) if n & (n - 1) == 0]
    knows_memory = plan.cache is not None and plan.cache.available_bytes is not None
    bars = []
    for dtype, look in zip(DTYPES, ((ATTENTION, ""), (CONV, "/")), strict=True):
        plans = [capacity_on(plan, size, dtype, prompt_tokens) for size in sizes]
        mib = [taken and round(taken / MIB, 2) for _fits, taken in plans]
        heights = [fits for fits, _taken in plans] if knows_memory else mib
        bars.append(
            bar(
                f"kv_cache_dtype {dtype}",
                [f"TP {size}" for size in sizes],
                [height or 0 for height in heights],
                look,
                text=["✕" if height is None else f"{height:,}" for height in heights],
                textposition="outside",
                cliponaxis=False,
                customdata=[bytes_text(taken) for _fits, taken in plans],
                hovertemplate=f"%{{x}}, {dtype}: %{{y:,}}<br>one request: %{{customdata}} per rank"
                "<extra></extra>",
            )
        )
    unit = "requests that fit" if knows_memory else "MiB of one request on a rank"
    title = f"<b>{unit}</b>, prompts of {tokens_text(prompt_tokens)}"
    y = {"title": unit, "rangemode": "tozero"}
    return figure(bars, title, theme, plan=plan, **FRAME, x={"type": "category"}, y=y)


def gain_of_fp8(plan: Plan, theme: str = "auto") -> go.Figure:
    """Draw how many times as many requests an fp8 cache holds, over prompt length.

    The states do not shrink and the blocks get longer, so short prompts gain little.
    """
    gains = fp8_gain(plan, prompt_lengths(plan.max_model_len)) or ()
    line = curve(
        "gain",
        [gain.prompt_tokens for gain in gains],
        [gain.factor for gain in gains],
        (RECURRENT, "solid", "circle"),
        customdata=[(bytes_text(gain.bytes_now), bytes_text(gain.bytes_fp8)) for gain in gains],
        hovertemplate="%{x:,} tokens: %{y:.3f} x<br>now %{customdata[0]}<br>fp8 %{customdata[1]}"
        "<extra></extra>",
        showlegend=False,
    )
    title = "<b>gain of an fp8 KV cache</b>: requests in the same memory"
    if not gains:
        title = "<b>no fp8 gain to show</b>: fp8 is already on or not available here"
    y = {"title": "relative number of requests"}
    return figure([line], title, theme, plan=plan, **FRAME, x=PROMPT_AXIS, y=y)


def shared_or_separate(
    plan: Plan, designed_for_tokens: int | None = None, theme: str = "auto"
) -> go.Figure:
    """Draw requests that fit in one pool, and in two pools split for `designed_for_tokens`.

    Separate pools need no padding and no inflated blocks, but are full at one length only.
    """
    if designed_for_tokens is None:
        designed_for_tokens = usual_length(plan)
    check_prompt(plan, designed_for_tokens)
    pools, cache = separate_pools(plan, designed_for_tokens), plan.cache
    prompts: Sequence[int] = ()
    rows: list[tuple[int, int]] = []
    if pools is not None and cache is not None:
        prompts = prompt_lengths(plan.max_model_len)
        rows = [shared_and_separate(plan, cache, pools, prompt) for prompt in prompts]
    looks = (
        ("one shared pool", ATTENTION, "solid", "circle"),
        ("two pools", CURRENT, "dash", "square"),
    )
    lines = [
        curve(
            name,
            prompts,
            [row[index] for row in rows],
            look,
            hovertemplate=f"%{{x:,}} tokens: %{{y:,}} requests in {name}<extra></extra>",
        )
        for index, (name, *look) in enumerate(looks)
    ]
    title = (
        "<b>no pools to compare</b>: a hybrid model and a memory size are needed"
        if pools is None
        else f"<b>shared or separate pools</b>, split for {tokens_text(designed_for_tokens)}: "
        f"{pools.attention_bytes / GIB:.2f} and {pools.state_bytes / GIB:.2f} GiB"
    )
    y = {"title": "requests that fit", "type": "log"}
    return figure(lines, title, theme, plan=plan, **FRAME, x=PROMPT_AXIS, y=y)
