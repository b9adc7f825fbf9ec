"""Cached tokens over prompt length, and the steps and checkpoints of one prompt."""

from __future__ import annotations

from html import escape
from itertools import chain, islice, pairwise

import plotly.graph_objects as go

from workbench.core.plan import Plan
from workbench.core.prefix.hits import (
    Caching,
    Hit,
    caching_of,
    prefix_hit,
    reason_without_hits,
    smallest_prefix,
)
from workbench.core.prefix.prefill import Prefill
from workbench.views.caption import of_plan
from workbench.views.html import document, table
from workbench.views.palette import ATTENTION, CURRENT, PADDING, RECURRENT, THEMES
from workbench.views.units import tokens_text

MAX_POINTS = 400
MAX_ROWS = 50
MAX_POSITIONS = 6
BLOCKS_SHOWN = 12
"""The curve ends after this many blocks (or at `max_model_len`): it only repeats itself."""


@of_plan
def hit_curve(
    plan: Plan, unique_tokens: int = 0, longest: int | None = None, theme: str = "auto"
) -> go.Figure:
    """Draw the tokens that a prompt finds cached after an earlier prompt of the same length.

    All but the last `unique_tokens` are shared; 0 is the same prompt again. `longest` ends the
    axis. Always four traces: everything that is shared, what attention alone would give, what is
    cached, and the shortest prompt with a hit. Where nothing can be found the title says why.
    Errors: ValueError when the plan has no cache, or for lengths below 0.
    """
    caching = caching_of(plan)
    if unique_tokens < 0 or (longest is not None and longest < 1):
        raise ValueError(
            f"unique_tokens must be at least 0 and longest at least 1; got {unique_tokens} and "
            f"{longest}."
        )
    end = min(longest or _usual_end(caching, unique_tokens), max(1, caching.max_model_len - 1))
    lengths = prompt_lengths(caching, end, unique_tokens)
    hits = [prefix_hit(caching, length, max(0, length - unique_tokens)) for length in lengths]
    first = next((hit for hit in hits if hit.cached_tokens), None)
    return go.Figure(
        _traces(hits, first), layout=_layout(caching, unique_tokens, end, first, theme)
    )


