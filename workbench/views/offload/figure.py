"""How many prompts the host pool holds, over its size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import log10
from typing import NamedTuple

import plotly.graph_objects as go

from workbench.core.offload.fill import StoredPrompt, stored_prompt
from workbench.core.offload.plan import Offload, OffloadRequest, offload
from workbench.core.offload.remedies import offload_remedies, request_remedies
from workbench.core.plan import Plan
from workbench.core.trace import show
from workbench.views.caption import of_plan
from workbench.views.offload.rows import request_changes
from workbench.views.palette import (
    ATTENTION,
    ATTENTION_BEFORE,
    CONV,
    CURRENT,
    LEGEND_BELOW,
    RECURRENT,
    THEMES,
)
from workbench.views.units import bytes_text

GIB = 2**30

PROMPTS = (1024, 4096, 16384, 65536, 262144)
"""Prompt lengths of the lines, in tokens; the longest request takes the place of longer ones."""

Style = tuple[str, str]
STYLES: tuple[Style, ...] = (
    (ATTENTION_BEFORE, "circle"),
    (ATTENTION, "square"),
    (RECURRENT, "diamond"),
    (CONV, "triangle-up"),
    (CURRENT, "triangle-down"),
)
"""Colour and symbol of every line."""

USUAL_BYTES = 64 * 2**30
"""The middle of the axis while no host memory is given."""

DOUBLINGS = 4
POINTS_PER_DOUBLING = 3


@of_plan
def offload_figure(plan: Plan, request: OffloadRequest, theme: str = "auto") -> go.Figure:
    """Draw the prompts that the host pool holds at once, over its size; one line per prompt length.

    Both axes are logarithmic. The large marks are the memory of the request; the legend gives
    their counts. Where vLLM would stop, the lines are dotted and show the first remedy that works,
    which the title names; empty where none does. Always six traces. Errors: ValueError when the
    plan has no cache.
    """
    drawn = _drawn(plan, request, offload(plan, request))
    memory = request.cpu_bytes_to_use or USUAL_BYTES
    prompts = (*drawn.prompts, *[None] * (len(STYLES) - len(drawn.prompts)))
    styled = list(zip(prompts, STYLES, strict=True))
    traces = [_line(prompt, style, drawn, memory) for prompt, style in styled]
    return go.Figure(
        [*traces, _marks(styled, drawn, memory)], layout=_layout(request, drawn, memory, theme)
    )


class _Drawn(NamedTuple):
    """Offload whose lines are drawn: the given one or a remedy's, with the second title."""

    prompts: tuple[StoredPrompt, ...]
    bytes_per_block: int
    words: str
    is_legal: bool


def _drawn(plan: Plan, request: OffloadRequest, result: Offload) -> _Drawn:
    if result.is_legal:
        blocks = "no layer keeps a cache"
        if result.bytes_per_cpu_block:
            blocks = (
                f"{bytes_text(request.cpu_bytes_to_use)} are {result.cpu_blocks:,} host blocks of "
                f"{bytes_text(result.bytes_per_cpu_block)}"
            )
        return _Drawn(_prompts(plan, result), result.bytes_per_cpu_block or 0, f"✓ {blocks}", True)
    words = f"✕ vLLM fails at start-up: {result.problems[0].code}"
    for other_plan, other, change in _remedied(plan, request, result):
        if other.is_legal and other.bytes_per_cpu_block:
            return _Drawn(
                _prompts(other_plan, other),
                other.bytes_per_cpu_block,
                f"{words}; dotted: with {change}",
                False,
            )
    return _Drawn((), 0, words, False)


def _remedied(
    plan: Plan, request: OffloadRequest, result: Offload
) -> Iterator[tuple[Plan, Offload, str]]:
    """Yield the remedies that can be tried, with result and description."""
    if not request.cpu_bytes_to_use:
        request = replace(request, cpu_bytes_to_use=USUAL_BYTES)
        yield plan, offload(plan, request), "any host memory"
    for problem in result.problems:
        for remedy in offload_remedies(plan, problem, request):
            yield remedy.plan, offload(remedy.plan, request), remedy.text
        for other in request_remedies(plan, problem, request):
            changes = request_changes(request, other).items()
            words = ", ".join(f"{name} = {show(value)}" for name, value in changes)
            yield plan, offload(plan, other), words


