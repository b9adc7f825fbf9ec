"""The default reader, of every architecture without a reader of its own.

It reads the fields that mean the same in every model, and refuses a file that has words which may
speak of the cache, that vLLM reads for that class and that it does not know.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from workbench.core.architectures import MODEL_REGISTRIES, architecture_of, module_of
from workbench.core.built import CLEARS_WINDOW, PLAIN_DECODER
from workbench.core.errors import ConfigError
from workbench.core.groups.cache_spec import GAP_SPEC, SINK_SPEC
from workbench.core.model import CHUNKED, FULL, SLIDING, Attention, Layer
from workbench.core.package_data import package_data
from workbench.models import attention
from workbench.models.built_heads import layer_class
from workbench.models.config_defaults import FIRST_WINDOW, PERIOD
from workbench.models.family import Family
from workbench.models.fields import Fields
from workbench.models.layer_lists import NEITHER, Words, first_list, to_layers
from workbench.models.listed import is_of_library, listed_name

WORDS: Words = {**{kind: kind for kind in (FULL, SLIDING, CHUNKED)}, "mlp": NEITHER}
MLA_WORDS: Words = {**WORDS, "deepseek_sparse_attention": FULL}
"""An indexer chooses tokens of a layer that caches all of them."""
WORDS_OF: dict[str, Words] = {"Rnj1ForCausalLM": {FULL: FULL, SLIDING: FULL, CHUNKED: SLIDING}}
"""Architectures that mean something else by the words (`rnj1.py`)."""
LISTED_BY_CLASS = frozenset(
    {
        *("dots1", "mimo", "qwen2", "qwen2_5_omni_text", "qwen2_5_vl", "qwen2_5_vl_text"),
        *("qwen2_vl", "qwen2_vl_text", "qwen3"),
    }
)
"""Types whose configuration class makes a list of kinds from `max_window_layers`; others have the
field, and windows in all layers."""
WITHOUT_MIXTURE = frozenset({"mimo", "qwen2", "qwen3"})
"""Modules of vLLM that refuse windows in some layers."""

KINDS = "layer_types"
GAP_WINDOW = 128
"""Generated tokens that Unlimited-OCR keeps, by default (UnlimitedOCRConfig)."""
BAGEL_SIDE = 70
"""Patches of an image's side, by default."""
PADDED = frozenset({"step3p5"})
"""Model types whose list goes on with the kinds of the MTP layers (Step-3.5's and 3.7's files)."""
STATIC_SINKS, FREES_GAPS = "PanguProMoEV2ForCausalLM", "UnlimitedOCRForCausalLM"
STEPS = "total_ut_steps"
"""How often all layers run, each time with caches of their own (`ouro.py`)."""
PERIOD_FIELD = "global_attn_every_n_layers"
PERIODS = (PERIOD, "sliding_window_pattern", PERIOD_FIELD)
"""Every n-th layer is full attention, the others slide: by the configuration class, or a field."""

CACHE_WORDS = re.compile(
    r"(^|_)(loops|swa|windows?|ssm|mamba|kda|gla|conv|recurrent|delta|lightning|chunks?|sparse"
    r"|compress\w*|indexer|latent|lasa|cla|hybrid|linear_(attn|num|key|value|head|conv)\w*|memory|retention"
    r"|cross_attention|kv_shared|shared?_kv|(global|local)_(attn|attention|head|layer)\w*"
    r"|block_configs|attention_pattern|layer_group_size)(_|$)"
)
"""Fields that may say that a layer keeps another cache than the ordinary one."""
KNOWN_WORDS = frozenset(
    {
        *("sliding_window", "use_sliding_window", "max_window_layers", "sliding_window_pattern"),
        *("attention_chunk_size", "chunk_size_feed_forward", "decoder_sparse_step"),
        *("indexer_types", "indexer_rope_interleave", "audio_chunk_length"),
        *("prefix_dense_sliding_window_pattern", "spatial_conv_size", "temporal_conv_size"),
        *("use_temporal_conv", "compression_config"),
        *("_sliding_window_pattern", "n_recurrent_layers", "recurrent_kv_cache_mode"),
        *(PERIOD_FIELD, "interleaved_sliding_window"),
    }
)
"""Those of them that the default reader reads, or that mean something else."""
SWITCHED = {"cla_share_factor": "use_cla"}
"""Words that mean nothing unless another field is set (`_get_cla_factor` of hunyuan_v1.py)."""
CHUNKED = "dual_chunk_attention_config"
"""What Qwen's classes hand to a backend as it is (`Qwen2Attention`, 0.23 and 0.33)."""
REFUSALS = {
    "Gemma4UnifiedForCausalLM": "the Transformers library runs it, with heads of one size in all "
    "layers, which are not here. "
    'For its text alone set architectures to ["Gemma4ForCausalLM"].',
    "EmbeddingGemma2Model": "its layers are those of no other class, with heads of two sizes and "
    "positions of its own, and it keeps no cache.",
    **dict.fromkeys(
        ("PrithviGeoSpatialMAE", "Terratorch"),
        "it has no attention and no state, so it keeps no cache and there is nothing to plan.",
    ),
}
"""Architecture -> why the default reader does not read what it builds."""


