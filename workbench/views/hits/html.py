"""Prefix hits as HTML: the smallest prefix, and the steps and checkpoints of one prompt."""

from itertools import chain, islice, pairwise

from workbench.core.plan import Plan
from workbench.core.prefix import hits
from workbench.core.prefix.prefill import Prefill
from workbench.core.prefix.workload import WorkloadHits
from workbench.views.html import Html, document, fold, join, note, table, tag
from workbench.views.settings import in_labels
from workbench.views.units import tokens_text

MAX_ROWS = 50
MAX_POSITIONS = 6
BLOCKS_IN_EXAMPLE = 4


def hits_html(plan: Plan) -> Html:
    """Return the smallest cacheable prefix and one prompt's steps, or why nothing can hit."""
    if plan.kept_cache is None:
        return document(tag("p", f"Nothing is cached: {plan.no_cache_text}."))
    caching = hits.caching_of(plan)
    reason = no_hits_text(caching)
    if reason:
        return document(tag("p", "! " if plan.enable_prefix_caching else "", reason))
    smallest = tag("b", tokens_text(hits.smallest_prefix(caching)))
    prompt = min(BLOCKS_IN_EXAMPLE * caching.alignment_tokens + 1, plan.max_model_len - 1)
    lead = document(
        tag("p", "Smallest prefix that can hit: ", smallest, ". ", _shortest_text(caching))
    )
    return join(lead, checkpoint_table(plan, prompt))


def _shortest_text(caching: hits.Caching) -> str:
    shortest = tokens_text(hits.shortest_prompt_with_hit(caching))
    return f"The shortest prompt of any length that can hit has {shortest}."


def no_hits_text(caching: hits.Caching) -> str:
    """Return why no request can have a hit, with the labels of the controls; empty if one can."""
    return in_labels(hits.reason_without_hits(caching) or "")


def threshold_html(plan: Plan, prompt_tokens: int) -> Html:
    """Return how much a prompt of this length has to share for a hit, in one sentence."""
    caching = hits.caching_of(plan)
    smallest, reason = hits.smallest_prefix(caching, prompt_tokens), no_hits_text(caching)
    if smallest is None:
        number = "no hit"
        words = reason or f"No prefix of a {prompt_tokens:,}-token prompt can hit."
    else:
        number = tokens_text(smallest)
        words = f"{_smallest_text(caching, prompt_tokens)} {_shortest_text(caching)}"
    return document(
        tag("div", tag("span", number, class_="wb-block-size"), class_="wb-headline"),
        tag("p", words),
    )


def workload_html(plan: Plan, found: WorkloadHits) -> Html:
    """Return how many requests of a workload have a hit, why, and the steps of one prompt."""
    workload = found.workload
    lead = f"{found.hits} of {workload.requests}"
    before, _, after = in_labels(found.explanation).partition(lead)
    lengths = ", ".join(f"{tokens:,}" for tokens in sorted(set(found.cached_tokens)))
    steps = checkpoint_table(plan, workload.prompt_tokens, workload.shared_tokens)
    return document(
        tag("p", before, tag("b", lead), after),
        tag("p", f"Cached tokens of a request: {lengths}."),
        fold("The steps of one prompt, and its checkpoints", steps),
    )


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
    caching = hits.caching_of(plan)
    done = caching.prefill(prompt_tokens)
    if not done.is_scheduled:
        return document(tag("p", no_hits_text(caching) or "Never scheduled."))
    ends = islice(chain.from_iterable(done.stops), MAX_ROWS)
    rows = [
        (str(number), stop - start, stop, _kept(caching, done, start, stop))
        for number, (start, stop) in enumerate(pairwise((0, *ends)), 1)
    ]
    left = done.step_count - len(rows)
    shared = (
        [] if shared_tokens is None else [hits.prefix_hit(caching, prompt_tokens, shared_tokens)]
    )
    return document(
        tag("p", setting_text(caching)),
        table(("step", "tokens", "up to", "checkpoint saved"), rows),
        note(f"{left:,} more steps.") if left else "",
        tag("p", _smallest_text(caching, prompt_tokens)),
        *(tag("p", hit_text(hit)) for hit in shared),
    )


def hit_text(hit: hits.Hit) -> str:
    """Describe what a request reuses, with what is lost or read wrongly."""
    words = [
        f"Of {tokens_text(hit.shared_tokens)} shared, {tokens_text(hit.cached_tokens)} are reused."
    ]
    if hit.attention_lost_tokens:
        words.append(
            f"Attention layers alone would reuse {hit.attention_tokens:,}; no checkpoint is there."
        )
    if hit.attention_missing_tokens:
        words.append(
            f"vLLM 0.23 counts {hit.attention_missing_tokens:,} of them without having their keys "
            "and values: attention reads garbage there."
        )
    return " ".join(words)


def _kept(caching: hits.Caching, done: Prefill, start: int, stop: int) -> Html | str:
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


def setting_text(caching: hits.Caching) -> str:
    """Describe mode, block and budget of a cache in one sentence."""
    block = caching.state_block or caching.alignment_tokens
    words = (
        f"Mode {caching.mode}, block {block:,}, budget {caching.budget_tokens:,} tokens per step"
    )
    return words + (", with drafts (EAGLE-like)." if caching.drafts else ".")


def _smallest_text(caching: hits.Caching, prompt_tokens: int) -> str:
    smallest = hits.smallest_prefix(caching, prompt_tokens)
    if smallest is None:
        return no_hits_text(caching) or "No prefix of this prompt can hit."
    shared = tokens_text(smallest)
    return f"A {prompt_tokens:,}-token prompt gets a hit once it shares at least {shared}."
