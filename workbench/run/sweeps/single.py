"""One point by the rules alone: what the table of a sweep has to say about it."""

from __future__ import annotations

from typing import Any

from workbench.core.capacity.occupancy import waste
from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.core.prefix.hits import caching_of, smallest_prefix
from workbench.core.problems import ERROR
from workbench.core.resolve import resolve
from workbench.run.sweeps.space import Space
from workbench.run.sweeps.table import NUMBERS, PER_GPU


def single(space: Space, index: int, prompt_tokens: int) -> dict[str, Any]:
    """The entries of `SweepTable.row` that are decided, from a resolution of this point alone."""
    model, settings = space.point(index)
    try:
        plan = resolve(model, settings, Plan)
    except WorkbenchError as error:
        nothing = dict.fromkeys((*NUMBERS, "backend_used"))
        return {"refused": error.code, "problems": (), **nothing}
    return row_of(plan, prompt_tokens)


def row_of(plan: Plan, prompt_tokens: int) -> dict[str, Any]:
    """The same of a plan that is there."""
    found = {(problem.code, problem.severity) for problem in plan.problems}
    return {
        "refused": None,
        "problems": tuple(sorted(found, key=lambda told: (told[1] != ERROR, told[0]))),
        "backend_used": plan.backend,
        **_numbers(plan, prompt_tokens),
    }


def _numbers(plan: Plan, prompt_tokens: int) -> dict[str, Any]:
    cache = plan.cache
    share = None
    prompt = min(prompt_tokens, plan.max_model_len)
    if cache is not None and cache.groups and prompt >= 1:
        found = waste(plan, cache, prompt)
        share = 1 - found.used_bytes / found.reserved_bytes if found.reserved_bytes else None
    concurrency = None if cache is None else cache.max_concurrency
    return {
        "block_size": plan.block_size,
        "kernel_block_size": plan.kernel_block_size,
        "page_size_bytes": plan.final_mamba_page_size_bytes or plan.attention_page_size_bytes,
        "num_blocks": None if cache is None else cache.num_blocks,
        "max_concurrency": concurrency,
        PER_GPU: None if concurrency is None else concurrency / plan.settings.tensor_parallel,
        "smallest_prefix_tokens": None if cache is None else smallest_prefix(caching_of(plan)),
        "waste_share": share,
    }
