"""A scenario as Python code: of the workbench, and of vLLM."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from workbench.core.batch_defaults import LLM
from workbench.core.model import Model
from workbench.interop.commands.vllm_args import (
    loaded_model,
    other_defaults,
    vllm_arguments,
    vllm_environment,
)
from workbench.scenario import Scenario


def scenario_code(values: Mapping[str, Any]) -> str:
    """Return code that builds the scenario with these fields and resolves it."""
    arguments = "".join(f"    {name}={_literal(value)},\n" for name, value in values.items())
    return (
        "import workbench as wb\n\n"
        f"scenario = wb.Scenario(\n{arguments})\n"
        "plan = wb.resolve(scenario)\n"
        "plan\n"
    )


def _literal(value: Any) -> str:
    """Return a `repr` that can be run: infinities and NaN in real configs have no literal."""
    if isinstance(value, Mapping):
        items = (f"{_literal(key)}: {_literal(item)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, float) and not isfinite(value):
        return f'float("{value}")'
    return repr(value)


def llm_arguments(scenario: Scenario, model: Model) -> dict[str, Any]:
    """Return the keyword arguments of `vllm.LLM`."""
    return {"model": loaded_model(scenario, model), **vllm_arguments(scenario, model)}


def llm_code(scenario: Scenario, model: Model) -> str:
    """Return Python that starts the engine of this scenario inside a process."""
    variables = "".join(
        f"os.environ[{name!r}] = {value!r}  # before vllm is imported\n"
        for name, value in vllm_environment(scenario).items()
    )
    arguments = llm_arguments(scenario, model).items()
    lines = "".join(f"    {name}={value!r},\n" for name, value in arguments)
    head = f"import os\n\n{variables}\n" if variables else ""
    return f"{head}from vllm import LLM\n\n{other_defaults(scenario, LLM)}llm = LLM(\n{lines})\n"
