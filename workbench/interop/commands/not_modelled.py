"""What a command can set that has no field in a scenario, and what then differs or is refused."""

from collections.abc import Mapping
from typing import Any

from workbench.core.package_data import package_data

_REASONS = package_data("workbench.interop.commands", "not_modelled.json")
MATTERS, VARIABLES, REPLACED = (
    {name: why for why, names in _REASONS[kind].items() for name in names}
    for kind in ("arguments", "variables", "replaced")
)
"""Argument -> why, environment variable -> why, and variable that neither release reads -> the
flag that they have instead; what else has no field changes no size."""
NO_EFFECT = frozenset({"", "0", "1", "false", "none", "auto", "generate", "{}", "[]"})
"""Values that leave an argument without an effect: the default, or one rank."""
NOTHING = frozenset[str]()
ON = frozenset({"", "0", "false"})
NO_EFFECT_OF = {
    "optimization_level": frozenset({"2", "3"}),
    "compilation_config.mode": frozenset({"3", "vllm_compile"}),
    **dict.fromkeys(VARIABLES, ON),
    "VLLM_PREFIX_CACHE_RETENTION_INTERVAL": NOTHING,
}
"""Those of arguments with other defaults."""
ALLOCATOR, EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"
OWN_POOL = ("enable_sleep_mode", "enable_cumem_allocator")
"""Arguments with which the cache has a pool of its own, that this setting does not reach."""


def effect(argument: str, value: str | bool) -> str | None:
    """Return why an argument or a variable without a field can change a size; None if it cannot."""
    without = NO_EFFECT_OF.get(argument, NO_EFFECT)
    return None if str(value).casefold() in without else (MATTERS | VARIABLES).get(argument)


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
