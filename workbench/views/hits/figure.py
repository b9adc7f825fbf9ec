"""Cached tokens over prompt length, and the steps and checkpoints of one prompt."""

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
from workbench.core.prefix.workload import Workload, workload_hits
from workbench.views.frame import figure
from workbench.views.html import Html, document, join, note, table, tag
from workbench.views.palette import ATTENTION, CURRENT, PADDING, RECURRENT
from workbench.views.units import tokens_text

MAX_POINTS = 400
MAX_ROWS = 50
MAX_POSITIONS = 6
BLOCKS_SHOWN = 12
"""The curve ends after this many blocks (or at `max_model_len`): it only repeats itself."""


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
    block = max(caching.alignment_tokens, caching.budget_tokens // 4)
    usual = unique_tokens + BLOCKS_SHOWN * min(block, caching.max_model_len)
    end = min(longest or usual, max(1, caching.max_model_len - 1))
    lengths = prompt_lengths(caching, end, unique_tokens)
    hits = [prefix_hit(caching, length, max(0, length - unique_tokens)) for length in lengths]
    first = next((hit for hit in hits if hit.cached_tokens), None)
    axis = {"rangemode": "tozero", "tickformat": ","}
    return figure(
        _traces(hits, first),
        _title(caching, unique_tokens, end, first),
        theme,
        plan=plan,
        height=360,
        x={**axis, "title": "prompt tokens", "range": [0, end]},
        y={**axis, "title": "cached tokens"},
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


def checkpoint_table(plan: Plan, prompt_tokens: int, shared_tokens: int | None = None) -> Html:
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
        return document(tag("p", reason_without_hits(caching) or "Never scheduled."))
    ends = islice(chain.from_iterable(done.stops), MAX_ROWS)
    rows = [
        (str(number), stop - start, stop, _kept(caching, done, start, stop))
        for number, (start, stop) in enumerate(pairwise((0, *ends)), 1)
    ]
    left = done.step_count - len(rows)
    shared = [] if shared_tokens is None else [prefix_hit(caching, prompt_tokens, shared_tokens)]
    return document(
        tag("p", _setting(caching)),
        table(("step", "tokens", "up to", "kept for others"), rows),
        note(f"{left:,} more steps.") if left else "",
        tag("p", _smallest_text(caching, prompt_tokens)),
        *(tag("p", hit_text(hit)) for hit in shared),
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
    name = "%{x:,} tokens: %{y:,}<extra>%{fullData.name}</extra>"
    lines = (
        ("shared", "shared_tokens", {"color": PADDING, "dash": "dot", "width": 1}),
        ("attention alone", "attention_tokens", {"color": ATTENTION, "dash": "dash", "width": 2}),
        ("cached", "cached_tokens", {"color": RECURRENT, "width": 3}),
    )
    traces = [
        go.Scatter(
            name=label,
            x=[hit.prompt_tokens for hit in hits],
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


def _title(caching: Caching, unique_tokens: int, end: int, first: Hit | None) -> str:
    again = "the same prompt again" if not unique_tokens else f"{unique_tokens:,} tokens differ"
    second = reason_without_hits(caching)
    if second is None and first is None:
        second = f"No prompt up to {tokens_text(end)} finds anything."
    if second is None:
        smallest = tokens_text(smallest_prefix(caching))
        second = f"{_setting(caching)} Smallest cacheable prefix of any prompt: {smallest}."
    return f"<b>tokens found in the cache</b>, {again}<br><sup>{second}</sup>"


def _kept(caching: Caching, done: Prefill, start: int, stop: int) -> Html | str:
    if caching.state_block is None:
        return "full blocks of keys and values" if caching.is_on else "no"
    inside = done.kept_between(start, stop)
    count = sum(map(len, inside))
    if not count:
        return "no"
    shown = islice(chain.from_iterable(inside), MAX_POSITIONS)
    more = f", {count - MAX_POSITIONS:,} more" if count > MAX_POSITIONS else ""
    positions = join(*(tag("b", position) for position in shown), between=", ")
    return join("state at ", positions, more)


def _setting(caching: Caching) -> str:
    block = caching.state_block or caching.alignment_tokens
    words = f"Mode {caching.mode}, block {block:,}, budget {caching.budget_tokens:,} tokens a step"
    return words + (", with drafts (EAGLE-like)." if caching.drafts else ".")


def _smallest_text(caching: Caching, prompt_tokens: int) -> str:
    smallest = smallest_prefix(caching, prompt_tokens)
    if smallest is None:
        return reason_without_hits(caching) or "No prefix of this prompt is found again."
    return f"A prompt of this length is reused from {tokens_text(smallest)} of shared prefix on."


BLOCKS_IN_EXAMPLE = 4


def hits_html(plan: Plan) -> Html:
    """Return the smallest cacheable prefix and one prompt's steps, or why nothing can hit."""
    if plan.cache is None:
        return document(tag("p", "The pages cannot be made equal, so nothing is cached."))
    caching = caching_of(plan)
    reason = reason_without_hits(caching)
    if reason is not None:
        return document(tag("p", "! " if plan.enable_prefix_caching else "", reason))
    smallest = tag("b", tokens_text(smallest_prefix(caching)))
    prompt = min(BLOCKS_IN_EXAMPLE * caching.alignment_tokens + 1, plan.max_model_len - 1)
    lead = document(tag("p", "Smallest prefix that can hit: ", smallest, "."))
    return join(lead, checkpoint_table(plan, prompt))


def workload_html(plan: Plan, workload: Workload) -> Html:
    """Return how many requests of a workload have a hit, why, and the steps of one prompt."""
    hits = workload_hits(caching_of(plan), workload)
    lead = f"{hits.hits} of {workload.requests}"
    before, _, after = hits.explanation.partition(lead)
    lengths = ", ".join(f"{tokens:,}" for tokens in sorted(set(hits.cached_tokens)))
    return join(
        document(
            tag("p", before, tag("b", lead), after),
            tag("p", f"Cached tokens of a request: {lengths}."),
        ),
        checkpoint_table(plan, workload.prompt_tokens, workload.shared_tokens),
    )
