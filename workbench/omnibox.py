"""Read whatever a person pastes: a model, a command line, a config.json or a start-up log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.core.errors import ConfigError, ScenarioError, WorkbenchError
from workbench.exchange import explain_log, from_vllm_command
from workbench.interop.commands.command_line import read_command
from workbench.interop.logs.report import LogReport
from workbench.models import load_model
from workbench.models.names import similar_model
from workbench.scenario import Scenario

MAX_COMMAND = 20_000
"""A text of more characters is not a command."""
LONGEST_NAME = 4096
OF_THE_MACHINE = (
    *("platform", "device", "compute_capability", "rules", "device_memory_bytes"),
    *("torch_version", "entry_point"),
)
"""Fields of the present scenario that a command line does not contain."""


@dataclass(frozen=True, kw_only=True)
class Understood:
    """What a text was taken for."""

    kind: str
    """model, config, command or log."""
    scenario: Scenario | None
    """None for a log that does not say which model it is about."""
    message: str
    notes: tuple[str, ...] = ()
    """About what the scenario has no field for."""
    log: LogReport | None = None


def understand(text: str, present: Scenario, model: str | None = None) -> Understood:
    """Return the scenario of a text, and what the text was taken for.

    present: whose machine and version stay where the text does not say. model: for a log, the model
    to compare with. Errors: ScenarioError and ConfigError with the nearest valid value.
    """
    given = text.strip()
    if not given:
        message = (
            "Nothing was entered. Paste a `vllm serve` command, a start-up log or a config.json, "
            "or type a model, for example qwen3-next-80b-a3b."
        )
        raise ScenarioError("nothing_given", message)
    if given.startswith("{") and (config := _config(given)) is not None:
        return _of_model(config, present, "config")
    if is_command(given):
        return _of_command(given, present)
    if "\n" not in given and len(given) <= LONGEST_NAME and " " not in given:
        return _of_model(given, present, "model")
    return _of_log(given, model)


def _config(text: str) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None  # a log may begin with a brace, too
    return found if isinstance(found, dict) else None


def _of_model(model: str | Mapping[str, Any], present: Scenario, kind: str) -> Understood:
    try:
        name = load_model(model).name
    except ConfigError as error:
        near = similar_model(model) if isinstance(model, str) else None
        if near is None or error.code != "unknown_model":
            raise
        message = f"{error.message} Nearest in the catalog: {near}."
        raise ConfigError(error.code, message, field="model") from None
    scenario = present.replace(model=model)
    return Understood(kind=kind, scenario=scenario, message=f"A {kind}: {name}.")


def _of_command(text: str, present: Scenario) -> Understood:
    machine = {name: getattr(present, name) for name in ("model", *OF_THE_MACHINE)}
    found = from_vllm_command(text, **machine)
    named = "model" in read_command(text).fields
    message = (
        "A command line." if named else "A command line without a model; the present one is used."
    )
    return Understood(kind="command", scenario=found.scenario, message=message, notes=found.notes)


def _of_log(text: str, model: str | None) -> Understood:
    report = explain_log(text, model)
    fields = report.scenario
    scenario = None if fields is None else Scenario.from_dict(fields)
    version = report.reading.version
    message = f"A start-up log of vLLM {version}." if version else "A start-up log of vLLM."
    return Understood(
        kind="log", scenario=scenario, message=message, notes=report.missing, log=report
    )


def is_command(text: str) -> bool:
    """Return whether a text is one command rather than a log that quotes one."""
    if len(text) > MAX_COMMAND or "INFO" in text or " pid=" in text:
        return False
    try:
        read_command(text)
    except WorkbenchError as error:
        return error.code != "not_a_vllm_command"
    return True
