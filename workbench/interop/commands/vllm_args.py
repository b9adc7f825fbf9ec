"""Write a scenario as `vllm serve` arguments (0.23 names)."""

import json
import shlex
from typing import Any

from workbench.core.batch_defaults import LLM, SERVE
from workbench.core.model import Model
from workbench.interop.commands.speculation import SPECULATION, speculation_of
from workbench.models import repository
from workbench.scenario import FIELDS, MODEL, Field, Scenario, Settings

COMPLETED = {"kv_transfer_config": {"kv_role": "kv_both"}}
"""Object -> keys that vLLM wants in it and no size depends on."""
IN_WORDS = {SERVE: "vllm serve", LLM: "LLM(...)"}


def vllm_arguments(settings: Settings, model: Model | None) -> dict[str, Any]:
    """Return argument by Python name -> value, for what differs from vLLM's defaults.

    A field without a flag belongs to the machine, the checkpoint or the installed version, and one
    with an environment variable is in `vllm_environment`. model: None where nothing is drafted.
    """
    arguments: dict[str, Any] = {}
    for field in _set_fields(settings):
        name, key = field.argument
        value = field.kind.write(getattr(settings, field.name))
        if key:
            arguments.setdefault(name, dict(COMPLETED.get(name, {})))[key] = value
        elif name:
            arguments[name] = value
    given = arguments.pop(SPECULATION, None)
    if model is not None and (speculation := speculation_of(settings, model, given)):
        arguments[SPECULATION] = speculation
    return arguments


def _set_fields(settings: Settings) -> list[Field]:
    """Return the fields that do not have their defaults, without the model."""
    return [
        field
        for field in FIELDS.values()
        if field is not MODEL and getattr(settings, field.name) != field.default
    ]


def vllm_args(scenario: Scenario, model: Model) -> tuple[str, ...]:
    """Return what vLLM should load, and the words of `vllm_arguments` after it."""
    return (loaded_model(scenario, model), *words_of(scenario, model))


def words_of(settings: Settings, model: Model | None) -> list[str]:
    """Return `vllm_arguments` as words of a command line."""
    args = []
    for name, value in vllm_arguments(settings, model).items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            args.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, list):
            args += [f"--{flag}", *map(str, value)]
        else:
            args += [f"--{flag}", json.dumps(value) if isinstance(value, dict) else str(value)]
    return args


def loaded_model(scenario: Scenario, model: Model) -> str:
    """Return what vLLM should load; a placeholder replaces an unknown hub id or folder."""
    return repository(scenario.model) or f"<hub id or folder of {model.name}>"


def vllm_environment(settings: Settings) -> dict[str, str]:
    """Return the settings that are environment variables of the server, not flags."""
    values = {
        field.flag: field.kind.write(getattr(settings, field.name))
        for field in _set_fields(settings)
        if field.flag.isupper()
    }
    return {name: _variable(value) for name, value in values.items()}


def _variable(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(int(value)) if isinstance(value, bool) else str(value)


def other_defaults(settings: Settings, written: str) -> str:
    """Return a comment where the plan is of another entry point than the one that is written."""
    both_explicit = settings.max_num_batched_tokens and settings.max_num_seqs
    if written == settings.entry_point or both_explicit:
        return ""
    return (
        f"# The plan is for {IN_WORDS[settings.entry_point]}: the default budgets of a step differ "
        f"from those of {IN_WORDS[written]}.\n"
    )


def vllm_command(scenario: Scenario, model: Model) -> str:
    """Return a shell command, one flag per line, after the variables that it needs."""
    variables = vllm_environment(scenario).items()
    loaded, *args = vllm_args(scenario, model)
    before = "".join(f"{name}={shlex.quote(value)} " for name, value in variables)
    lines = [f"{other_defaults(scenario, SERVE)}{before}vllm serve {shlex.quote(loaded)}"]
    for arg in args:
        if arg.startswith("--"):
            lines.append("  " + arg)
        else:
            lines[-1] += " " + shlex.quote(arg)
    return " \\\n".join(lines)
