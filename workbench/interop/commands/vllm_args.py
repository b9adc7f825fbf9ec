"""Write a scenario as `vllm serve` arguments (0.23 names)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.interop.commands.speculation import SPECULATION, speculation_of
from workbench.models import repository as repository_of
from workbench.scenario import FIELDS, MODEL, Field, Settings


def vllm_arguments(settings: Settings, model: Model) -> dict[str, Any]:
    """Return argument by Python name -> value, for what differs from vLLM's defaults.

    A field without a flag belongs to the machine, the checkpoint or the installed version, and one
    with an environment variable is in `vllm_environment`.
    """
    arguments: dict[str, Any] = {}
    for field in _set_fields(settings):
        name, key = field.argument
        value = field.kind.write(getattr(settings, field.name))
        if key:
            arguments.setdefault(name, {})[key] = value
        elif name:
            arguments[name] = value
    arguments.pop(SPECULATION, None)
    if speculation := speculation_of(settings, model):
        arguments[SPECULATION] = speculation
    return arguments


def _set_fields(settings: Settings) -> list[Field]:
    """Return the fields that do not have their defaults, without the model."""
    return [
        field
        for field in FIELDS.values()
        if field is not MODEL and getattr(settings, field.name) != field.default
    ]


def vllm_args(settings: Settings, model: Model, repository: str | None = None) -> tuple[str, ...]:
    """Return the words of `vllm_arguments` after the model's name.

    `repository` is what vLLM should load, a placeholder replaces an unknown one.
    """
    args = [model_or_placeholder(model, repository)]
    for name, value in vllm_arguments(settings, model).items():
        args += _words(name.replace("_", "-"), value)
    return tuple(args)


def model_or_placeholder(model: Model, repository: str | None) -> str:
    """Return what vLLM should load."""
    return repository or f"<hub id or folder of {model.name}>"


def _words(flag: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    if isinstance(value, list):
        return [f"--{flag}", *value]
    return [f"--{flag}", json.dumps(value) if isinstance(value, dict) else str(value)]


def vllm_environment(settings: Settings) -> dict[str, str]:
    """Return the settings that are environment variables of the server, not flags."""
    values = {
        field.flag: getattr(settings, field.name)
        for field in _set_fields(settings)
        if field.flag.isupper()
    }
    return {name: "1" if value is True else str(value) for name, value in values.items()}


def vllm_command(args: tuple[str, ...], environment: Mapping[str, str] | None = None) -> str:
    """Return a shell command, one flag per line, after the variables that it needs."""
    variables = "".join(
        f"{name}={shlex.quote(value)} " for name, value in (environment or {}).items()
    )
    lines = [f"{variables}vllm serve {shlex.quote(args[0])}"]
    for arg in args[1:]:
        if arg.startswith("--"):
            lines.append("  " + arg)
        else:
            lines[-1] += " " + shlex.quote(arg)
    return " \\\n".join(lines)


def args_of_plan(plan: Plan) -> tuple[str, ...]:
    """Return the arguments that start what was resolved; see `vllm_args`."""
    return vllm_args(plan.settings, plan.model, repository_of(plan.scenario.model))


def command_of_plan(plan: Plan) -> str:
    """Return the shell command that starts what was resolved."""
    return vllm_command(args_of_plan(plan), vllm_environment(plan.settings))
