"""Convert the object of a config.json to core's model description."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.errors import ConfigError, shown
from workbench.core.model import ENCODER_ONLY, FULL, SLIDING, SSM, Layer, Model
from workbench.core.pooling import STATELESS
from workbench.core.weights import UnreadWeights
from workbench.models import families  # noqa: F401  (registers every family)
from workbench.models.architecture import (
    as_generating,
    read_architecture,
    sees_later,
    with_class,
)
from workbench.models.attention import has_window
from workbench.models.build_errors import build_errors
from workbench.models.built_heads import derived_head_size, layer_class
from workbench.models.checkpoint import folder_of
from workbench.models.config_defaults import EXPERT_FIELDS, EXPERTS
from workbench.models.families.decoder import DEFAULT, REFUSALS
from workbench.models.family import Family, find_family
from workbench.models.fields import Fields
from workbench.models.json_file import check_depth, plain_copy
from workbench.models.lengths import read_lengths
from workbench.models.listed import KEY, listed_name
from workbench.models.mtp import read_mtp
from workbench.models.quantization import (
    checkpoint_kv_cache_dtype,
    modelopt_algorithm,
    quantization_method,
    read_description,
)
from workbench.models.served import read_served_architecture
from workbench.models.towers import read_towers
from workbench.models.weights.read import read_weights

DTYPE_NAMES = {
    # _resolve_auto_dtype: vLLM takes the dtype that it prefers for what no platform runs, as well
    **dict.fromkeys(("float", "float8_e4m3fn", "float8_e5m2"), "float32"),
    "half": "float16",
    **{name: name for name in FLOAT_BYTES},
}
DEFAULT_CHUNK_SIZE = 2048
ABSENT = f"the family's default ({KEY} is absent)"


def read_model(config: Mapping[str, Any], name: str) -> Model:
    """Return the model that `config` (the object of a config.json) describes.

    Errors: ConfigError with the JSON pointer of a field that is missing, of the wrong type, out
    of range or in contradiction to another; nothing is guessed. Nothing is imported or
    downloaded: `auto_map` is data.
    """
    if not isinstance(config, Mapping):
        message = f"{name[:80]} is not the object of a config.json."
        raise ConfigError("config_not_object", message, field="")
    check_depth(config, name[:80])
    whole = config
    is_assumed = listed_name(config, "") is None
    config, pooling = as_generating(with_class(config), is_assumed=is_assumed)
    fields = Fields(config)
    family, model_type = find_family(fields, DEFAULT)
    architecture = (
        read_served_architecture(fields, model_type, REFUSALS)
        if family is DEFAULT
        else read_architecture(fields, family, model_type)
    )
    taken = architecture if pooling is None else pooling.name
    fields.note("architecture", taken, ABSENT if is_assumed else KEY)
    if pooling is not None and pooling.is_assumed and not pooling.generates:
        fields.remarks.append(
            f"config.json names no {KEY}: vLLM uses {pooling.name}, a pooling model. For a model "
            f'that generates, set {KEY} to ["{pooling.base}"].'
        )
    built = layer_class(fields) or architecture
    if pooling is None:
        later = any(sees_later(fields.text, name) for name in (built, architecture))
    else:
        later = pooling.sees_later
    layers = () if later else _layers(fields, family)
    # The pages of a hybrid are aligned to its states, also where no layer keeps one.
    is_hybrid = family.is_hybrid and not (family.is_ordinary(fields) or taken == STATELESS)
    has_state = is_hybrid or any(layer.kind == SSM for layer in layers)
    has_attention = later or any(layer.kind != SSM for layer in layers)
    stated, attention = family.stated(fields), family.attention(fields)
    if later and attention is not None:
        attention = replace(attention, type=ENCODER_ONLY)
    if not (has_attention or family.is_attention_free):
        stated = attention  # of a hybrid without attention layers, too
    state, state_fields = fields.reading(family.state) if has_state else (None, ())
    method = quantization_method(fields)
    is_stated = fields.top.get("quantization_config") is not None
    model = Model(
        name=name,
        family=family.name,
        model_type=model_type,
        architecture=architecture,
        layers=layers,
        attention=attention if has_attention else None,
        stated=stated,
        state=state,
        state_fields=state_fields,
        is_hybrid=is_hybrid,
        is_attention_free=family.is_attention_free,
        # wrappers lack SupportsMambaPrefixCaching (0.23)
        supports_all_mode=family.supports_all_mode and not fields.prefix,
        is_encoder_decoder=_is_encoder_decoder(fields, family),
        total_num_attention_heads=_attention_heads(fields, family),
        model_dtype=model_dtype(fields),
        kv_cache_dtype=checkpoint_kv_cache_dtype(fields, attention if has_attention else None),
        quantization=method,
        states_quantization=None if is_stated == (method is not None) else is_stated,
        modelopt_algorithm=modelopt_algorithm(fields.top.get("quantization_config")),
        pooling=pooling,
        described=read_description(fields),
        ssm_cache_dtype=family.ssm_cache_dtype(fields),
        **read_lengths(fields)._asdict(),
        chunk_size=_chunk_size(fields),
        num_hidden_layers=_layer_count(fields, family, layers),
        listed_blocks=family.listed_blocks(fields),
        mtp=read_mtp(fields, _layer_count(fields, family, layers)),
        dspark=family.dspark(fields),
        hidden_size=fields.integer("hidden_size") if fields.has("hidden_size") else None,
        whole_model_type=_whole_model_type(fields),
        towers=read_towers(fields),
        vocab_size=fields.vocab_size(),
        num_experts=_experts(fields),
        build_errors=build_errors(fields, architecture),
        layer_class=built,
        derived_head_size=derived_head_size(fields, attention if has_attention else None),
        largest_item_tokens=family.largest_item_tokens(fields),
        names_attention_layers=family.names_attention_layers and has_attention,
        notes=_notes(fields),
    )
    model = replace(model, origins=dict(fields.origins))
    # Fields of its own: what is read for weights is not among the origins.
    unread = UnreadWeights(
        partial(read_weights, Fields(plain_copy(config)), model, folder_of(whole))
    )
    return replace(model, unread_weights=unread)


def _whole_model_type(fields: Fields) -> str:
    named = fields.top.get("model_type")
    return named if fields.prefix and isinstance(named, str) else ""


def _layers(fields: Fields, family: Family) -> tuple[Layer, ...]:
    """Return the layers that keep a cache. Errors: ConfigError where none does."""
    layers = family.layers(fields)
    if family.slides and has_window(fields):
        layers = tuple(one._replace(kind=SLIDING) if one.kind == FULL else one for one in layers)
    if not layers:
        raise fields.contradiction("num_hidden_layers", "no layer keeps a cache")
    return layers


def _layer_count(fields: Fields, family: Family, layers: tuple[Layer, ...]) -> int:
    """Return the number of all layers or blocks, with those that keep no cache."""
    # If it is absent, it is the length of the list, as in Nemotron-H's property in transformers 5.
    written = fields.layer_count() if fields.has("num_hidden_layers") else fields.listed_layers
    last = layers[-1].number + 1 if layers else 1
    return max(last, written // family.layers_in_block)


def _is_encoder_decoder(fields: Fields, family: Family) -> bool:
    """Return whether the whole file or its decoder names an encoder (`is_encoder_decoder`)."""
    key = "is_encoder_decoder"
    return bool(fields.top.get(key, family.is_encoder_decoder) or fields.text.get(key))


def _experts(fields: Fields) -> int:
    """Return the routed experts as vLLM counts them, even in dense models of a class with some."""
    of_class = fields.defaults.get(EXPERTS)
    written = next((fields.raw(key) for key in EXPERT_FIELDS if fields.has(key)), of_class)
    blocks = fields.raw("block_configs")
    if not written and isinstance(blocks, list):
        named = (one.get("n_routed_experts") for one in blocks if isinstance(one, Mapping))
        written = [one for one in named if one]
    found = written[0] if isinstance(written, list) and written else written
    return found if isinstance(found, int) and found > 0 else 0


def _attention_heads(fields: Fields, family: Family) -> int:
    # Mamba-2 calls its state's heads num_heads: only the plain name means attention there.
    if family.is_attention_free and "num_attention_heads" not in fields.text:
        return 0
    return fields.integer("num_attention_heads")


def model_dtype(fields: Fields) -> str | None:
    """Return the dtype of the checkpoint; None where config.json names none."""
    for config, prefix in ((fields.top, ""), (fields.text, fields.prefix)):
        for key in ("dtype", "torch_dtype"):
            value = config.get(key)
            if value is None:
                continue
            bare = value.removeprefix("torch.") if isinstance(value, str) else value
            if not isinstance(bare, str) or bare not in DTYPE_NAMES:
                pointer = f"/{prefix}/{key}" if prefix else f"/{key}"
                raise ConfigError(
                    "config_wrong_value",
                    f"Invalid {pointer} {shown(value)}. Expected one of {', '.join(DTYPE_NAMES)}.",
                    field=pointer,
                )
            fields.note("model_dtype", DTYPE_NAMES[bare], f"{prefix}.{key}" if prefix else key)
            return DTYPE_NAMES[bare]
    return None


def _chunk_size(fields: Fields) -> int:
    for key in ("mamba_chunk_size", "chunk_size"):
        if fields.has(key):
            return fields.integer(key, name="chunk_size")
    fields.note("chunk_size", DEFAULT_CHUNK_SIZE, "vLLM's default (no chunk size field)")
    return DEFAULT_CHUNK_SIZE


def _notes(fields: Fields) -> tuple[str, ...]:
    code = "This repository ships custom code (auto_map); the workbench does not run it."
    return tuple(dict.fromkeys([*fields.remarks, *([code] if "auto_map" in fields.top else [])]))