def _check_words(fields: Fields) -> None:
    if fields.text.get(CHUNKED) and _is_read(fields, CHUNKED):
        raise ConfigError(
            "no_dual_chunk_attention",
            f"{fields.pointer(CHUNKED)} asks for attention in two kinds of chunks, which no "
            "backend of vLLM 0.23 or 0.33 has: the model cannot be built. Remove the field from "
            "config.json, and all tokens attend as in other models.",
            field=fields.pointer(CHUNKED),
            vllm_text="got an unexpected keyword argument 'layer_idx'",
        )
    for key, value in fields.text.items():
        if not isinstance(key, str) or value in (None, False, 0, [], {}):
            continue
        if key.endswith("_loops") and value == 1:
            continue
        if key in SWITCHED and not fields.raw(SWITCHED[key]):
            continue
        if key not in KNOWN_WORDS and CACHE_WORDS.search(key[:200]) and _is_read(fields, key):
            raise ConfigError(
                "unread_field",
                f"{fields.pointer(key[:80])} may change what a layer caches, and the default "
                f"reader does not know it. Register a family for {fields.model_type[:80]!r} "
                "(CONTRIBUTING.md), or remove the field if it changes no cache.",
                field=fields.pointer(key[:80]),
            )


def _is_read(fields: Fields, key: str) -> bool:
    """Return whether sources of a release read a field for this class, or for one that is unknown.

    They are those of its module, of the type's configuration class, and of vLLM besides its models.
    """
    inner = architecture_of(fields.model_type) or listed_name(fields.text, f"/{fields.prefix}")
    served = [known.served for known in MODEL_REGISTRIES.values()]
    named = {*filter(None, (inner, listed_name(fields.top, "")))}
    modules = {one[name] for name in named for one in served if name in one}
    words = _read_words()
    is_known = bool(inner and modules)
    return not is_known or any(key in words.get(module, ()) for module in {"", *modules})


@lru_cache(maxsize=1)
def _read_words() -> Mapping[str, Sequence[str]]:
    """Return module of vLLM -> the words that it reads, as tools/cache_words.py found them."""
    found: Mapping[str, Sequence[str]] = package_data("workbench.models", "cache_words.json")
    return found


def _layers(fields: Fields) -> tuple[Layer, ...]:
    """Return full attention, or windows where the file says so and has one."""
    if not is_of_library(fields):
        _check_words(fields)
    kinds = _kinds(fields)
    if not attention.has_window(fields):
        kinds = [FULL if kind == SLIDING else kind for kind in kinds]
    _check_mixture(fields, kinds)
    return to_layers([*kinds] * (fields.integer(STEPS) if fields.has(STEPS) else 1))


def _check_mixture(fields: Fields, kinds: Sequence[str]) -> None:
    """Check that vLLM builds windows in some layers. Errors: ConfigError."""
    # Qwen2Model.__init__, 0.23 and 0.33.
    mixed = {FULL, SLIDING} <= set(kinds) and module_of(layer_class(fields)) in WITHOUT_MIXTURE
    if mixed and fields.raw(FIRST_WINDOW) != fields.layer_count():
        raise ConfigError(
            "mixed_windows",
            f"{fields.pointer(FIRST_WINDOW)} gives a window to only some layers, which vLLM does "
            f"not build for {_class_name(fields)}. Set use_sliding_window to false.",
            field=fields.pointer(FIRST_WINDOW),
            vllm_text="Sliding window for some but all layers is not supported. ",
        )


