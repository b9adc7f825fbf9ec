"""Convert a vLLM command line to the fields of a scenario."""

from __future__ import annotations

import re
from typing import Any

from workbench.core.errors import ScenarioError, nearest_names
from workbench.core.speculation import HIDDEN_STATES, MTP, SUFFIX
from workbench.interop.commands.argument_values import CommandFields, json_object, model_reference
from workbench.interop.commands.command_words import (
    SEPARATORS,
    command_words,
    first_argument,
    flags_and_values,
    known_flags,
)
from workbench.interop.commands.speculation import hidden_state_layers, speculative_method
from workbench.scenario import FIELDS, MODEL, Field
from workbench.scenario.field import argument_name
from workbench.scenario.sizes import integer_value

BY_FLAG = {flag: field for field in FIELDS.values() for flag in field.flags}
BY_VARIABLE = {name: field for field in FIELDS.values() for name in field.variables}
OBJECTS = frozenset(flag.partition(".")[0] for flag in BY_FLAG if "." in flag)
"""Flags that take a JSON object with fields in it."""
SPECULATION = "--speculative-config"
DRAFT_MODEL = "--spec-model"
MATTERS = {
    "pipeline_parallel_size": "each stage has a part of the layers",
    "decode_context_parallel_size": "tokens are spread over ranks",
    "prefill_context_parallel_size": "tokens are spread over ranks",
    "hf_overrides": "fields of config.json are changed",
    "kv_transfer_config": "a connector may ask for other sizes",
    "disable_sliding_window": "windows become full attention",
    "enable_lora": "adapters take memory",
}
"""Arguments that can change a size but have no field in a scenario -> why."""

SUFFIX_TOKENS = 24
"""Largest number of drafts of suffix decoding if no number is given (0.23 and 0.33)."""
VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


def read_command(text: str) -> CommandFields:
    """Return the scenario fields of a `vllm serve` or `python -m vllm.entrypoints...` command.

    Leading variables (`NAME=value`, `export`, docker's `-e`), line continuations, `--flag=value`,
    underscores, unique beginnings of flags, `--config.key value` and numbers such as 16k are read
    as vLLM does. What has no field becomes a note. The scenario checks values.
    Errors: ScenarioError for a text that is not such a command.
    """
    words = command_words(text)
    start = first_argument(words)
    if start is None:
        raise ScenarioError(
            "not_a_vllm_command",
            "This is not a vLLM command. Expected `vllm serve MODEL --flags` or `python -m "
            f"vllm.entrypoints.openai.api_server --model MODEL --flags`; got {text.strip()[:60]!r}",
            field="command",
        )
    reader = _Reader()
    reader.variables(words[:start])
    arguments = words[start:]
    end = next((at for at, word in enumerate(arguments) if word in SEPARATORS), len(arguments))
    reader.arguments(arguments[:end])
    return reader.parsed()