def _prompts(plan: Plan, result: Offload) -> tuple[StoredPrompt, ...]:
    lengths = sorted({min(length, plan.max_model_len) for length in PROMPTS})
    return tuple(stored_prompt(plan, result, length) for length in lengths)


def _line(prompt: StoredPrompt | None, style: Style, drawn: _Drawn, memory: int) -> go.Scatter:
    steps = range(-DOUBLINGS * POINTS_PER_DOUBLING, DOUBLINGS * POINTS_PER_DOUBLING + 1)
    sizes = [round(memory * 2 ** (step / POINTS_PER_DOUBLING)) for step in steps]
    points = [(size, _held(prompt, size, drawn)) for size in sizes]
    points = [(size, held) for size, held in points if held]
    x: list[float | None] = [size / GIB for size, _held in points]
    y: list[int | None] = [held for _size, held in points]
    name = "" if prompt is None else f"{prompt.prompt_tokens:,} tokens"
    if prompt is not None and not prompt.blocks:
        name += ": nothing stored"
    elif name and drawn.is_legal:
        name += f": {_held(prompt, memory, drawn):,}"
    return go.Scatter(
        name=name,
        showlegend=bool(name),
        mode="lines+markers",
        marker={"color": style[0], "symbol": style[1], "size": 5},
        x=x or [None],
        y=y or [None],
        line={"color": style[0], "width": 2, "dash": "solid" if drawn.is_legal else "dot"},
        customdata=[_hover(prompt, held) for _size, held in points] if prompt else [],
        hovertemplate="%{x:,.1f} GiB: <b>%{y:,}</b> prompts<br>%{customdata}<extra></extra>",
    )


def _marks(
    styled: list[tuple[StoredPrompt | None, Style]], drawn: _Drawn, memory: int
) -> go.Scatter:
    """Draw the points of the request's memory, larger; the legend gives the counts."""
    marked = [
        (held, prompt, style)
        for prompt, style in styled
        if prompt is not None and drawn.is_legal and (held := _held(prompt, memory, drawn))
    ]
    x: list[float | None] = [memory / GIB for _ in marked]
    y: list[int | None] = [held for held, _prompt, _style in marked]
    return go.Scatter(
        name="",
        showlegend=False,
        mode="markers",
        x=x or [None],
        y=y or [None],
        marker={
            "size": 12,
            "color": [colour for _held, _prompt, (colour, _symbol) in marked],
            "symbol": [symbol for _held, _prompt, (_colour, symbol) in marked],
        },
        customdata=[_hover(prompt, held) for held, prompt, _style in marked],
        hovertemplate="%{x:,.1f} GiB: <b>%{y:,}</b> prompts<br>%{customdata}<extra></extra>",
    )


def _held(prompt: StoredPrompt | None, memory: int, drawn: _Drawn) -> int:
    if prompt is None or not prompt.blocks:
        return 0
    return memory // drawn.bytes_per_block // prompt.blocks


def _hover(prompt: StoredPrompt, held: int) -> str:
    return (
        f"of {prompt.prompt_tokens:,} tokens: {prompt.attention_blocks:,} + "
        f"{prompt.state_blocks:,} host blocks each (attention + state)<br>"
        f"{prompt.loadable_tokens:,} tokens loaded back of each, {held * prompt.loadable_tokens:,} "
        "in all"
    )


def _layout(request: OffloadRequest, drawn: _Drawn, memory: int, theme: str) -> dict[str, object]:
    colours = THEMES[theme]
    axis = {"type": "log", "gridcolor": colours.grid, "zeroline": False, "tickformat": ","}
    ticks = [2.0**power for power in range(-30, 31)]
    middle = log10(memory / GIB)
    reach = DOUBLINGS * log10(2)
    block = "" if request.block_size is None else f", offloaded block {request.block_size:,}"
    return {
        "height": 400,
        "margin": {"b": 100},
        "title": {
            "text": f"<b>prompts that the host memory holds</b>{block}<br><sup>{drawn.words}</sup>",
            "x": 0,
            "xref": "paper",
        },
        **colours.surface,
        "legend": LEGEND_BELOW,
        "xaxis": {
            **axis,
            "title": {"text": "host memory of all ranks, GiB"},
            "range": [middle - reach, middle + reach],
            "tickvals": ticks,
            "ticktext": [f"{tick:,.4g}" for tick in ticks],
        },
        "yaxis": {**axis, "title": {"text": "prompts at once"}, "dtick": 1},
    }
