"""The parts of a device's memory and of the cache's pool, with their colours and patterns."""

from workbench.core.capacity.memory_estimate import budget_of
from workbench.core.capacity.occupancy import pool_use
from workbench.core.plan import Plan
from workbench.views import palette

DEVICE, POOL = "device", "cache"
OUTSIDE = "outside GPU memory utilization"
PARTS = {
    "used": (palette.RECURRENT, ""),
    "internal fragmentation": (palette.ATTENTION, "/"),
    "mamba padding": (palette.PADDING, "x"),
    "empty slots": (palette.CONV, "."),
    "checkpoint": (palette.ATTENTION_BEFORE, "-"),
    "speculative blocks": (palette.CURRENT, "+"),
    "attention padding": (palette.PADDING, "|"),
}
"""Part -> colour and pattern, so that no part is shown by colour alone."""
DEVICE_PARTS = {
    "weights": (palette.ATTENTION, ""),
    "activations": (palette.CONV, "/"),
    "graph reserve": (palette.CURRENT, "x"),
    "outside torch": (palette.ATTENTION_BEFORE, "+"),
    "KV cache": (palette.RECURRENT, "."),
    OUTSIDE: (palette.PADDING, "-"),
}
POOL_PARTS = {
    **PARTS,
    "null block": (palette.CURRENT, "."),
    "idle blocks": (palette.ATTENTION_BEFORE, "/"),
    "rank imbalance": (palette.CONV, "|"),
    "remainder": (palette.PADDING, "."),
}


def device_parts(plan: Plan) -> dict[str, int]:
    """Return part of the device -> bytes, empty without a budget; nothing is negative."""
    budget = budget_of(plan)
    if budget is None or plan.cache is None or plan.cache.available_bytes is None:
        return {}
    taken = (
        *(budget.weights_bytes, budget.activation_bytes, budget.cuda_graph_bytes),
        budget.other_bytes,
    )
    cache = max(plan.cache.available_bytes, 0)
    return {
        **dict(zip(DEVICE_PARTS, taken, strict=False)),
        "KV cache": cache,
        OUTSIDE: max(budget.device_bytes - sum(taken) - cache, 0),
    }


def pool_parts(plan: Plan, prompt_tokens: int) -> dict[str, int]:
    """Return part of the pool -> bytes, empty while its size is unknown."""
    cache = plan.kept_cache
    return (cache and pool_use(plan, cache, prompt_tokens)) or {}


def prompt_lengths(longest: int) -> tuple[int, ...]:
    """Return powers of two from 16 up to `longest`, and `longest` itself."""
    powers = [1 << power for power in range(4, longest.bit_length()) if 1 << power < longest]
    return (*powers, longest)