def _kinds(fields: Fields) -> Sequence[str]:
    if windows := attention.window_list(fields):
        return [FULL if size is None else SLIDING for size in windows]
    words = MLA_WORDS if fields.model_type in attention.MLA_MODEL_TYPES else WORDS
    words = _words_of_library(fields) or WORDS_OF.get(_class_name(fields), words)
    if fields.model_type in PADDED and fields.has(KINDS):
        padded = fields.layer_list(KINDS, words) or ()
        if len(padded) > (count := fields.layer_count()):
            return padded[:count]
    listed = first_list(fields, {KINDS: words})
    if listed is None:
        first_list(fields, {"attn_type_list": {1: FULL}})  # MiniMax's word for attention, no kind
    kinds = listed or _unlisted(fields)
    # OAIAttention of gpt_oss.py, 0.23 and 0.33: every other layer slides, whatever is listed.
    takes_turns = fields.model_type == "gpt_oss" and set(kinds) != {SLIDING}
    return [(SLIDING, FULL)[at % 2] for at in range(len(kinds))] if takes_turns else kinds


def _words_of_library(fields: Fields) -> Words:
    """Return every word of the list as full attention but one, where the library runs the class."""
    # create_attention_instances of transformers/base.py asks for windows alone.
    listed = fields.raw(KINDS) if is_of_library(fields) else None
    words = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
    return {one: SLIDING if one == SLIDING else FULL for one in words}


def _class_name(fields: Fields) -> str:
    return listed_name(fields.top, "") or ""


def _unlisted(fields: Fields) -> list[str]:
    # CacheConfig.sliding_window is that of every layer unless a list names some (arg_utils.py), or
    # the module clears it (LagunaModel.__init__, 0.23 and 0.33); a latent takes no notice of it.
    count, period = fields.layer_count(), 0
    clears = module_of(layer_class(fields)) in CLEARS_WINDOW
    if clears or attention.read_attention(fields).use_mla:
        return [FULL] * count
    for key in PERIODS:
        period = fields.integer(key) if fields.has(key) else period
    named = fields.has(FIRST_WINDOW) and fields.model_type in LISTED_BY_CLASS
    first = fields.integer(FIRST_WINDOW, minimum=0) if named else 0
    return [
        FULL if index < first or (period and not (index + 1) % period) else SLIDING
        for index in range(count)
    ]


def _attention(fields: Fields) -> Attention:
    """Return the attention layers' geometry, with what two classes keep otherwise."""
    # OpenPanguSinkAttention of openpangu.py, SinkFullAttentionManager, 0.23 and 0.33.
    found, sinks = attention.read_attention(fields), 0
    if found.window_tokens and not attention.has_window(fields) and CHUNKED not in _kinds(fields):
        found = replace(found, window_tokens=None)  # chunks that no layer has
    if _class_name(fields) == STATIC_SINKS:
        sinks = fields.integer("param_sink_number", 0, minimum=0)
    if _class_name(fields) == FREES_GAPS and not found.use_mla:
        # RSWAManager of single_type_kv_cache_manager.py, 0.33
        kept = fields.top.get("rswa_window") or GAP_WINDOW
        fields.remarks.append(
            f"A request keeps only the last {kept} of its generated tokens (rswa_window) and frees "
            "the blocks of older ones as it decodes; vLLM still reserves room for whole requests."
        )
        return replace(found, full_spec=GAP_SPEC)
    if not sinks:
        return found
    fields.remarks.append(
        f"All requests read {sinks} first tokens (static sinks) from blocks that no request owns: "
        f"{sinks} tokens fewer are free than the plan says."
    )
    values = fields.integer("v_channels", found.head_size)
    return replace(
        found,
        own_backend="FLASH_ATTN_DIFFKV",
        full_spec=SINK_SPEC,
        value_head_size=None if values == found.head_size else values,
    )


def _largest_item(fields: Fields) -> int | None:
    """Return the tokens of the largest image, of models that see images whole and say it."""
    # get_mm_max_tokens_per_item of bagel.py, 0.33; most models have none before they are built.
    if fields.top.get("model_type") != "bagel":
        return None
    side = fields.top.get("vit_max_num_patch_per_side", BAGEL_SIDE)
    return side * side if type(side) is int else None


DEFAULT = Family(
    name=PLAIN_DECODER,
    model_types=(),
    layers=_layers,
    attention=_attention,
    stated=attention.stated_attention,
    largest_item_tokens=_largest_item,
)
"""The reader of every architecture without one of its own."""
