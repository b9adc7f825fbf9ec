"""Plans to draw: the whole catalog on every platform, and a few corners."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.models.configs import mamba2, nemotron_h
from workbench.core.errors import WorkbenchError
from workbench.core.platforms import PLATFORMS
from workbench.models import catalog_names
from workbench.plan import Plan, resolve
from workbench.scenario import Scenario

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
    """The plan of the scenario with these fields."""
    return resolve(Scenario(**values))


@cache
def all_plans() -> tuple[Plan, ...]:
    """Every catalog model on every platform that takes it, and the corners."""
    found = []
    for name in catalog_names():
        for platform in PLATFORMS:
            try:
                found.append(plan_of(model=name, platform=platform))
            except WorkbenchError:
                continue
    return (*found, *(plan_of(**corner) for corner in CORNERS), small(), large(), stateless())


def small() -> Plan:
    """The smallest ordinary block: 16 tokens."""
    return plan_of(model="llama-3.1-8b")


def large() -> Plan:
    """The geometry of Nemotron-3-Super with an fp8 cache: a block of 8,320 tokens."""
    return resolve(Scenario(model=nemotron_h(mamba_num_heads=128), kv_cache_dtype="fp8"))


def stateless() -> Plan:
    """A model without attention: nothing to align."""
    return resolve(Scenario(model=mamba2()))


def evil_config(name: str = EVIL, **changes: Any) -> dict[str, Any]:
    """A hybrid model whose name is markup."""
    return nemotron_h(
        _name_or_path=name,
        auto_map={name: name},
        **{name: name},
        **changes,
    )


def evil_plan(name: str = EVIL) -> Plan:
    """Its plan, with problems: no backend takes blocks of 15 tokens."""
    return resolve(Scenario(model=evil_config(name), block_size=15))