def prompt_lengths(caching: Caching, end: int, unique_tokens: int = 0) -> tuple[int, ...]:
    """Return the computed lengths: those around every jump, or evenly spaced if too many."""
    block = caching.alignment_tokens
    edges = {1, end}
    for unique in {0, unique_tokens}:
        jumps = range(block + unique, end + 1, block)
        edges.update(j + k for j in jumps[: MAX_POINTS // 6] for k in (-1, 0, 1))
    even = range(1, end + 1, max(1, end // (MAX_POINTS // 4)))
    return tuple(sorted(length for length in {*edges, *even} if 1 <= length <= end))


def checkpoint_table(plan: Plan, prompt_tokens: int, shared_tokens: int | None = None) -> str:
    """Return one row per step of a prompt, whether its state is kept, and who can use it, as HTML.

    shared_tokens: of another prompt of this length, to report what this one reuses. Errors:
    ValueError when the plan has no cache, or for lengths that are out of range.
    """
    if not 1 <= prompt_tokens <= plan.max_model_len:
        raise ValueError(
            f"prompt_tokens must be from 1 to max_model_len ({plan.max_model_len}); "
            f"got {prompt_tokens}."
        )
    caching = caching_of(plan)
    done = caching.prefill(prompt_tokens)
    if not done.is_scheduled:
        return document(f"<p>{escape(reason_without_hits(caching) or 'Never scheduled.')}</p>")
    ends = islice(chain.from_iterable(done.stops), MAX_ROWS)
    rows = [
        (str(number), f"{stop - start:,}", f"{stop:,}", _kept(caching, done, start, stop))
        for number, (start, stop) in enumerate(pairwise((0, *ends)), 1)
    ]
    left = done.step_count - len(rows)
    return document(
        f"<p>{escape(_setting(caching))}</p>",
        table(("step", "tokens", "up to", "kept for others"), rows),
        f'<p class="wb-faint">{left:,} more steps.</p>' if left else "",
        f"<p>{escape(_smallest_text(caching, prompt_tokens))}</p>",
        ""
        if shared_tokens is None
        else f"<p>{escape(hit_text(prefix_hit(caching, prompt_tokens, shared_tokens)))}</p>",
    )


def hit_text(hit: Hit) -> str:
    """Describe what a request reuses, with what is lost or read wrongly."""
    words = [
        f"Of {tokens_text(hit.shared_tokens)} shared, {tokens_text(hit.cached_tokens)} are reused."
    ]
    if hit.attention_lost_tokens:
        words.append(
            f"Attention alone would reuse {hit.attention_tokens:,}; no checkpoint is there."
        )
    if hit.attention_missing_tokens:
        words.append(
            f"vLLM 0.23 counts {hit.attention_missing_tokens:,} of them without having their keys "
            "and values: attention reads garbage there."
        )
    return " ".join(words)


def _traces(hits: list[Hit], first: Hit | None) -> list[go.Scatter]:
    lengths = [hit.prompt_tokens for hit in hits]
    name = "%{x:,} tokens: %{y:,}<extra>%{fullData.name}</extra>"
    return [
        go.Scatter(
            name="shared",
            x=lengths,
            y=[hit.shared_tokens for hit in hits],
            mode="lines",
            line={"color": PADDING, "dash": "dot", "width": 1},
            hovertemplate=name,
        ),
        go.Scatter(
            name="attention alone",
            x=lengths,
            y=[hit.attention_tokens for hit in hits],
            mode="lines",
            line={"color": ATTENTION, "dash": "dash", "width": 2, "shape": "hv"},
            hovertemplate=name,
        ),
        go.Scatter(
            name="cached",
            x=lengths,
            y=[hit.cached_tokens for hit in hits],
            mode="lines",
            line={"color": RECURRENT, "width": 3, "shape": "hv"},
            customdata=[hit_text(hit) for hit in hits],
            hovertemplate="%{x:,} tokens: %{y:,} cached<br>%{customdata}<extra></extra>",
        ),
        go.Scatter(
            name="shortest prompt with a hit",
            x=[None if first is None else first.prompt_tokens],
            y=[None if first is None else first.cached_tokens],
            mode="markers+text",
            text=["" if first is None else f"{first.prompt_tokens:,}"],
            textposition="top center",
            marker={"color": CURRENT, "symbol": "diamond", "size": 11},
            hovertemplate="from %{x:,} tokens on: %{y:,} cached<extra></extra>",
        ),
    ]


def _layout(
    caching: Caching, unique_tokens: int, end: int, first: Hit | None, theme: str
) -> dict[str, object]:
    colours = THEMES[theme]
    again = "the same prompt again" if not unique_tokens else f"{unique_tokens:,} tokens differ"
    second = reason_without_hits(caching)
    if second is None and first is None:
        second = f"No prompt up to {tokens_text(end)} finds anything."
    if second is None:
        smallest = tokens_text(smallest_prefix(caching))
        second = f"{_setting(caching)} Smallest cacheable prefix of any prompt: {smallest}."
    axis = {"gridcolor": colours.grid, "zeroline": False, "rangemode": "tozero", "tickformat": ","}
    return {
        "height": 360,
        "title": {
            "text": f"<b>tokens found in the cache</b>, {again}<br><sup>{second}</sup>",
            "x": 0,
            "xref": "paper",
        },
        **colours.surface,
        "legend": {"orientation": "h", "y": -0.25},
        "xaxis": {**axis, "title": {"text": "prompt tokens"}, "range": [0, end]},
        "yaxis": {**axis, "title": {"text": "cached tokens"}},
    }


def _usual_end(caching: Caching, unique_tokens: int) -> int:
    block = max(caching.alignment_tokens, caching.budget_tokens // 4)
    return unique_tokens + BLOCKS_SHOWN * min(block, caching.max_model_len)


def _kept(caching: Caching, done: Prefill, start: int, stop: int) -> str:
    if caching.state_block is None:
        return "full blocks of keys and values" if caching.is_on else "no"
    inside = done.kept_between(start, stop)
    count = sum(len(part) for part in inside)
    if not count:
        return "no"
    shown = islice(chain.from_iterable(inside), MAX_POSITIONS)
    more = f", {count - MAX_POSITIONS:,} more" if count > MAX_POSITIONS else ""
    return "state at " + ", ".join(f"<b>{position:,}</b>" for position in shown) + more


def _setting(caching: Caching) -> str:
    block = caching.state_block or caching.alignment_tokens
    words = f"Mode {caching.mode}, block {block:,}, budget {caching.budget_tokens:,} tokens a step"
    return words + (", with drafts (EAGLE-like)." if caching.drafts else ".")


def _smallest_text(caching: Caching, prompt_tokens: int) -> str:
    smallest = smallest_prefix(caching, prompt_tokens)
    if smallest is None:
        return reason_without_hits(caching) or "No prefix of this prompt is found again."
    return f"A prompt of this length is reused from {tokens_text(smallest)} of shared prefix on."
