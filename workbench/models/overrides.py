"""`--hf-overrides`: fields of config.json that a command changes, those that say how long it is."""

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
MODELLED = frozenset({*ROPE, *LENGTH_FIELDS, ORIGINAL, "model_max_length", "rope_theta"})
PART, TEXT = "_config", "text_config"
"""How the names of objects end that are configurations of their own."""
MOVED = frozenset({"qwen2_5_vl", "qwen2_vl"})
"""Types whose class makes a text configuration of what a file has at the top."""

Changes = Mapping[str, Any]


def modelled(changes: Changes) -> dict[str, Any]:
    """Return the part of the changes that are applied here, at the top or in a configuration."""
    kept = {key: value for key, value in changes.items() if key in MODELLED}
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


def load_changed(reference: str | Path | Changes, changes: Changes | None) -> Model:
    """Return the model of a reference with changes of its config.json. Errors: ConfigError."""
    if not changes:
        return load_model(reference)
    config, label = labelled_config(reference)
    return read_model(overridden(config, changes), label)
