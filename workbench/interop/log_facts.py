"""Read values from vLLM's own dumps: `non-default args: {...}` and the engine's config line."""

from __future__ import annotations

import ast
import re
from typing import Any

from workbench.core.flex.sizes import FLEX_FIELDS
from workbench.core.speculation import HIDDEN_STATES
from workbench.interop.argument_values import DTYPES, catalog_name, local_config, speculative_method
from workbench.interop.command_line import hidden_state_layers
from workbench.interop.vllm_args import GDN_KERNELS, VALUE_FLAGS
from workbench.models import catalog_names, repository

CLOSING = {"(": ")", "[": "]", "{": "}"}
KEY = re.compile(r"""\s*,?\s*(?:'([^'\\]+)'\s*:|"([^"\\]+)"\s*:|([A-Za-z_]\w*)\s*=)\s*""")
ARGUMENTS = {flag[2:].replace("-", "_"): field for field, flag in VALUE_FLAGS.items()}
ENGINE = {
    "tensor_parallel_size": "tensor_parallel",
    "max_seq_len": "max_model_len",
    "kv_cache_dtype": "kv_cache_dtype",
    "dtype": "dtype",
    "enable_prefix_caching": "enable_prefix_caching",
}
PLATFORMS = ("cuda", "rocm", "xpu", "cpu")
UNFOLLOWED = {
    "pipeline_parallel_size": "each stage has a part of the layers",
    "decode_context_parallel_size": "tokens are spread over ranks",
    "prefill_context_parallel_size": "tokens are spread over ranks",
    "hf_overrides": "fields of config.json are changed",
    "kv_transfer_config": "a connector may ask for other sizes",
}
METHOD = re.compile(r"\bmethod['\"]?\s*[=:]\s*['\"]([\w\[\]]+)['\"]")
DRAFT_MODEL = re.compile(r"\bmodel['\"]?\s*[=:]\s*['\"]([^'\"]+)['\"]")
DRAFTS = re.compile(r"num_spec(?:ulative)?_tokens['\"]?\s*[=:]\s*(\d+)")


def entries(text: str) -> dict[str, Any]:
    """Return the entries of a dict's or a dataclass's printed form, as far as they can be read.

    Values that are not Python literals (objects, torch.bfloat16) stay text; an entry that is cut
    off at the end of the text is omitted.
    """
    found: dict[str, Any] = {}
    at = text.find("{") + 1 if text.lstrip().startswith("{") else 0
    while (key := KEY.match(text, at)) is not None:
        end = _end_of_value(text, key.end())
        if end is None:
            break
        name = next(filter(None, key.groups()))
        raw = text[key.end() : end].strip()
        try:
            found[name] = ast.literal_eval(raw)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            found[name] = raw
        at = end
    return found


def _end_of_value(text: str, start: int) -> int | None:
    """Return where the value that starts here ends; None if the text ends inside it."""
    waiting: list[str] = []
    quote = ""
    at = start
    while at < len(text):
        mark = text[at]
        if quote:
            if mark == "\\":
                at += 1
            elif mark == quote:
                quote = ""
        elif mark in "'\"":
            quote = mark
        elif mark in CLOSING:
            waiting.append(CLOSING[mark])
        elif waiting and mark == waiting[-1]:
            waiting.pop()
        elif not waiting and mark in ",})]":
            return at
        at += 1
    return None if quote or waiting else at


