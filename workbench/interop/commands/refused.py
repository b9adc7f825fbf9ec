"""What vLLM refuses of a command although no field of a scenario decides it."""

from collections.abc import Mapping
from typing import Any

ALLOCATOR, EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"
OWN_POOL = ("enable_sleep_mode", "enable_cumem_allocator")
"""Arguments with which the cache has a pool of its own, that this setting does not reach."""


def refused_allocator(without_field: Mapping[str, Any], *, has_connector: bool) -> list[str]:
    """Return what vLLM says of segments that move, as no connector may register such memory.

    without_field: variables and arguments by name. Source: `_verify_kv_transfer_compat`, 0.23 and
    0.33.
    """
    given = str(without_field.get(ALLOCATOR, ""))
    if not has_connector or EXPANDABLE not in given or any(map(without_field.get, OWN_POOL)):
        return []
    text = "vLLM stops at the start with it and a KV connector. Omit it, or add"
    return [f"{ALLOCATOR}={EXPANDABLE}: {text} --enable-cumem-allocator."]
