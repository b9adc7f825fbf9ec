"""Cached tokens over prompt length."""

import plotly.graph_objects as go

from workbench.core.plan import Plan
from workbench.core.prefix.hits import Caching, Hit, caching_of, prefix_hit, smallest_prefix
from workbench.core.prefix.workload import WorkloadHits
from workbench.views.frame import figure
from workbench.views.hits.html import hit_text, no_hits_text, setting_text
from workbench.views.palette import ATTENTION, CURRENT, PADDING, RECURRENT
from workbench.views.units import tokens_text

MAX_POINTS = 400
BLOCKS_SHOWN = 12
"""The curve ends after this many blocks (or at `max_model_len`): it only repeats itself."""
LENGTHS, SHARED = "prompt_tokens", "shared_tokens"
AXES = {LENGTHS: "prompt tokens", SHARED: "shared tokens of a prompt"}
"""Field of a hit that the curve is drawn over -> title of its axis."""


def hit_curve(
    plan: Plan,
    unique_tokens: int = 0,
    longest: int | None = None,
    theme: str = "auto",
    found: WorkloadHits | None = None,
) -> go.Figure:
    """Draw the tokens that a prompt finds cached after an earlier prompt of the same length.

    Over the length of the prompt, whose last `unique_tokens` are not shared (0: the same prompt
    again), up to `longest`; with `found`, a workload, over what a prompt of its length shares.
    Always five traces: everything that is shared, what attention layers only would give, what is
    cached, where hits begin, and the prompt of `found`. Where nothing can be found the title says
    why. Errors: ValueError when the plan has no cache, or for lengths below 0.
    """
    caching = caching_of(plan)
    if unique_tokens < 0 or (longest is not None and longest < 1):
        raise ValueError(
            f"unique_tokens must be at least 0 and longest at least 1; got {unique_tokens} and "
            f"{longest}."
        )
    if found is None:
        hits, over = _over_lengths(caching, unique_tokens, longest), LENGTHS
    else:
        hits, over = _over_shared(caching, found.workload.prompt_tokens), SHARED
    first = next((hit for hit in hits if hit.cached_tokens), None)
    axis = {"rangemode": "tozero", "tickformat": ","}
    return figure(
        [*_traces(hits, first, over, unique_tokens), _workload_mark(found)],
        _title(caching, hits[-1].prompt_tokens, first, unique_tokens, over),
        theme,
        plan=plan,
        height=360,
        x={**axis, "title": AXES[over], "range": [0, hits[-1].prompt_tokens]},
        y={**axis, "title": "cached tokens"},
    )


def _over_lengths(caching: Caching, unique_tokens: int, longest: int | None) -> list[Hit]:
    block = max(caching.alignment_tokens, caching.budget_tokens // 4)
    usual = unique_tokens + BLOCKS_SHOWN * min(block, caching.max_model_len)
    end = min(longest or usual, max(1, caching.max_model_len - 1))
    lengths = prompt_lengths(caching, end, unique_tokens)
    return [prefix_hit(caching, length, max(0, length - unique_tokens)) for length in lengths]


def _over_shared(caching: Caching, prompt_tokens: int) -> list[Hit]:
    first = smallest_prefix(caching, prompt_tokens) or prompt_tokens
    shared = {*prompt_lengths(caching, prompt_tokens), first}
    return [prefix_hit(caching, prompt_tokens, tokens) for tokens in sorted(shared)]


def prompt_lengths(caching: Caching, end: int, unique_tokens: int = 0) -> tuple[int, ...]:
    """Return the computed lengths: those around every jump, or evenly spaced if too many."""
    block = caching.alignment_tokens
    edges = {1, end}
    for unique in {0, unique_tokens}:
        jumps = range(block + unique, end + 1, block)
        edges.update(j + k for j in jumps[: MAX_POINTS // 6] for k in (-1, 0, 1))
    even = range(1, end + 1, max(1, end // (MAX_POINTS // 4)))
    return tuple(sorted(length for length in {*edges, *even} if 1 <= length <= end))


def _traces(hits: list[Hit], first: Hit | None, over: str, unique_tokens: int) -> list[go.Scatter]:
    unique = f", {tokens_text(unique_tokens)} of it unique" if unique_tokens else ""
    begins = None if first is None else getattr(first, over)
    name = "%{x:,} tokens: %{y:,}<extra>%{fullData.name}</extra>"
    lines = (
        ("shared", SHARED, {"color": PADDING, "dash": "dot", "width": 1}),
        (
            "attention layers only",
            "attention_tokens",
            {"color": ATTENTION, "dash": "dash", "width": 2},
        ),
        ("cached", "cached_tokens", {"color": RECURRENT, "width": 3}),
    )
    traces = [
        go.Scatter(
            name=label,
            x=[getattr(hit, over) for hit in hits],
            y=[getattr(hit, field) for hit in hits],
            mode="lines",
            line={"shape": "hv", **line},
            hovertemplate=name,
        )
        for label, field, line in lines
    ]
    traces[0].line.shape = "linear"
    traces[-1].customdata = [hit_text(hit) for hit in hits]
    traces[-1].hovertemplate = "%{x:,} tokens: %{y:,} cached<br>%{customdata}<extra></extra>"
    return [
        *traces,
        go.Scatter(
            name=f"shortest prompt with a hit{unique}" if over == LENGTHS else "where hits begin",
            x=[begins],
            y=[None if first is None else first.cached_tokens],
            mode="markers+text",
            text=["" if begins is None else f"{begins:,}"],
            textposition="top center",
            cliponaxis=False,
            marker={"color": CURRENT, "symbol": "diamond", "size": 11},
            hovertemplate="from %{x:,} tokens on: %{y:,} cached<extra></extra>",
        ),
    ]


def _workload_mark(found: WorkloadHits | None) -> go.Scatter:
    """Return the prompt of a workload, at the most that any of its requests finds cached."""
    work = None if found is None else found.workload
    cached = 0 if found is None else max(found.cached_tokens, default=0)
    share = "" if found is None or work is None else f"{found.hits:,} of {work.requests:,} hit"
    return go.Scatter(
        name="your workload",
        showlegend=work is not None,
        x=[None if work is None else work.shared_tokens],
        y=[None if work is None else cached],
        mode="markers+text",
        text=[share],
        textposition="bottom right" if cached else "top left",
        cliponaxis=False,
        marker={"color": CURRENT, "symbol": "star", "size": 15},
        hovertemplate="your %{x:,} shared tokens: %{y:,} cached<br>%{text}<extra></extra>",
    )


def _title(caching: Caching, longest: int, first: Hit | None, unique_tokens: int, over: str) -> str:
    again = "the same prompt again" if not unique_tokens else f"{unique_tokens:,} tokens differ"
    if over == SHARED:
        again = f"prompts of {tokens_text(longest)}"
    second = no_hits_text(caching)
    if not second and first is None:
        second = f"No prompt up to {tokens_text(longest)} can hit."
    if not second:
        second = setting_text(caching)
    if over == LENGTHS and first is not None:  # over shared tokens there is one threshold
        smallest = tokens_text(smallest_prefix(caching))
        second += f" Smallest cacheable prefix of any prompt: {smallest}."
    return f"<b>tokens found in the cache</b>, {again}<br><sub>{second}</sub>"
