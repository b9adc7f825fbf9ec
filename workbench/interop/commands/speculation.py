"""`--speculative-config`: the scenario fields that are one JSON object, in and out."""

import re
from collections.abc import Mapping
from typing import Any

from workbench.core.model import Model
from workbench.core.speculation import (
    DRAFT_MODEL,
    DSPARK,
    HIDDEN_STATES,
    MTP,
    NAMES,
    NGRAM,
    SUFFIX,
    method_named,
)
from workbench.core.stages.speculation import method_for
from workbench.core.versions import RULE_SETS
from workbench.interop.commands.references import model_reference
from workbench.models import repository
from workbench.models.catalog import catalog_name
from workbench.scenario.fields import FIELDS, Settings

SPECULATION = "speculative_config"
HIDDEN_STATE_IDS = "eagle_aux_hidden_state_layer_ids"
UNKNOWN_MODEL = "<hub id or folder of the draft model>"
NGRAM_TOKENS = 5
"""vLLM's own window for ngram drafts, written out because some versions require it."""
INTERPRETED = frozenset({"method", "model"})
"""Keys of which both decide what their fields are."""
WITHOUT_MODEL = frozenset({NGRAM, "ngram_gpu", SUFFIX, "custom_class", HIDDEN_STATES})
"""Methods whose "model" is not a checkpoint."""
PRINTED_METHOD = re.compile(r"\bmethod['\"]?\s*[=:]\s*['\"]([\w\[\]]+)['\"]")
PRINTED_MODEL = re.compile(r"\bmodel['\"]?\s*[=:]\s*['\"]([^'\"]+)['\"]")
PRINTED_TOKENS = re.compile(r"num_spec(?:ulative)?_tokens['\"]?\s*[=:]\s*(\d+)")


def speculation_of(
    settings: Settings, model: Model, given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return which method drafts, and how many tokens; empty where nothing drafts.

    given: the values of the object's keys that have a field of their own. The method is always
    written, with a placeholder for a checkpoint whose hub id or folder is not known. Layers whose
    hidden states are kept take the method extract_hidden_states, and a connector that a person
    chooses; only their number affects cache sizes, so the first ones are used. Source:
    `SpeculativeConfig` and `ExtractHiddenStatesConfig`, 0.23 and 0.33.
    """
    count = {"num_speculative_tokens": settings.num_speculative_tokens}
    if settings.hidden_state_layers:
        ids = {HIDDEN_STATE_IDS: list(range(settings.hidden_state_layers))}
        return {"method": HIDDEN_STATES, **count, "draft_model_config": {"hf_config": ids}}
    rules = RULE_SETS[settings.rules].speculation
    method = method_for(model, settings, rules)
    if method is None:
        return {}
    drafts: dict[str, Any] = {**(given or {}), "method": method, **count}
    if method == NGRAM:
        drafts["prompt_lookup_max"] = NGRAM_TOKENS
    reference = settings.draft_model
    if reference is not None:
        drafts["model"] = repository(reference) or UNKNOWN_MODEL
    # where no model is named, vLLM takes DSpark's layers from the target
    elif method in rules.methods and rules.methods[method].needs_model:
        drafts |= {} if method == DSPARK and model.dspark else {"model": UNKNOWN_MODEL}
    return drafts


def speculative_method(method: object, model: object) -> str | None:
    """Return the method that the object requests; None if vLLM derives none.

    A deprecated name means mtp; without a method the draft model's name decides. Source:
    `SpeculativeConfig.__post_init__`, 0.23 and 0.33.
    """
    if isinstance(method, str):
        return method_named(method).strip("[]")
    if not isinstance(model, str):
        return None
    name = model.casefold()
    if name in {NGRAM, f"[{NGRAM}]"}:
        return NGRAM
    return next((found for part, found in NAMES.items() if part in name), DRAFT_MODEL)


def draft_model(method: str | None, model: object, target: object) -> str | None:
    """Return the second checkpoint that the object names; None where it names the target."""
    if not isinstance(model, str) or model == UNKNOWN_MODEL or method in WITHOUT_MODEL:
        return None
    is_own = method == MTP and target in {model, model_reference(model)}
    return None if is_own else model_reference(model)


def hidden_state_layers(drafts: dict[str, Any]) -> int | None:
    """Return how many layers `extract_hidden_states` keeps; None where it is not configured."""
    found: Any = drafts
    for key in ("draft_model_config", "hf_config", HIDDEN_STATE_IDS):
        found = found.get(key) if isinstance(found, dict) else None
    return len(found) if isinstance(found, list) else None


def draft_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scenario fields of the drafter itself: its ranks, its backend."""
    found = {}
    for field in FIELDS.values():
        into, key = field.argument
        if into != SPECULATION or not field.of_drafter or key in INTERPRETED:
            continue
        if values.get(key) is not None:
            found[field.name] = field.kind.read(values[key])
    return found


def printed_speculation(config: object, target: object = None) -> dict[str, Any]:
    """Return the scenario fields of the object as a log prints it: a dict, or in its own form.

    target: what the log serves.
    """
    text = str(config)
    tokens, method, model = (
        pattern.search(text) for pattern in (PRINTED_TOKENS, PRINTED_METHOD, PRINTED_MODEL)
    )
    printed = model and model[1]
    found: dict[str, Any] = {} if tokens is None else {"num_speculative_tokens": int(tokens[1])}
    name = speculative_method(method and method[1], printed)
    if name is not None and name != HIDDEN_STATES:
        found["speculative_method"] = name
    reference = draft_model(name, printed, target)
    # A log names what that machine had: only what is known here is read, nothing is downloaded.
    if reference is not None and (catalog_name(reference) or reference != printed):
        found["draft_model"] = reference
    if isinstance(config, dict):
        found |= draft_settings(config)
    layers = hidden_state_layers(config) if isinstance(config, dict) else None
    return found if layers is None else {**found, "hidden_state_layers": layers}
