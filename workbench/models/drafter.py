"""A second checkpoint that drafts: a whole small decoder, or a head that reads hidden states.

Source: `EAGLEConfig` and `SpeculatorsConfig` of 0.23 and 0.33, which unwrap a config.json; the
model files of the heads read the rest. Which of them a version has is in `core/speculation.py`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol

from workbench.core.architectures import versions_with
from workbench.core.draft_parts import Head
from workbench.core.errors import ConfigError
from workbench.core.model import FULL, SLIDING, Layer, Model
from workbench.core.speculation import DRAFTERS_MASKS, DSPARK_MASKS, MASK, NULL_MASK, RANK
from workbench.core.weights import UnreadWeights
from workbench.models.attention import read_attention
from workbench.models.checkpoint import folder_of
from workbench.models.config_defaults import CONFIG_DEFAULTS, PERIOD, SLIDES
from workbench.models.families.chunked import read_chunks
from workbench.models.fields import Fields
from workbench.models.json_file import plain_copy
from workbench.models.lengths import read_lengths
from workbench.models.listed import listed_name
from workbench.models.load import labelled_config
from workbench.models.mtp import read_mtp
from workbench.models.overrides import load_changed
from workbench.models.read import model_dtype, read_model
from workbench.models.rope import rope_kinds
from workbench.models.weights.read import read_weights

SPECULATORS = {
    "eagle3": ("eagle3", "Eagle3LlamaForCausalLM"),
    "peagle": ("eagle3", "PeagleLlamaForCausalLM"),
    "dflash": ("dflash", "DFlashDraftModel"),
    "dflash2": ("dflash", "DFlash2DraftModel"),
    "dspark": ("dspark", "Qwen3DSparkModel"),
}
"""speculators_model_type -> the method, and the model class where config.json names none."""
AUXILIARY_LAYERS = "aux_hidden_state_layer_ids"
OF_WEIGHTS = (
    *("draft_vocab_size", "target_hidden_size", "norm_before_fc", "fc_norm", "markov_rank"),
    *("eagle_aux_hidden_state_layer_ids", "enable_confidence_head", "confidence_head_with_markov"),
)
"""Fields of a speculators file that its drafter is built with, in addition to its layers."""
KINDS = {FULL: FULL, SLIDING: SLIDING}
STRETCHED = frozenset({"default", "linear", "llama3", "ntk", "proportional"})
"""`_CACHE_ONLY_ROPE_TYPES` of 0.33: kinds of rotation that only their tables end."""
LOOKED_FOR = (*DSPARK_MASKS, *DRAFTERS_MASKS, RANK)
"""Fields at the top of a drafter's file that some version stops without."""


class OfModels(Protocol):
    """What settings say of models, in addition to the name of the target."""

    @property
    def draft_model(self) -> str | dict[str, Any] | None:
        """Return the reference of the second checkpoint, None without one."""

    @property
    def hf_overrides(self) -> dict[str, Any] | None:
        """Return what is changed in the target's config.json."""


class Models(OfModels, Protocol):
    """What a scenario says of models."""

    @property
    def model(self) -> str | dict[str, Any]:
        """Return the reference of the target."""


def load_scenario_model(scenario: Models) -> Model:
    """Return the model of a scenario, together with its drafter. Errors: ConfigError."""
    return load_with(scenario.model, scenario)


def load_with(reference: str | dict[str, Any], settings: OfModels) -> Model:
    """Return a model with the lengths and the drafter of these settings. Errors: ConfigError."""
    return with_drafter(load_changed(reference, settings.hf_overrides), settings.draft_model)


def with_drafter(model: Model, reference: str | Mapping[str, Any] | None) -> Model:
    """Return the model together with the checkpoint that drafts for it. Errors: ConfigError."""
    if reference is None:
        return model
    if isinstance(reference, str):
        return _with_named(model, model.unread_weights, reference)
    return replace(model, drafter=load_drafter(reference))


@lru_cache(maxsize=64)
def _with_named(model: Model, _weights: UnreadWeights, reference: str) -> Model:
    # By the weights as well: models of equal caches may have others.
    return replace(model, drafter=load_drafter(reference))


def load_drafter(reference: str | Path | Mapping[str, Any]) -> Model:
    """Return the drafter of a catalog name, a path, a hub id, or a config object.

    Errors: ConfigError with field draft_model; AppRefusal in an app.
    """
    try:
        config, label = labelled_config(reference)
        found = read_drafter(config, label)
    except ConfigError as error:
        if error.field == "model":
            error.field = "draft_model"
        raise
    if found.head is None or isinstance(reference, Mapping):
        return found
    return replace(found, head=replace(found.head, place=str(reference)))


def read_drafter(config: Mapping[str, Any], name: str) -> Model:
    """Return what a drafter's config.json describes: see `read_model`."""
    config, method = _unwrapped(config)
    fields = Fields(config)
    architecture = listed_name(fields.top, "") or ""
    # A file that names no class is that of a decoder, as for a target.
    unnamed = not architecture and fields.text.get("num_attention_heads") is not None
    if (versions_with(architecture) or unnamed) and method is None:
        model, kinds = read_model(config, name), _kinds_of_decoder(fields)
    else:
        model, kinds = _read_head(fields, name, architecture), KINDS
    reads = model.attention is not None and model.state is None
    return replace(model, head=_head(fields, method, kinds)) if reads else model


