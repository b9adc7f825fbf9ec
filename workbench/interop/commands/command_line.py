"""Convert a vLLM command line to the fields of a scenario."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.core.errors import ScenarioError, cut
from workbench.core.problems import ERROR, Problem
from workbench.core.sizes import integer_value
from workbench.core.versions import DEFAULT
from workbench.interop.commands import connectors
from workbench.interop.commands.command_words import (
    SEPARATORS,
    command_words,
    first_argument,
    flags_and_values,
)
from workbench.interop.commands.drafts import read_drafts
from workbench.interop.commands.flags import Flags, flags_of
from workbench.interop.commands.json_values import json_argument, json_object
from workbench.interop.commands.machine import (
    Machine,
    image_of_command,
    machine_of_command,
    notes_on_plugins,
)
from workbench.interop.commands.not_modelled import REPLACED, effect, refused_allocator
from workbench.interop.commands.other_forms import as_command
from workbench.interop.commands.references import model_reference
from workbench.interop.commands.speculation import draft_settings, hidden_state_layers
from workbench.models.shell_variables import not_set, set_before, with_values
from workbench.scenario import FIELDS, MODEL
from workbench.scenario.field import argument_name

BY_FLAG = {flag: one for one in FIELDS.values() for flag in one.flags}
BY_VARIABLE = {name: one for one in FIELDS.values() for name in one.variables}
OVERRIDES = "--hf-overrides"
OBJECTS = frozenset((OVERRIDES, *(flag.partition(".")[0] for flag in BY_FLAG if "." in flag)))
"""Flags that take a JSON object with fields in it."""
SPECULATION = "--speculative-config"
DRAFT_MODEL = "--spec-model"
DRAFT_MATTERS = {
    "kv_cache_dtype": "the drafter's layers then have a dtype of their own (0.33)",
    "max_model_len": "a draft model may shorten requests",
    "parallel_drafting": "the first model runner then loads the drafter",
}
"""Keys of the object that can change a size but have no field in a scenario -> why."""

MOST_HELPED = 20
"""Unknown flags that get the nearest names: a text that is not a command can have thousands."""


def read_command(text: str, rules: str = DEFAULT) -> CommandFields:
    """Return the scenario fields of a `vllm serve` or `python -m vllm.entrypoints...` command.

    Of a docker-compose file or a Kubernetes manifest, that of its first container with vLLM; see
    `as_command`. rules: the release whose flags are read. Variables (`NAME=value`, `export`,
    docker's `-e`), continued lines, `--flag=value`, underscores, unique beginnings of flags,
    `--config.key value` and 16k are read as vLLM does. What has no field becomes a note.
    Errors: ScenarioError for a text that is not such a command.
    """
    command, fields = as_command(text)
    words = command_words(command)
    start = first_argument(words)
    if start is None:
        raise ScenarioError(
            "not_a_vllm_command",
            "This is not a vLLM command. Expected `vllm serve MODEL --flags` or `python -m "
            f"vllm.entrypoints.openai.api_server --model MODEL --flags`; got {text.strip()[:60]!r}",
            field="command",
        )
    image = image_of_command(words[:start])
    notes = [*image.notes, *notes_on_plugins(words[:start])]
    reader = CommandFields(flags=flags_of(image.rules or rules), fields=fields, notes=notes)
    if image.rules:
        reader.give("rules", image.rules, image.name)
    values = set_before(words[:start])
    reader.variables(values)
    reader.machine = machine_of_command(words[:start], values)
    arguments = with_values(words[start:], values)
    end = next((at for at, word in enumerate(arguments) if word in SEPARATORS), len(arguments))
    reader.arguments(arguments[:end])
    reader.finish()
    return reader


@dataclass
class CommandFields:
    """The fields of a scenario that a command line sets, and notes on everything else."""

    flags: Flags
    fields: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    """Field -> the words that set it."""
    notes: list[str] = field(default_factory=list)
    """One sentence each."""
    not_modelled: list[str] = field(default_factory=list)
    """Those of the notes on what can change a size and has no field."""
    unused: list[str] = field(default_factory=list)
    without_field: dict[str, Any] = field(default_factory=dict)
    """Argument or variable -> its value."""
    unknown: set[str] = field(default_factory=set)
    """Flags that vLLM does not have."""
    problems: list[Problem] = field(default_factory=list)
    """What stops the command before vLLM has a configuration."""
    drafts: dict[str, Any] = field(default_factory=dict)
    drafted_by: str = ""
    machine: Machine | None = None
    """Where it runs, if it says so; no flag does."""

    def give(self, name: str, value: Any, source: str) -> None:
        """Set a field; the last value counts."""
        if name in self.fields and self.fields[name] != value:
            first = self.sources[name]
            self.notes.append(f"{first} is given again as {source}: the last one counts.")
        self.fields[name], self.sources[name] = value, source

    def stop(self, code: str, message: str, vllm_text: str, **operands: str) -> None:
        """Record what stops vLLM; the note is the message."""
        self.notes.append(message)
        self.problems.append(
            Problem(
                code,
                severity=ERROR,
                field="",
                message=message,
                operands=operands,
                vllm_text=vllm_text,
            )
        )

    def check_variables(self) -> None:
        """Refuse a field whose value is a shell variable. Errors: ScenarioError."""
        for name, value in self.fields.items():
            if isinstance(value, str) and (advice := not_set(value)) is not None:
                source = self.sources[name]
                raise ScenarioError("variable_not_set", f"{source}: {advice}", field=name)

    def variables(self, values: Mapping[str, str]) -> None:
        """Read the variables that are set before the command."""
        for name, value in values.items():
            source = cut(f"{name}={value}")
            known = BY_VARIABLE.get(name)
            if known is not None:
                self.give(known.name, known.kind.read(value), source)
            else:
                self._without_field(name, value, source)

    def arguments(self, words: list[str]) -> None:
        """Read the arguments of the command."""
        extra: list[str] = []
        for flag, value, source in flags_and_values(words, self.flags):
            if flag is not None:
                self._flag(flag, value, cut(source))
            elif "model" in self.fields or extra:
                extra.append(cut(source))
            else:
                self.give("model", model_reference(source), source)
        if extra:
            self.notes.append("Not a flag and not the model: " + ", ".join(extra) + ".")

    def _flag(self, flag: str, value: str | bool, source: str) -> None:
        name, _, key = flag.partition(".")
        known = BY_FLAG.get(name)
        if key and name in OBJECTS:
            found = json_object(f'{{"x": {value}}}') or {"x": integer_value(str(value))}
            self._object(name, {key: found["x"]}, source)
        elif name not in self.flags.kinds:
            self._unknown_flag(name, source)
        elif value == "":
            self.notes.append(f"{source}: the value is missing.")
        elif name == DRAFT_MODEL:
            self._object(SPECULATION, {"model": value}, source)
        elif name in OBJECTS:
            self._object(name, json_argument(name, str(value)), source)
        elif known is MODEL:
            self.give("model", model_reference(str(value)), source)
        elif known is not None and "." in known.flag:  # a flag of its own for a key of an object
            into, _, key = known.flag.partition(".")
            self._object(into, {key: known.kind.read(value)}, source)
        elif known is not None:
            self.give(known.name, known.kind.read(value), source)
        else:
            said = f"{key}={value}" if key else value
            self._without_field(argument_name(name), said, source)

    def _unknown_flag(self, name: str, source: str) -> None:
        """Record a flag once; with the nearest names while there are few: finding them is slow."""
        if name not in self.unknown:
            is_helped = len(self.unknown) < MOST_HELPED
            self.unknown.add(name)
            note = f"{source}: {self.flags.unknown(name, is_helped=is_helped)}"
            # argparse, of any release
            self.stop("unknown_flag", note, f"unrecognized arguments: {name}", flag=name)

    def _without_field(self, argument: str, value: Any, source: str) -> None:
        self.without_field[argument], source = value, cut(source)
        if argument in REPLACED:
            self.notes.append(f"{source}: vLLM reads it no longer. Use {REPLACED[argument]}.")
        elif (why := effect(argument, value)) is not None:
            self._not_modelled(f"{source}: not modelled here, although {why}.")
        else:
            self.unused.append(source)

    def _object(self, name: str, values: dict[str, Any], source: str) -> None:
        if name == SPECULATION:
            self.drafts |= values
            self.drafted_by = source
            if (count := values.get("num_speculative_tokens")) is not None:
                self.give("num_speculative_tokens", count, source)
            if (layers := hidden_state_layers(values)) is not None:
                self.give("hidden_state_layers", layers, source)
            self._draft_settings(values, source)
            return
        if name == OVERRIDES:
            self._overrides(values, source)
            return
        if name == connectors.FLAG:
            values, notes = connectors.of_one_child(values, self.flags.release)
            self.notes += notes
        for key, value in values.items():
            known = BY_FLAG.get(f"{name}.{key}")
            read = None if known is None or value is None else known.kind.read(value)
            if known is None or value is None:
                self._without_field(f"{argument_name(name)}.{key}", value, f"{name}.{key} {value}")
            elif read is None:
                self._without_field(argument_name(name), str(value), source)
            else:
                self.give(known.name, read, source)

    def _overrides(self, values: dict[str, Any], source: str) -> None:
        """Record what changes lengths, and note what else is changed."""
        field = BY_FLAG[OVERRIDES]
        known = field.kind.read(values) or {}
        if known:
            self.give(field.name, known, source)
        if rest := {key: value for key, value in values.items() if known.get(key) != value}:
            self._without_field(field.name, json.dumps(rest), f"{OVERRIDES} {json.dumps(rest)}")

    def _draft_settings(self, values: dict[str, Any], source: str) -> None:
        """Record what else is known of the drafter, and note what is not modelled."""
        for name, value in draft_settings(values).items():
            self.give(name, value, source)
        for key, why in DRAFT_MATTERS.items():
            if values.get(key):
                self._not_modelled(f"{source}: {key} is not modelled here, although {why}.")

    def _not_modelled(self, note: str) -> None:
        self.notes.append(note)
        self.not_modelled.append(note)

    def finish(self) -> None:
        """Record how tokens are drafted, what offloads, and what no size depends on."""
        if connector := connectors.offloading_connector(self.without_field):
            size = self.without_field[connectors.SIZE]
            self.give("kv_connector", connector, cut(f"--kv-offloading-size {size}"))
        has_connector = "kv_connector" in self.fields or "kv_transfer_config" in self.without_field
        self.notes += refused_allocator(self.without_field, has_connector=has_connector)
        if self.drafts:
            read_drafts(self)
        if self.unused:
            self.notes.append("No size depends on: " + ", ".join(self.unused) + ".")
