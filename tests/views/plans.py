"""Plans to draw: the whole catalog on every platform, and a few corners."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.catalog import distinct_models
from tests.models.configs import mamba2, nemotron_h
from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.core.platforms import PLATFORMS
from workbench.scenario.resolution import resolve

EVIL = "<img src=x onerror=alert(1)>"
EVIL_ATTRIBUTE = "\"'>" + EVIL
CORNERS: tuple[dict[str, Any], ...] = (
    {"model": "nemotron-3-nano-30b-a3b", "tensor_parallel": 4, "kv_cache_dtype": "fp8"},
    {"model": "nemotron-3-nano-30b-a3b", "platform": "xpu", "rules": "before-37467"},
    {"model": "nemotron-3-nano-30b-a3b", "block_size": 15},
    {"model": "jamba-1.5-mini", "enable_prefix_caching": True},
    {"model": "qwen3-next-80b-a3b", "num_speculative_tokens": 3, "enable_prefix_caching": True},
    {"model": "qwen3-next-80b-a3b", "platform": "xpu", "tensor_parallel": 2},
    {"model": "kimi-linear-48b-a3b", "kv_cache_dtype": "fp8_ds_mla"},
    {"model": "deepseek-v3", "kv_cache_dtype": "fp8_ds_mla"},
    {"model": "llama-3.1-8b", "block_size": 256},
)


@cache
def plan_of(**values: Any) -> Plan:
    """Return the plan of the scenario with these fields."""
    return resolve(**values)


@cache
def all_plans() -> tuple[Plan, ...]:
    """Return every catalog model on every platform that supports it, and the corner cases."""
    found = []
    for name in distinct_models():
        for platform in PLATFORMS:
            try:
                found.append(plan_of(model=name, platform=platform))
            except WorkbenchError:
                continue
    return (*found, *(plan_of(**corner) for corner in CORNERS), small(), large(), stateless())


def small() -> Plan:
    """Return the smallest ordinary block: 16 tokens."""
    return plan_of(model="llama-3.1-8b")


def large() -> Plan:
    """Return the geometry of Nemotron-3-Super with an fp8 cache: a block of 8,320 tokens."""
    return resolve(model=nemotron_h(mamba_num_heads=128), kv_cache_dtype="fp8")


def stateless() -> Plan:
    """Return a model without attention: nothing to align."""
    return resolve(model=mamba2())


def evil_config(name: str = EVIL, **changes: Any) -> dict[str, Any]:
    """Return a hybrid model whose name is markup."""
    return nemotron_h(
        _name_or_path=name,
        auto_map={name: name},
        **{name: name},
        **changes,
    )


def evil_plan(name: str = EVIL) -> Plan:
    """Return its plan, with problems: no backend supports blocks of 15 tokens."""
    return resolve(model=evil_config(name), block_size=15)