def argument_fields(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return scenario fields in the arguments that the user set."""
    fields = {
        field: arguments[name]
        for name, field in ARGUMENTS.items()
        if arguments.get(name) is not None
    }
    if (explicit := arguments.get("enable_prefix_caching")) is not None:
        fields["enable_prefix_caching"] = explicit
    if (kernel := arguments.get("gdn_prefill_backend")) is not None:
        fields["gdn_flashinfer_prefill"] = kernel == GDN_KERNELS[True]
    if arguments.get("disable_hybrid_kv_cache_manager") is True:
        fields["disable_hybrid_kv_cache_manager"] = True
    if skipped := arguments.get("kv_cache_dtype_skip_layers"):
        layers = skipped.split(",") if isinstance(skipped, str) else skipped
        fields["kv_cache_dtype_skip_layers"] = tuple(map(str, layers))
    if model := arguments.get("model") or arguments.get("model_tag"):
        fields["model"] = str(model)
    attention = arguments.get("attention_config")
    if isinstance(attention, str):
        attention = entries(attention[attention.find("(") + 1 :])
    if isinstance(attention, dict):
        given = {name: attention.get(name) for name in ("backend", *FLEX_FIELDS)}
        fields |= {name: value for name, value in given.items() if value is not None}
    if "backend" in fields:
        fields["backend"] = _enum_name(str(fields["backend"]))
    if fields.get("max_model_len") == "auto":
        fields["max_model_len"] = -1
    return _named({**fields, **_drafts(arguments)})


def engine_fields(config: dict[str, Any]) -> dict[str, Any]:
    """Return scenario fields in the engine's config line, with vLLM's final settings."""
    fields = {field: config[name] for name, field in ENGINE.items() if config.get(name) is not None}
    if model := config.get("model"):
        fields["model"] = str(model)
    if (device := config.get("device_config")) in PLATFORMS:
        fields["platform"] = device
    return _named({**fields, **_drafts(config)})


def selector_fields(device: str, selector: dict[str, Any]) -> dict[str, Any]:
    """Return the scenario fields in the printed `AttentionSelectorConfig` of an error."""
    names = ("dtype", "kv_cache_dtype", "block_size")
    fields = {name: selector[name] for name in names if selector.get(name) is not None}
    if selector.get("use_batch_invariant") is True:
        fields["batch_invariant"] = True
    if device in PLATFORMS:
        fields["platform"] = device
    return _named(fields)


def _enum_name(text: str) -> str:
    """Return the member's name in any printed form: `A`, `Enum.A`, `<Enum.A: 'module.path'>`."""
    return text.strip("<>").split(":")[0].rpartition(".")[2].strip().upper()


def _named(fields: dict[str, Any]) -> dict[str, Any]:
    if isinstance(name := fields.get("dtype"), str):
        name = name.removeprefix("torch.")
        fields["dtype"] = DTYPES.get(name, name)
    return fields


def _drafts(values: dict[str, Any]) -> dict[str, Any]:
    """Return the drafts of `speculative_config` (a dict or a printed object) or `spec_tokens`."""
    config = values.get("speculative_config")
    text = str(config)
    tokens, method, model = (find.search(text) for find in (DRAFTS, METHOD, DRAFT_MODEL))
    count = int(tokens[1]) if tokens else values.get("spec_tokens")
    found: dict[str, Any] = {} if count is None else {"num_speculative_tokens": count}
    name = speculative_method(method and method[1], model and model[1])
    if name is not None and name != HIDDEN_STATES:
        found["speculative_method"] = name
    layers = hidden_state_layers(config) if isinstance(config, dict) else None
    return found if layers is None else {**found, "hidden_state_layers": layers}


def unfollowed(values: dict[str, Any]) -> tuple[str, ...]:
    """Return what changes sizes and has no field in a scenario, one sentence each."""
    return tuple(
        f"{name} = {str(values[name])[:80]}: not modelled here, although {why}."
        for name, why in UNFOLLOWED.items()
        if values.get(name) not in (None, 1, False, {}, [], "")
    )


def known_model(reference: str) -> tuple[str | None, str]:
    """Return the catalog's name for a model as a log names it, and how sure that is.

    A folder counts by its last part, a longer name (a quantised checkpoint) by its beginning.
    """
    if name := catalog_name(reference) or local_config(reference):
        return name, ""
    last = re.sub(r"^models--[^-]+--", "", reference.rstrip("/").rpartition("/")[2]).casefold()
    best = ""
    for hub_id, name in _hub_names():
        if last == hub_id:
            return name, f"{reference} is assumed to be {name}, by the name of the folder."
        if hub_id and last.startswith(hub_id) and len(hub_id) > len(best):
            best, found = hub_id, name
    if best:
        return found, (
            f"{reference} is assumed to be {found}: a checkpoint with another name can have "
            "another config.json. Give its own config.json to be sure."
        )
    return None, ""


def _hub_names() -> list[tuple[str, str]]:
    names = []
    for name in catalog_names():
        last = (repository(name) or "").rpartition("/")[2].casefold()
        names += [(last, name), (last.removesuffix("-bf16").removesuffix("-instruct"), name)]
        names.append((name, name))
    return names
