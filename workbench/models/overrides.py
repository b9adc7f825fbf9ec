"""`--hf-overrides`: fields of config.json that a command changes, those whose effect is known."""

from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any

from workbench.core.architectures import MODEL_REGISTRIES, is_run_by_transformers
from workbench.core.errors import ScenarioError, shown
from workbench.core.model import Model
from workbench.core.pooling import pooling_of
from workbench.models.architecture import with_class
from workbench.models.config_defaults import ORIGINAL
from workbench.models.family import FAMILIES
from workbench.models.lengths import LENGTH_FIELDS
from workbench.models.listed import KEY, listed_name
from workbench.models.load import labelled_config, load_model
from workbench.models.read import read_model
from workbench.models.rope import NAME, OLD_NAME

ROPE = ("rope_parameters", "rope_scaling")
"""Two names of one object (`patch_rope_parameters`)."""
LAYERS, WINDOW = "num_hidden_layers", "sliding_window"
LENGTH = "max_position_embeddings"
OWN_LENGTH = {
    **dict.fromkeys(("gpt2", "gptj", "gpt_bigcode"), "n_positions"),
    "dbrx": "max_seq_len",
    "bailing_hybrid": "model_max_length",
}
"""Types whose class has the length under another name, which a change of it sets as well
(`attribute_map`)."""
SIZES = frozenset({LAYERS, "num_key_value_heads", "head_dim", "vocab_size", "num_experts"})
MTP_LAYERS = frozenset({"num_nextn_predict_layers", "mtp_num_hidden_layers"})
RERANKER = frozenset({"classifier_from_token", "is_original_qwen3_reranker", "method"})
"""What makes a classifier of the head of a language model (`as_seq_cls_model`)."""
MODELLED = frozenset(
    {
        *(*ROPE, *LENGTH_FIELDS, ORIGINAL, "model_max_length", "rope_theta"),
        *(*SIZES, *MTP_LAYERS, *RERANKER, WINDOW, KEY, "tie_word_embeddings"),
    }
)
PART, TEXT = "_config", "text_config"
"""How the names of objects end that are configurations of their own."""
OF_GTE = {name: f"Gte{name}" for name in ("NewModel", "NewForSequenceClassification")}
"""Class in the files of GTE, which no release has -> the one that vLLM's documentation overrides it
with."""
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
    if KEY in changes:
        _check_class(config if is_part else with_class(config), changes[KEY])
    changed = copy(config) if isinstance(config, dict) else dict(config)  # with its folder
    if isinstance(count := changes.get(LAYERS), int):
        _cut_lists(changed, count)
    for key, value in changes.items():
        if key in ROPE:
            given = [changed.pop(name, None) for name in ROPE]
            before = next((one for one in given if isinstance(one, Mapping) and is_part), {})
            changed[key] = _completed(before, value) if isinstance(value, Mapping) else value
            if isinstance(value, Mapping) and ORIGINAL in value.keys() & changed.keys():
                # patch_rope_parameters copies the one of the file before the changes are made
                changed[ORIGINAL] = value[ORIGINAL]
        elif isinstance(value, Mapping) and isinstance(inner := changed.get(key), Mapping):
            changed[key] = _changed(inner, value, is_part=True)
        elif key == LENGTH:
            changed[OWN_LENGTH.get(str(config.get("model_type")), key)] = value
        else:
            changed[key] = value
    return changed


def _completed(before: Changes, new: Changes) -> dict[str, Any]:
    """Return RoPE settings with new ones; a new kind takes the place of every name of the old."""
    names = (NAME, OLD_NAME) if {NAME, OLD_NAME} & new.keys() else ()
    return {key: value for key, value in before.items() if key not in names} | dict(new)


def _check_class(config: Changes, given: Any) -> None:
    """Check that given classes read what the file's own reads. Errors: ScenarioError.

    Names of no release are left to the reader.
    """
    own = listed_name(config, f"/{KEY}") or "no class"
    own = OF_GTE.get(own, own)
    names = [given] if isinstance(given, str) else given
    for name in names if isinstance(names, list | tuple) and names else (None,):
        if not isinstance(name, str) or not _reads_the_same(own, name):
            known = {name for one in MODEL_REGISTRIES.values() for name in one.served}
            near = ", ".join(sorted(one for one in known if _reads_the_same(own, one)))
            raise ScenarioError(
                "unknown_architecture",
                f"Invalid hf_overrides {KEY} {shown(given)} for a file of {own}: a class of "
                "another module of vLLM reads other fields, so what it builds of this file is not "
                f"known here. Expected {near or 'none'}, or a class that pools with such layers. "
                "For another class give a config.json that was written for it as the model.",
                field="hf_overrides",
            )


def _reads_the_same(own: str, other: str) -> bool:
    """Return whether one module builds both classes in every release that has both.

    Classes that no release has pass: the reader refuses them.
    """
    one, two = _modules(own), _modules(other)
    shared = one.keys() & two.keys()
    if own == other or not (two or is_run_by_transformers(other)):
        return True
    return bool(shared) and all(one[version] == two[version] for version in shared)


def _modules(name: str) -> dict[str, str]:
    """Return release -> the module that builds a class, or the layers that it pools with."""
    base = name if (pooling := pooling_of(name)) is None else pooling.base
    registries = MODEL_REGISTRIES.items()
    found = {version: {**known.encoders, **known.served}.get(base) for version, known in registries}
    return {version: module for version, module in found.items() if module}


def _cut_lists(config: dict[str, Any], count: int) -> None:
    """Cut the lists with an entry per layer: vLLM counts layers with the changed number."""
    family = FAMILIES.get(str(config.get("model_type")))
    if family is not None and family.goes_by_list:
        return
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
