"""The default reader, of every architecture without a reader of its own.

It reads the fields that mean the same in every model, and refuses a file that has words which may
speak of the cache and that it does not know.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from workbench.core.architectures import (
    MODEL_REGISTRIES,
    versions_with,
)
from workbench.core.errors import ConfigError
from workbench.core.groups.cache_spec import SINK_SPEC
from workbench.core.model import CHUNKED, FULL, SLIDING, Attention, Layer
from workbench.models.architecture import listed_name
from workbench.models.attention import MLA_MODEL_TYPES, has_window, read_attention, window_list
from workbench.models.family import Family
from workbench.models.fields import Fields
from workbench.models.layer_lists import NEITHER, Words, first_list, to_layers

WORDS: Words = {**{kind: kind for kind in (FULL, SLIDING, CHUNKED)}, "mlp": NEITHER}
MLA_WORDS: Words = {**WORDS, "deepseek_sparse_attention": FULL}
"""An indexer chooses tokens of a layer that caches all of them."""
WORDS_OF: dict[str, Words] = {"Rnj1ForCausalLM": {FULL: FULL, SLIDING: FULL, CHUNKED: SLIDING}}
"""Architectures that mean something else by the words (`rnj1.py`)."""
KINDS = "layer_types"
PADDED = frozenset({"step3p5"})
"""Model types whose list goes on with the kinds of the MTP layers (Step-3.5's and 3.7's files)."""
STATIC_SINKS = "PanguProMoEV2ForCausalLM"
STEPS = "total_ut_steps"
"""How often all layers run, each time with caches of their own (`ouro.py`)."""
PERIOD_FIELD = "global_attn_every_n_layers"
PERIODS = ("full_attention_every", "sliding_window_pattern", PERIOD_FIELD)
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
        "use_temporal_conv",
        *("_sliding_window_pattern", "n_recurrent_layers", "recurrent_kv_cache_mode"),
        *(PERIOD_FIELD, "interleaved_sliding_window"),
    }
)
"""Those of them that the default reader reads, or that mean something else."""
OTHER_CACHES = (
    "its layers keep other caches than the default reader knows. tools/record_cache_groups.py "
    "prints what an installed vLLM makes of it."
)
REFUSALS: dict[str, str] = dict.fromkeys(
    (
        *("gemma3n", "gemma3n_mm", "gemma4", "gemma4_mm"),
        *("gemma4_unified", "llama4", "mllama4"),
        *("vllm.models.deepseek_v4", "vllm.models.deepseek_v41"),
        "vllm.models.kimi_k3",
    ),
    OTHER_CACHES,
)
REFUSALS["unlimited_ocr"] = (
    "its layers drop generated tokens past a window (R-SWA), which are not here. Its pages are "
    'those of full attention: set architectures to ["DeepseekOCRForCausalLM"] for its sizes.'
)
REFUSALS["voxtral_realtime"] = (
    "its audio encoder keeps keys and values, too, which are not here. For its decoder alone, set "
    'architectures to ["VoxtralForConditionalGeneration"].'
)
REFUSALS["GritLM"] = (
    "vLLM runs it as an embedding model, without a cache. For generation set architectures to "
    '["MistralForCausalLM"].'
)
"""Module of vLLM, or architecture -> why the default reader does not read what it builds."""


def _check_words(fields: Fields) -> None:
    for key, value in fields.text.items():
        if not isinstance(key, str) or value in (None, False, 0, [], {}):
            continue
        if key.endswith("_loops") and value == 1:
            continue
        if key not in KNOWN_WORDS and CACHE_WORDS.search(key[:200]):
            raise ConfigError(
                "unread_field",
                f"{fields.pointer(key[:80])} may change what a layer caches, and the default "
                f"reader does not know it. Register a family for {fields.model_type[:80]!r} "
                "(CONTRIBUTING.md), or remove the field if it changes no cache.",
                field=fields.pointer(key[:80]),
            )


def _layers(fields: Fields) -> tuple[Layer, ...]:
    """Return full attention, or windows where the file says so and has one."""
    _check_words(fields)
    kinds = _kinds(fields)
    if not has_window(fields):
        kinds = [FULL if kind == SLIDING else kind for kind in kinds]
    elif set(kinds) == {FULL} and _is_served_by_first_alone(fields):
        kinds = [SLIDING] * len(kinds)
    return to_layers([*kinds] * (fields.integer(STEPS) if fields.has(STEPS) else 1))


def _kinds(fields: Fields) -> Sequence[str]:
    if windows := window_list(fields):
        return [FULL if size is None else SLIDING for size in windows]
    words = MLA_WORDS if fields.model_type in MLA_MODEL_TYPES else WORDS
    words = WORDS_OF.get(_class_name(fields), words)
    if fields.model_type in PADDED and fields.has(KINDS):
        padded = fields.layer_list(KINDS, words) or ()
        if len(padded) > (count := fields.layer_count()):
            return padded[:count]
    lists: dict[str, Words] = {KINDS: words, "attn_type_list": {1: FULL}}
    return first_list(fields, lists) or _unlisted(fields)


def _is_served_by_first_alone(fields: Fields) -> bool:
    """Return whether 0.23 alone has the class: there a list of one kind does not undo a window."""
    # is_interleaved of 0.23, and EngineArgs.create_engine_config of 0.33, which looks at the kind.
    return versions_with(_class_name(fields)) == (next(iter(MODEL_REGISTRIES)),)


def _class_name(fields: Fields) -> str:
    return listed_name(fields.top, "") or ""


def _unlisted(fields: Fields) -> list[str]:
    # CacheConfig.sliding_window is that of every layer unless a list names some (arg_utils.py).
    count, period = fields.layer_count(), 0
    for key in PERIODS:
        period = fields.integer(key) if fields.has(key) else period
    first = fields.integer("max_window_layers", minimum=0) if fields.has("max_window_layers") else 0
    return [
        FULL if index < first or (period and not (index + 1) % period) else SLIDING
        for index in range(count)
    ]


def _attention(fields: Fields) -> Attention:
    """Return the attention layers' geometry, with the sinks that a class of Pangu's has."""
    # OpenPanguSinkAttention of openpangu.py, SinkFullAttentionManager, 0.23 and 0.33.
    found, sinks = read_attention(fields), 0
    if _class_name(fields) == STATIC_SINKS:
        sinks = fields.integer("param_sink_number", 0, minimum=0)
    if not sinks:
        return found
    fields.remarks.append(
        f"All requests read {sinks} first tokens (static sinks), which are in blocks of the cache "
        "that no request has: so many tokens fewer are free than the plan says."
    )
    values = fields.integer("v_channels", found.head_size)
    return replace(
        found,
        own_backend="FLASH_ATTN_DIFFKV",
        full_spec=SINK_SPEC,
        value_head_size=None if values == found.head_size else values,
    )


DEFAULT = Family(
    name="decoder", model_types=(), layers=_layers, attention=_attention, is_hybrid=False
)
"""The reader of every architecture without one of its own."""
