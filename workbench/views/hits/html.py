"""What prefix caching can hit, for prompts a little longer than a few blocks."""

from __future__ import annotations

from html import escape

from workbench.core.plan import Plan
from workbench.core.prefix.hits import caching_of, reason_without_hits, smallest_prefix
from workbench.core.prefix.workload import Workload, workload_hits
from workbench.views.hits.figure import checkpoint_table
from workbench.views.html import document
from workbench.views.units import tokens_text

BLOCKS_IN_EXAMPLE = 4


def hits_html(plan: Plan) -> str:
    """Return the smallest cacheable prefix and one prompt's steps, or why nothing can hit."""
    if plan.cache is None:
        return document("<p>The pages cannot be made equal, so nothing is cached.</p>")
    caching = caching_of(plan)
    reason = reason_without_hits(caching)
    if reason is not None:
        sign = "! " if plan.enable_prefix_caching else ""
        return document(f"<p>{sign}{escape(reason)}</p>")
    smallest = smallest_prefix(caching)
    prompt = min(BLOCKS_IN_EXAMPLE * caching.alignment_tokens + 1, plan.max_model_len - 1)
    return document(
        f"<p>Smallest prefix that can hit: <b>{tokens_text(smallest)}</b>.</p>"
    ) + checkpoint_table(plan, prompt)


def workload_html(plan: Plan, workload: Workload) -> str:
    """Return how many requests of a workload have a hit, why, and the steps of one prompt."""
    hits = workload_hits(caching_of(plan), workload)
    lead = f"{hits.hits} of {workload.requests}"
    explained = escape(hits.explanation).replace(lead, f"<b>{lead}</b>", 1)
    lengths = ", ".join(f"{tokens:,}" for tokens in sorted(set(hits.cached_tokens)))
    return document(
        f"<p>{explained}</p><p>Cached tokens of a request: {lengths}.</p>"
    ) + checkpoint_table(plan, workload.prompt_tokens, workload.shared_tokens)
