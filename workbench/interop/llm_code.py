"""A scenario as Python that builds vLLM's own `LLM` object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.core.model import Model
from workbench.core.settings import Settings
from workbench.interop.argument_values import json_object
from workbench.interop.vllm_args import (
    HYBRID_MANAGER,
    SKIPPED_LAYERS,
    vllm_args,
    vllm_environment,
)

SWITCHES = ("--enable-prefix-caching", "--no-enable-prefix-caching", HYBRID_MANAGER)
"""Flags that take no value."""


def llm_arguments(
    settings: Settings, model: Model, repository: str | None = None
) -> dict[str, Any]:
    """Return the keyword arguments of `vllm.LLM`: the flags of `vllm_args`, by Python name."""
    given = vllm_args(settings, model, repository)
    return {"model": given[0], **flag_values(settings, model)}


def flag_values(settings: Settings, model: Model) -> dict[str, Any]:
    """Return flag (no dashes, underscores inside) -> value for what differs from the defaults."""
    words = iter(vllm_args(settings, model)[1:])
    values: dict[str, Any] = {}
    for flag in words:
        name = flag[2:].replace("-", "_")
        if flag in SWITCHES:
            values[name.removeprefix("no_")] = not name.startswith("no_")
            continue
        if flag == SKIPPED_LAYERS:
            values[name] = [next(words) for _ in settings.kv_cache_dtype_skip_layers or ()]
            continue
        text = next(words)
        values[name] = json_object(text) or _number(text)
    return values


def llm_code(settings: Settings, model: Model, repository: str | None = None) -> str:
    """Return Python that starts the engine of this scenario inside a process."""
    variables = "".join(
        f"os.environ[{name!r}] = {value!r}  # before vllm is imported\n"
        for name, value in vllm_environment(settings).items()
    )
    arguments: Mapping[str, Any] = llm_arguments(settings, model, repository)
    lines = "".join(f"    {name}={value!r},\n" for name, value in arguments.items())
    head = f"import os\n\n{variables}\n" if variables else ""
    return f"{head}from vllm import LLM\n\nllm = LLM(\n{lines})\n"


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
