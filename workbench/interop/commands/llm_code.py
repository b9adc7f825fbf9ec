"""A scenario as Python that builds vLLM's own `LLM` object."""

from __future__ import annotations

from typing import Any

from workbench.core.model import Model
from workbench.interop.commands.vllm_args import (
    model_or_placeholder,
    vllm_arguments,
    vllm_environment,
)
from workbench.scenario.fields import Settings


def llm_arguments(
    settings: Settings, model: Model, repository: str | None = None
) -> dict[str, Any]:
    """Return the keyword arguments of `vllm.LLM`."""
    return {
        "model": model_or_placeholder(model, repository),
        **vllm_arguments(settings, model),
    }


def llm_code(settings: Settings, model: Model, repository: str | None = None) -> str:
    """Return Python that starts the engine of this scenario inside a process."""
    variables = "".join(
        f"os.environ[{name!r}] = {value!r}  # before vllm is imported\n"
        for name, value in vllm_environment(settings).items()
    )
    arguments = llm_arguments(settings, model, repository)
    lines = "".join(f"    {name}={value!r},\n" for name, value in arguments.items())
    head = f"import os\n\n{variables}\n" if variables else ""
    return f"{head}from vllm import LLM\n\nllm = LLM(\n{lines})\n"
