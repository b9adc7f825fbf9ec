"""How many prompts the host pool holds, over its size, and what one of its blocks holds."""

from collections.abc import Iterator
from dataclasses import replace
from math import log10
from typing import Any, NamedTuple

import plotly.graph_objects as go

from workbench.core.arithmetic import GIB
from workbench.core.offload.fill import StoredPrompt, stored_prompt
from workbench.core.offload.plan import Offload, OffloadRequest, offload
from workbench.core.offload.pool import layer_bytes
from workbench.core.offload.remedies import offload_remedies, request_remedies
from workbench.core.offload.request import USUAL_BYTES
from workbench.core.plan import Plan
from workbench.core.trace import show
from workbench.views.frame import bar, figure
from workbench.views.offload.rows import PROMPTS, request_changes
from workbench.views.palette import ATTENTION, ATTENTION_BEFORE, CONV, CURRENT, PADDING, RECURRENT
from workbench.views.units import bytes_text

Style = tuple[str, str]
STYLES: tuple[Style, ...] = (
    (ATTENTION_BEFORE, "circle"),
    (ATTENTION, "square"),
    (RECURRENT, "diamond"),
    (CONV, "triangle-up"),
    (CURRENT, "triangle-down"),
)
"""Colour and symbol of every line."""

DOUBLINGS = 4
POINTS_PER_DOUBLING = 3


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
    axis = {"type": "log", "tickformat": ","}
    ticks = [2.0**power for power in range(-30, 31)]
    middle, reach = log10(memory / GIB), DOUBLINGS * log10(2)
    block = "" if request.block_size is None else f", offloaded block {request.block_size:,}"
    return figure(
        [*traces, _marks(styled, drawn, memory)],
        f"<b>prompts that the host memory holds</b>{block}<br><sub>{drawn.words}</sub>",
        theme,
        plan=plan,
        height=400,
        margin={"b": 100},
        x={
            **axis,
            "title": "host memory of all ranks, GiB",
            "range": [middle - reach, middle + reach],
            "tickvals": ticks,
            "ticktext": [f"{tick:,.4g}" for tick in ticks],
        },
        y={**axis, "title": "prompts at once", "dtick": 1},
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
            prompts, words = _prompts(other_plan, other), f"{words}; dotted: with {change}"
            return _Drawn(prompts, other.bytes_per_cpu_block, words, False)
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
    points = [
        (size, held, prompt) for size in sizes if prompt and (held := _held(prompt, size, drawn))
    ]
    name = f"{prompt.prompt_tokens:,} tokens" if prompt else ""
    if prompt and not prompt.blocks:
        name += ": nothing stored"
    elif prompt and drawn.is_legal:
        name += f": {_held(prompt, memory, drawn):,}"
    colour, symbol = style
    return go.Scatter(
        name=name,
        showlegend=bool(name),
        mode="lines+markers",
        marker={"color": colour, "symbol": symbol, "size": 5},
        line={"color": colour, "width": 2, "dash": "solid" if drawn.is_legal else "dot"},
        **_points(points),
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
    return go.Scatter(
        name="",
        showlegend=False,
        mode="markers",
        marker={
            "size": 12,
            "color": [colour for _held, _prompt, (colour, _symbol) in marked],
            "symbol": [symbol for _held, _prompt, (_colour, symbol) in marked],
        },
        **_points([(memory, held, prompt) for held, prompt, _style in marked]),
    )


def _points(points: list[tuple[int, int, StoredPrompt]]) -> dict[str, Any]:
    """Return where memory of so many bytes holds so many prompts; never empty."""
    return {
        "x": [size / GIB for size, _held, _prompt in points] or [None],
        "y": [held for _size, held, _prompt in points] or [None],
        "customdata": [_hover(prompt, held) for _size, held, prompt in points],
        "hovertemplate": "%{x:,.1f} GiB: <b>%{y:,}</b> prompts<br>%{customdata}<extra></extra>",
    }


def _held(prompt: StoredPrompt, memory: int, drawn: _Drawn) -> int:
    return memory // drawn.bytes_per_block // prompt.blocks if prompt.blocks else 0


def _hover(prompt: StoredPrompt, held: int) -> str:
    return (
        f"of {prompt.prompt_tokens:,} tokens: {prompt.attention_blocks:,} + "
        f"{prompt.state_blocks:,} host blocks each (attention + state)<br>"
        f"{prompt.loadable_tokens:,} tokens loaded back of each, {held * prompt.loadable_tokens:,} "
        "in all"
    )


LOOKS = ((RECURRENT, ""), (PADDING, "x"), (ATTENTION_BEFORE, "/"))


def host_block_figure(plan: Plan, theme: str = "auto") -> go.Figure:
    """Draw the bytes of one block id, group by group: data, padding, and slots without a layer.

    Errors: ValueError when the plan has no cache.
    """
    cache = plan.built_cache()
    by_name = {layer.name: layer for layer in layer_bytes(plan)}
    groups = [[by_name[name] for name in group.layers] for group in cache.groups]
    labels = [f"{number}: {group.spec.kind}" for number, group in enumerate(cache.groups)]
    whole = cache.grouping.bytes_per_block
    parts = {
        "keys, values or state": [sum(layer.data_bytes for layer in group) for group in groups],
        "padding of the page": [sum(layer.padding_bytes for layer in group) for group in groups],
        "slots without a layer": [whole - sum(x.page_bytes for x in group) for group in groups],
    }
    bars = [
        bar(
            name,
            sizes,
            labels,
            look,
            orientation="h",
            hovertemplate=f"<b>{name}</b><br>group %{{y}}: %{{x:,}} bytes<extra></extra>",
        )
        for (name, sizes), look in zip(parts.items(), LOOKS, strict=True)
    ]
    return figure(
        bars,
        f"<b>one block id: {bytes_text(whole)} in whichever group uses it</b>",
        theme,
        plan=plan,
        barmode="stack",
        height=190 + 28 * len(groups),
        margin={"b": 100, "t": 60},
        x={"title": "bytes, per rank"},
        y={"autorange": "reversed", "showgrid": False, "automargin": True},
    )
