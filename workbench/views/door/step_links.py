"""Links from an answer to the steps of the trace that its numbers come from."""

from collections.abc import Mapping

from workbench.core.plan import Plan
from workbench.views.door.buttons import button
from workbench.views.html import Html, tag
from workbench.views.rows import result_text

MADE_BY: Mapping[str, tuple[str, ...]] = {
    "hits": (
        *("enable_prefix_caching", "mamba_cache_mode", "block_size", "mamba_block_size"),
        *("max_num_batched_tokens", "speculative_method"),
    ),
    "fits": (
        *("device", "memory_budget", "memory_estimate", "max_model_len"),
        *("block_size", "equal_pages", "num_blocks"),
    ),
    "start": ("backend", "max_num_batched_tokens", "max_num_seqs", "equal_pages", "num_blocks"),
}
"""Name of a view -> the rules that decide it, in the order of the trace."""


def step_list(plan: Plan) -> Html:
    """Return every step with its result; the inspector shows the rest of a focused one."""
    lines = (
        tag("li", tag("b", step.rule.title), f": {result_text(step)}", data_step=number)
        for number, step in enumerate(plan.steps, 1)
    )
    return tag("ol", *lines, class_="wb-all-steps")


def step_links(plan: Plan, view: str) -> Html:
    """Return one link per step that the view's numbers come from, with its result."""
    links = [
        button(f"{number} {step.rule.title}: {result_text(step)}", "step", number, class_="wb-link")
        for number, step in enumerate(plan.steps, 1)
        if step.rule.name in MADE_BY[view]
    ]
    return tag("p", tag("b", "From the steps "), *links, class_="wb-from") if links else Html()
