"""Read what a command's `--speculative-config` says of drafts, and what vLLM misses in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.core.errors import WorkbenchError
from workbench.core.speculation import HIDDEN_STATES, MTP, SUFFIX
from workbench.interop.commands.speculation import (
    HIDDEN_STATE_IDS,
    draft_model,
    hidden_state_layers,
    speculative_method,
)
from workbench.models import load_model
from workbench.models.load import needs_hub

if TYPE_CHECKING:
    from workbench.interop.commands.command_line import CommandFields

TOKENS, METHOD = "num_speculative_tokens", "speculative_method"
SUFFIX_TOKENS = 24
"""Largest number of drafts of suffix decoding if no number is given (0.23 and 0.33)."""
# SpeculativeConfig.__post_init__ and _verify_args, ExtractHiddenStatesProposer; 0.23 and 0.33
NO_TOKENS = (
    "num_speculative_tokens must be provided with speculative model unless the draft model config "
    "contains an n_predict parameter."
)
NO_MODEL = "num_speculative_tokens was provided but without speculative model."
NO_IDS = f"{HIDDEN_STATE_IDS} must be set in the draft model config for {HIDDEN_STATES} method"


def read_drafts(reader: CommandFields) -> None:
    """Set the method, if the configuration names one, and record what vLLM misses in it."""
    drafts, source = reader.drafts, reader.drafted_by
    name, model, count = drafts.get("method"), drafts.get("model"), drafts.get(TOKENS)
    method = speculative_method(name, model)
    if method is None:
        said = f"{source}: neither a method nor a draft model is given, which vLLM refuses. "
        said += "The workbench then uses mtp where the checkpoint has such layers, else ngram."
        reader.stop("speculative_method_missing", said, NO_TOKENS if count is None else NO_MODEL)
        return
    if method == HIDDEN_STATES:
        if not hidden_state_layers(drafts):
            path = f"draft_model_config.hf_config.{HIDDEN_STATE_IDS}"
            said = f"{source}: {path} is missing, so vLLM stops. List the layers whose states are "
            reader.stop("hidden_state_ids_missing", f"{said}kept; here are none.", NO_IDS)
            reader.fields.pop(TOKENS, None)
        return
    if method != name and name is not None:
        reader.notes.append(f"{source}: method {name} is a former name of {method}.")
    if count is None and model is None and method != SUFFIX:
        said = f"{source}: num_speculative_tokens is missing, so vLLM stops. Add it; nothing is "
        reader.stop("speculative_tokens_not_given", f"{said}drafted here.", NO_TOKENS)
        return
    reader.give(METHOD, method, source)
    if (reference := draft_model(method, model, reader.fields.get("model"))) is not None:
        reader.give("draft_model", reference, source)
    if count is not None:
        return
    if method == SUFFIX:
        reader.give(TOKENS, drafts.get("suffix_decoding_max_tree_depth", SUFFIX_TOKENS), source)
    elif method == MTP and reference is None and (predicted := _predictions(reader)):
        reader.give(TOKENS, predicted, source)  # n_predict of SpeculativeConfig, 0.23 and 0.33
        reader.notes.append(
            f"{source}: num_speculative_tokens is missing; vLLM uses {predicted}, as many as "
            "the checkpoint's own layers predict."
        )
    else:
        reader.notes.append(
            f"{source}: num_speculative_tokens is missing. vLLM takes it from the draft "
            "model's config.json, or stops; add it."
        )


def _predictions(reader: CommandFields) -> int | None:
    """Return how many tokens the layers of the model predict; None where it is not here."""
    model = reader.fields.get("model")
    if model is None or needs_hub(model):
        return None
    try:
        mtp = load_model(model).mtp
    except WorkbenchError:
        return None
    return None if mtp is None else mtp.predictions