class _Reader:
    """Collects fields and notes from the words of a command."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self.notes: list[str] = []
        self.unused: list[str] = []
        self.drafts: dict[str, Any] = {}
        self.drafted_by = ""
        self.attention: dict[str, Any] = {}

    def give(self, field: str, value: Any, source: str) -> None:
        if field in self.fields and self.fields[field] != value:
            first = self.sources[field]
            self.notes.append(f"{first} is given again as {source}: the last one counts.")
        self.fields[field], self.sources[field] = value, source

    def variables(self, words: list[str]) -> None:
        for word in words:
            if (found := VARIABLE.fullmatch(word)) is None:
                continue
            name, value = found.groups()
            if (field := BY_VARIABLE.get(name)) is not None:
                self.give(field.name, field.kind.read(value), word)
            else:
                self.unused.append(f"{name}={value}")

    def arguments(self, words: list[str]) -> None:
        extra: list[str] = []
        for flag, value, source in flags_and_values(words):
            if flag is None:
                if "model" in self.fields or extra:
                    extra.append(source)
                else:
                    self.give("model", model_reference(source), source)
                continue
            self._flag(flag, value, source)
        if extra:
            self.notes.append("Not a flag and not the model: " + ", ".join(extra) + ".")

    def _flag(self, flag: str, value: str | bool, source: str) -> None:
        flags, _short = known_flags()
        name, _, keys = flag.partition(".")
        field = BY_FLAG.get(name)
        if keys and name in OBJECTS:
            found = json_object(f'{{"x": {value}}}') or {"x": integer_value(str(value))}
            self._object(name, {keys: found["x"]}, source)
        elif name not in flags:
            near = nearest_names(name, flags)
            hint = f" Nearest: {', '.join(near)}." if near else ""
            self.notes.append(f"{source}: vLLM 0.23 does not have this flag.{hint}")
        elif value == "":
            self.notes.append(f"{source}: the value is missing.")
        elif name == DRAFT_MODEL:
            self._object(SPECULATION, {"model": value}, source)
        elif name in OBJECTS:
            self._object(name, _json_argument(name, str(value)), source)
        elif field is MODEL:
            self.give(field.name, model_reference(str(value)), source)
        elif field is not None:
            self._field(field, value, source)
        else:
            self._without_field(name, value, source)

    def _field(self, field: Field, value: str | bool, source: str) -> None:
        """Record a field; one with a flag of its own may be a key of an object as well."""
        into, _, key = field.flag.partition(".")
        if key:
            self._object(into, {key: field.kind.read(value)}, source)
        else:
            self.give(field.name, field.kind.read(value), source)

    def _without_field(self, name: str, value: str | bool, source: str) -> None:
        why = MATTERS.get(argument_name(name))
        if why is not None and str(value) not in {"1", "False"}:
            self.notes.append(f"{source}: not modelled here, although {why}.")
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
            return
        for key, value in values.items():
            field = BY_FLAG.get(f"{name}.{key}")
            if field is not None and value is not None:
                self.give(field.name, field.kind.read(value), source)
            else:
                self.unused.append(f"{name}.{key} {value}")

    def parsed(self) -> CommandFields:
        if self.drafts:
            self._speculation()
        if self.unused:
            self.notes.append("No size depends on: " + ", ".join(self.unused) + ".")
        return CommandFields(self.fields, self.sources, tuple(self.notes))

    def _speculation(self) -> None:
        """Record the method, if the configuration names one, and what vLLM misses in it."""
        name, model = self.drafts.get("method"), self.drafts.get("model")
        method = speculative_method(name, model)
        if method is None:
            self.notes.append(
                f"{self.drafted_by}: neither a method nor a draft model is given, which vLLM "
                "refuses. Without a method the workbench takes mtp where the checkpoint has such "
                "layers, else ngram."
            )
            return
        if method == HIDDEN_STATES:
            return
        self.give("speculative_method", method, self.drafted_by)
        if method != name and name is not None:
            self.notes.append(f"{self.drafted_by}: method {name} is a former name of {method}.")
        if method == MTP and model is not None:
            self.notes.append(
                f"{self.drafted_by}: the MTP layers of the target's config.json are counted; the "
                f"config.json of {model} is not read."
            )
        if self.drafts.get("num_speculative_tokens") is None:
            self._default_tokens(method)

    def _default_tokens(self, method: str) -> None:
        if method == SUFFIX:
            depth = self.drafts.get("suffix_decoding_max_tree_depth", SUFFIX_TOKENS)
            self.give("num_speculative_tokens", depth, self.drafted_by)
            return
        self.notes.append(
            f"{self.drafted_by}: num_speculative_tokens is missing. vLLM takes it from the draft "
            "model's config.json, or stops; add it."
        )


def _json_argument(name: str, text: str) -> dict[str, Any]:
    found = json_object(text)
    if found is None:
        raise ScenarioError(
            "wrong_type",
            f"{name} takes a JSON object; got {text[:60]!r}. Quote it for the shell: "
            f"{name} '{{\"key\": 1}}'.",
            field="command",
        )
    return found