def _kinds_of_decoder(fields: Fields) -> Mapping[str, str]:
    """Return the kinds of a whole model's layers, which has more words for attention."""
    listed = fields.raw("layer_types")
    words = listed if isinstance(listed, list) else ()
    return {word: FULL for word in words if isinstance(word, str)} | KINDS


def _unwrapped(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], str | None]:
    """Return the object with the layers, and the method that the file names."""
    kind, inner = config.get("speculators_model_type"), config.get("transformer_layer_config")
    if kind in SPECULATORS and isinstance(inner, Mapping):
        method, architecture = SPECULATORS[kind]
        causal = config.get("sliding_window_non_causal") is False
        flash = {"causal": causal, "target_layer_ids": config.get(AUXILIARY_LAYERS)}
        own = {"architectures": [architecture], "dflash_config": flash}
        weights = {key: config[key] for key in OF_WEIGHTS if config.get(key) is not None}
        return {"model_type": "llama", **inner, **own, **weights}, method
    inner = config.get("model")
    if config.get("model_type") == "eagle" and isinstance(inner, Mapping):
        return inner, None
    return config, None


def _read_head(fields: Fields, name: str, architecture: str) -> Model:
    # Drafters without attention, such as Medusa's heads, name no number of layers.
    has_attention = fields.text.get("num_attention_heads") is not None
    attention = replace(read_attention(fields), has_sinks=False) if has_attention else None
    count = fields.layer_count() if has_attention else 0
    head = Model(
        name=name,
        family="drafter",
        model_type=fields.model_type,
        architecture=architecture,
        layers=tuple(Layer(number=number, kind=FULL) for number in range(count)),
        attention=attention,
        state=None,
        is_hybrid=False,
        is_attention_free=False,
        supports_all_mode=False,
        total_num_attention_heads=0 if attention is None else attention.num_heads,
        model_dtype=model_dtype(fields),
        kv_cache_dtype="auto",
        ssm_cache_dtype=None,
        **read_lengths(fields)._asdict(),
        chunk_size=0,
        num_hidden_layers=count,
        hidden_size=fields.integer("hidden_size") if fields.has("hidden_size") else None,
        mtp=read_mtp(fields, count),
        vocab_size=fields.vocab_size(),
    )
    # Fields of its own: what is read for weights is not among the origins.
    own = Fields(plain_copy(fields.top))
    unread = UnreadWeights(partial(read_weights, own, head, folder_of(fields.top)))
    return replace(head, origins=dict(fields.origins), unread_weights=unread)


def _unlisted(fields: Fields) -> tuple[str, ...]:
    """Return the kinds that the configuration class lists where the file has no list."""
    count = fields.layer_count()
    period = fields.defaults.get(PERIOD, 0)
    if period and fields.has("sliding_window_pattern"):
        period = fields.integer("sliding_window_pattern")
    return tuple(SLIDING if period and (at + 1) % period else FULL for at in range(count))


def _head(fields: Fields, method: str | None, known: Mapping[str, str]) -> Head:
    """Return what only a drafter's file says. known: kinds of layers, by the file's word."""
    flash = fields.raw("dflash_config")
    flash = flash if isinstance(flash, Mapping) else {}
    chunks = read_chunks(fields) if fields.model_type == "llama4_text" else ()
    listed = fields.layer_list("layer_types", known)
    kinds = chunks or listed or _unlisted(fields)
    if flash.get("use_swa") and SLIDING not in kinds:
        kinds = (SLIDING,) * len(kinds)
    size = fields.raw("attention_chunk_size" if chunks else "sliding_window")
    if SLIDES in CONFIG_DEFAULTS.get(fields.model_type, {}) and not fields.raw(SLIDES):
        size = None  # Qwen's classes drop a window that is not in use, whatever kinds are listed
    window = flash.get("swa_window_size", size)
    sinks = flash.get("attention_sink_bias", fields.raw("add_swa_attention_sink_bias"))
    causal, eagle = fields.raw("is_causal"), fields.raw("eagle_config")
    return Head(
        kinds=kinds[: fields.layer_count()],
        lists_kinds=bool(listed),
        window_tokens=window if {*kinds} != {FULL} and isinstance(window, int) else None,
        is_causal=flash.get("causal") if causal is None else bool(causal),
        has_sinks=bool(sinks),
        reads_hidden_states=not isinstance(eagle, Mapping)
        or eagle.get("use_aux_hidden_state", True) is not False,
        method=method,
        given=frozenset(_given(fields, flash)),
        stretches=rope_kinds(fields) <= STRETCHED,
    )


def _given(fields: Fields, flash: Mapping[str, Any]) -> Iterator[str]:
    yield from (name for name in LOOKED_FOR if fields.raw(name) is not None)
    if "mask_token_id" in flash:
        yield NULL_MASK if flash["mask_token_id"] is None else MASK
