"""`--hf-overrides`: fields of config.json that a command changes, those whose effect is known."""

from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any

from workbench.core.model import Model
from workbench.models.config_defaults import ORIGINAL
from workbench.models.lengths import LENGTH_FIELDS
from workbench.models.load import labelled_config, load_model
from workbench.models.read import read_model

ROPE = ("rope_parameters", "rope_scaling")
"""Two names of one object (`patch_rope_parameters`)."""
LAYERS, WINDOW = "num_hidden_layers", "sliding_window"
SIZES = frozenset({LAYERS, "num_key_value_heads", "head_dim", "vocab_size", "num_experts"})
MTP_LAYERS = frozenset({"num_nextn_predict_layers", "mtp_num_hidden_layers"})
MODELLED = frozenset(
    {
        *(*ROPE, *LENGTH_FIELDS, ORIGINAL, "model_max_length", "rope_theta"),
        *(*SIZES, *MTP_LAYERS, WINDOW, "architectures", "tie_word_embeddings"),
    }
)
PART, TEXT = "_config", "text_config"
"""How the names of objects end that are configurations of their own."""
MOVED = frozenset({"qwen2_5_vl", "qwen2_vl"})
"""Types whose class makes a text configuration of what a file has at the top."""

Changes = Mapping[str, Any]


def modelled(changes: Changes) -> dict[str, Any]:
    """Return the part of the changes that are applied here, at the top or in a configuration."""
    kept = {key: value for key, value in changes.items() if key in MODELLED}
    if kept.get(WINDOW) is not None:
        del kept[WINDOW]  # classes that drop a window read it again, some of them in every layer
    for key, value in changes.items():
        if key.endswith(PART) and isinstance(value, Mapping) and (inner := modelled(value)):
            kept[key] = inner
    return kept


def overridden(config: Changes, changes: Changes) -> dict[str, Any]:
    """Return a config.json with its changes.

    Source: `ModelConfig._apply_dict_overrides` and `_update_nested`, 0.23 and 0.33: RoPE settings
    are replaced at the top, and completed inside of a configuration.
    """
    if config.get("model_type") in MOVED and TEXT not in config:
        return _changed(config, changes.get(TEXT) or {}, is_part=True)
    return _changed(config, changes, is_part=False)


def _changed(config: Changes, changes: Changes, *, is_part: bool) -> dict[str, Any]:
    changed = copy(config) if isinstance(config, dict) else dict(config)  # with its folder
    if isinstance(count := changes.get(LAYERS), int):
        _cut_lists(changed, count)
    for key, value in changes.items():
        if key in ROPE:
            given = [changed.pop(name, None) for name in ROPE]
            before = next((one for one in given if isinstance(one, Mapping) and is_part), {})
            changed[key] = {**before, **value} if isinstance(value, Mapping) else value
        elif isinstance(value, Mapping) and isinstance(inner := changed.get(key), Mapping):
            changed[key] = _changed(inner, value, is_part=True)
        else:
            changed[key] = value
    return changed


def _cut_lists(config: dict[str, Any], count: int) -> None:
    """Cut the lists with an entry per layer: vLLM counts layers with the changed number."""
    before = config.get(LAYERS)
    for key, value in config.items():
        if isinstance(value, list) and isinstance(before, int) and len(value) == before > count:
            config[key] = value[:count]


def load_changed(reference: str | Path | Changes, changes: Changes | None) -> Model:
    """Return the model of a reference with changes of its config.json. Errors: ConfigError."""
    if not changes:
        return load_model(reference)
    config, label = labelled_config(reference)
    return read_model(overridden(config, changes), label)
