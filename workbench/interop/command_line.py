"""Convert a vLLM command line to the fields of a scenario."""

from __future__ import annotations

import re
from typing import Any

from workbench.core.errors import ScenarioError, nearest_names
from workbench.core.flex.sizes import FLEX_FIELDS
from workbench.core.speculation import HIDDEN_STATES, MTP, SUFFIX
from workbench.interop.argument_values import (
    DTYPES,
    CommandFields,
    catalog_name,
    integer_value,
    json_object,
    local_config,
    speculative_method,
)
from workbench.interop.command_words import (
    SEPARATORS,
    command_words,
    first_argument,
    flags_and_values,
    known_flags,
)
from workbench.interop.vllm_args import (
    GDN_KERNELS,
    GDN_PREFILL,
    HIDDEN_STATE_IDS,
    HYBRID_MANAGER,
    SKIPPED_LAYERS,
    VALUE_FLAGS,
    VARIABLES,
)

FIELDS = {flag: field for field, flag in VALUE_FLAGS.items()} | {"--model": "model"}
NAMES = frozenset({"model", "dtype", "kv_cache_dtype", "backend", "mamba_cache_mode"})
STATE_NAMES = frozenset({"mamba_cache_dtype", "mamba_ssm_cache_dtype"})
SWITCHES = {
    "--enable-prefix-caching": "enable_prefix_caching",
    HYBRID_MANAGER: "disable_hybrid_kv_cache_manager",
}
OBJECTS = frozenset({"--speculative-config", "--attention-config"})
SPECULATIVE = {
    "--spec-tokens": "num_speculative_tokens",
    "--spec-method": "method",
    "--spec-model": "model",
}
MATTERS = {
    "--pipeline-parallel-size": "each stage has a part of the layers",
    "--decode-context-parallel-size": "tokens are spread over ranks",
    "--prefill-context-parallel-size": "tokens are spread over ranks",
    "--hf-overrides": "fields of config.json are changed",
    "--kv-transfer-config": "a connector may ask for other sizes",
    "--disable-sliding-window": "windows become full attention",
    "--enable-lora": "adapters take memory",
}
"""Flags that can change a size but have no field in a scenario -> why."""

SUFFIX_TOKENS = 24
"""Largest number of drafts of suffix decoding if no number is given (0.23 and 0.33)."""
VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
OLD_BACKEND = "VLLM_ATTENTION_BACKEND"


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
            if name == VARIABLES["batch_invariant"][0]:
                self.give("batch_invariant", value == "1", word)
            elif name == VARIABLES["kv_cache_layout"][0]:
                self.give("kv_cache_layout", value, word)
            elif name == OLD_BACKEND:
                self.give("backend", value.upper(), word)
            else:
                self.unused.append(f"{name}={value}")

    def arguments(self, words: list[str]) -> None:
        extra: list[str] = []
        for flag, value, source in flags_and_values(words):
            if flag is None:
                if "model" in self.fields or extra:
                    extra.append(source)
                else:
                    self.give("model", _model(source), source)
                continue
            self._flag(flag, value, source)
        if extra:
            self.notes.append("Not a flag and not the model: " + ", ".join(extra) + ".")

    def _flag(self, flag: str, value: str | bool, source: str) -> None:
        flags, _short = known_flags()
        name, _, keys = flag.partition(".")
        if keys and name in OBJECTS:
            found = json_object(f'{{"x": {value}}}') or {"x": integer_value(str(value))}
            self._object(name, {keys: found["x"]}, source)
        elif name not in flags:
            near = nearest_names(name, flags)
            hint = f" Nearest: {', '.join(near)}." if near else ""
            self.notes.append(f"{source}: vLLM 0.23 does not have this flag.{hint}")
        elif value == "":
            self.notes.append(f"{source}: the value is missing.")
        elif name in SWITCHES:
            self.give(SWITCHES[name], bool(value), source)
        elif name == GDN_PREFILL:
            self.give("gdn_flashinfer_prefill", value == GDN_KERNELS[True], source)
        elif name == SKIPPED_LAYERS:
            self.give("kv_cache_dtype_skip_layers", tuple(str(value).split(",")), source)
        elif name in SPECULATIVE:
            number = integer_value(str(value)) if name == "--spec-tokens" else value
            self._object("--speculative-config", {SPECULATIVE[name]: number}, source)
        elif name in OBJECTS:
            self._object(name, _json_argument(name, str(value)), source)
        elif name in FIELDS:
            self.give(FIELDS[name], _value(FIELDS[name], str(value)), source)
        else:
            self._without_field(name, value, source)

    def _without_field(self, name: str, value: str | bool, source: str) -> None:
        if name in MATTERS and str(value) not in {"1", "False"}:
            self.notes.append(f"{source}: not modelled here, although {MATTERS[name]}.")
        else:
            self.unused.append(source)

    def _object(self, name: str, values: dict[str, Any], source: str) -> None:
        if name == "--speculative-config":
            self.drafts |= values
            self.drafted_by = source
            if (count := values.get("num_speculative_tokens")) is not None:
                self.give("num_speculative_tokens", count, source)
            if (layers := hidden_state_layers(values)) is not None:
                self.give("hidden_state_layers", layers, source)
            return
        for key, value in values.items():
            if key in FLEX_FIELDS:
                self.give(key, value, source)
            elif key == "backend" and isinstance(value, str):
                self.give("backend", value.upper(), source)
            else:
                self.unused.append(f"--attention-config.{key} {value}")

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


def hidden_state_layers(drafts: dict[str, Any]) -> int | None:
    """Return how many layers `extract_hidden_states` keeps; None where it is not configured."""
    found: Any = drafts
    for key in ("draft_model_config", "hf_config", HIDDEN_STATE_IDS):
        found = found.get(key) if isinstance(found, dict) else None
    return len(found) if isinstance(found, list) else None


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


def _value(field: str, text: str) -> Any:
    if field == "model":
        return _model(text)
    if field in STATE_NAMES or field in NAMES:
        return text.upper() if field == "backend" else DTYPES.get(text, text)
    if field == "max_model_len" and text == "auto":
        return -1
    if field == "gpu_memory_utilization":
        try:
            return float(text)
        except ValueError:
            return text
    return integer_value(text)


def _model(reference: str) -> str:
    """Return a catalog name if there is one; for a folder the config.json in it."""
    return catalog_name(reference) or local_config(reference) or reference
