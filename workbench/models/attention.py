"""Attention geometry from config.json: heads, KV heads, head size, MLA, windows."""

from collections.abc import Mapping

from workbench.core.media import IMAGE, VIDEO
from workbench.core.model import Attention, Indexer
from workbench.models.config_defaults import takes_switch
from workbench.models.fields import MAX_INTEGER, Fields
from workbench.models.listed import is_of_library

KV_HEAD_FIELDS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num")
"""Read in this order; the first one present counts (vLLM 0.23, total KV heads)."""

MLA_MODEL_TYPES = frozenset(
    {
        *("AXK1", "axk1", "bailing_hybrid", "deepseek_mtp", "deepseek_v2", "deepseek_v3"),
        *(
            "deepseek_v32",
            "deepseek_v4",
            "deepseek_v41",
            "glm4_moe_lite",
            "glm_moe_dsa",
            "hy_v4",
            "k3_dspark",
            "kimi_k2",
            "kimi_linear",
        ),
        *("longcat_flash", "pangu_ultra_moe", "sarvam_mla"),
    }
)
"""`is_deepseek_mla`, and what `SarvamMLAAttention` builds as such without being counted; other
types with the same fields keep ordinary heads."""
OF_DEEPSEEK_V2 = ("deepseek_v2", "deepseek_vl_v2")
"""Types with its configuration class; a file of the second one need not name it for its text."""
UNCOUNTED = frozenset({"sarvam_mla"})
"""Those of them that vLLM counts as ordinary heads."""
EXPANDED = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim")
"""Fields of latent attention; a type that vLLM does not count as MLA expands it."""
SINK_MODEL_TYPES = frozenset({"gpt_oss"})
ALIBI_MODEL_TYPES = frozenset({"bloom", "mpt", "step1"})
ROTATED_BAICHUAN = 4096
"""hidden_size of the models of Baichuan whose positions are rotated."""
LISTED_SINKS = frozenset({"granite_swa", "granitemoe_swa"})
"""Types whose layers have sinks where the file lists their kinds (`granite_layer_attn_params`)."""
SEEN_WHOLE = {
    **dict.fromkeys(("bagel", "gemma3", "moondream3", "paligemma", "umm"), frozenset({IMAGE})),
    "molmo2": frozenset({IMAGE, VIDEO}),
}
"""model_type of the whole file, not its text part -> what models take besides text that attend to
all tokens of an image."""
SOFT_CAPPED = {"gemma2": 50.0}
"""model_type -> the cap of attention scores if config.json has none; null means no cap."""
DEFAULT_ROPE = "default"
SECTIONED = frozenset({DEFAULT_ROPE, "mrope", "yarn"})
"""Kinds of rotary embeddings that may have sections."""
ROPE_IS_HEAD_DIM = frozenset({"glm4_moe_lite", "minicpm3"})
"""Classes where `head_dim` is another name of `qk_rope_head_dim`, and wins (transformers 5)."""

FLAT = frozenset({"qwen2_vl", "qwen2_5_vl"})
"""Classes that give their text part what it declares of a file without parts: no `head_dim`."""
SIZE_IS_CHANNELS = frozenset({"jetmoe", "nemotron"})
"""Classes where `kv_channels` is another name of `head_dim`; others have it, and do not read it."""


def read_attention(fields: Fields) -> Attention:
    """Return the attention layers' geometry, of the whole model."""
    heads = fields.integer("num_attention_heads", name="num_heads")
    is_mla = fields.model_type in MLA_MODEL_TYPES or is_of_library(fields)
    if is_mla and fields.has("kv_lora_rank"):
        return _read_mla(fields, heads)
    if all(map(fields.has, EXPANDED)):
        return _read_expanded(fields, heads)
    return Attention(
        num_heads=heads,
        num_kv_heads=_kv_heads(fields, heads),
        head_size=_head_size(fields, heads),
        has_sinks=_has_sinks(fields),
        seen_whole=SEEN_WHOLE.get(str(fields.top.get("model_type")), frozenset()),
        has_alibi=_has_alibi(fields),
        logits_soft_cap=_soft_cap(fields),
        window_tokens=_window(fields),
        rope_sections=_rope_sections(fields, _head_size(fields, heads)),
    )


def stated_attention(fields: Fields) -> Attention | None:
    """Return the heads that vLLM counts where a class builds other ones; None for most."""
    if fields.has("kv_lora_rank") and is_of_library(fields):
        heads = fields.integer("num_attention_heads")
        size = _head_size(fields, heads)
        return Attention(
            num_heads=heads, num_kv_heads=_kv_heads(fields, heads), head_size=size, use_mla=True
        )
    # ModelArchConfigConvertorBase, which does not know MiniCPM3's heads nor Sarvam's MLA.
    is_mla = fields.has("kv_lora_rank") and fields.model_type in MLA_MODEL_TYPES
    is_built_otherwise = (
        fields.model_type in UNCOUNTED if is_mla else all(map(fields.has, EXPANDED))
    )
    # Its class writes the rotary part over head_dim, also of DeepSeek-OCR, which has no latent.
    kind = fields.model_type or fields.top.get("model_type")
    is_plain = kind in OF_DEEPSEEK_V2 and not fields.has("kv_lora_rank")
    if not (is_built_otherwise or is_plain):
        return None
    heads = fields.integer("num_attention_heads")
    if is_plain:
        size = fields.integer("qk_rope_head_dim", minimum=0)
        return Attention(num_heads=heads, num_kv_heads=_kv_heads(fields, heads), head_size=size)
    is_rope = fields.model_type in ROPE_IS_HEAD_DIM
    size = fields.integer("qk_rope_head_dim") if is_rope else _head_size(fields, heads)
    return Attention(num_heads=heads, num_kv_heads=_kv_heads(fields, heads), head_size=size)


def _rope_sections(fields: Fields, head_size: int) -> tuple[int, int] | None:
    """Return the pairs that sections of a rotary embedding cover, and how many there are."""
    # get_rope and MRotaryEmbedding.__init__, 0.23 and 0.33: the rotation of images.
    rope = fields.raw("rope_parameters") or fields.raw("rope_scaling")
    if not isinstance(rope, Mapping):
        return None
    kind = rope.get("rope_type", DEFAULT_ROPE)
    if not isinstance(kind, str) or kind not in SECTIONED:
        return None
    sections = rope.get("mrope_section")
    share = rope.get("partial_rotary_factor", fields.raw("partial_rotary_factor"))
    if not isinstance(sections, list) or not all(type(size) is int for size in sections):
        return None
    is_part = isinstance(share, int | float) and 0 < share <= 1
    rotated = int(head_size * share) if is_part else head_size
    return sum(sections), rotated // 2


def _has_sinks(fields: Fields) -> bool:
    if fields.model_type not in LISTED_SINKS:
        return fields.model_type in SINK_MODEL_TYPES
    stated = fields.raw("attention_sinks")
    return fields.has("layer_types") if stated is None else bool(stated)


def _has_alibi(fields: Fields) -> bool:
    if fields.model_type == "falcon":
        return fields.raw("alibi") is True
    if fields.model_type == "baichuan":  # BaichuanForCausalLM
        return fields.integer("hidden_size") != ROTATED_BAICHUAN
    return fields.model_type in ALIBI_MODEL_TYPES


def _read_mla(fields: Fields, heads: int) -> Attention:
    rank = fields.integer("kv_lora_rank")
    rope = fields.integer(_rope_field(fields))
    fields.note("head_size", rank + rope, "kv_lora_rank + qk_rope_head_dim (MLA)")
    return Attention(
        num_heads=heads,
        num_kv_heads=_kv_heads(fields, heads),
        head_size=rank + rope,
        use_mla=True,
        is_sparse=fields.has("index_topk"),
        chosen_tokens=fields.integer("index_topk") if fields.has("index_topk") else None,
        qk_nope_head_dim=fields.integer("qk_nope_head_dim"),
        qk_rope_head_dim=rope,
        v_head_dim=fields.integer("v_head_dim"),
        indexer=_indexer(fields) if fields.has("index_topk") else None,
    )


def _rope_field(fields: Fields) -> str:
    """Return the field with the size of the rotary part of a head."""
    if fields.model_type not in ROPE_IS_HEAD_DIM or not fields.has("head_dim"):
        return "qk_rope_head_dim"
    # _get_qk_rope_head_dim, 0.23 and 0.33: two equal parts are taken for a file that the class
    # wrote, and the part is read from the file itself.
    equals_rest = fields.integer("head_dim") == fields.integer("qk_nope_head_dim")
    is_read_again = equals_rest and not fields.prefix and fields.has("qk_rope_head_dim")
    return "qk_rope_head_dim" if is_read_again else "head_dim"


def _read_expanded(fields: Fields, heads: int) -> Attention:
    """Return the heads of a class that expands the latent before it caches (`minicpm3.py`)."""
    size = fields.integer("qk_nope_head_dim") + fields.integer("qk_rope_head_dim")
    fields.note("num_kv_heads", heads, "num_attention_heads (the latent is expanded)")
    fields.note("head_size", size, "qk_nope_head_dim + qk_rope_head_dim")
    return Attention(num_heads=heads, num_kv_heads=heads, head_size=size)


def _indexer(fields: Fields) -> Indexer:
    """Return the indexer, and which layers have none of their own."""
    # DeepseekV2MLAAttention, 0.23 and 0.33; the default size is that of GLM's class.
    pattern = fields.raw("index_topk_pattern")
    layers = range(fields.layer_count())
    if pattern is None:
        period = fields.integer("index_topk_freq", 1)
        first = fields.integer("index_skip_topk_offset", 2, minimum=0) - 1
        followers = [layer for layer in layers if max(layer - first, 0) % period]
    elif isinstance(pattern, str | list):
        followers = [layer for layer in layers if pattern[layer : layer + 1] in ("S", ["S"])]
    else:
        raise fields.wrong("index_topk_pattern", pattern, "a text with one letter per layer")
    return Indexer(fields.integer("index_head_dim", 128), frozenset(followers))


def _kv_heads(fields: Fields, heads: int) -> int:
    if _has_one_kv_head(fields):
        fields.note("num_kv_heads", 1, "multi_query")
        return 1
    if fields.raw("multi_query_attention") is False:
        fields.note("num_kv_heads", heads, "num_attention_heads (no multi_query_attention)")
        return heads
    if isinstance(fields.raw("attn_config"), Mapping):
        inner = fields.child("attn_config")
        return inner.integer("kv_n_heads", heads, name="num_kv_heads", maximum=heads)
    for key in KV_HEAD_FIELDS:
        if fields.has(key):
            return fields.integer(key, name="num_kv_heads")
    fields.note("num_kv_heads", heads, "num_attention_heads (no KV-head field)")
    return heads


def _has_one_kv_head(fields: Fields) -> bool:
    """Return whether all query heads share one KV head, as Falcon and GPT-BigCode say it."""
    return fields.raw("multi_query") is True and not fields.raw("new_decoder_architecture")


def _head_size(fields: Fields, heads: int) -> int:
    # Without any part of MLA's heads `DeepseekV2DecoderLayer` takes `DeepseekAttention`.
    has_no_parts = [fields.raw(key) for key in EXPANDED[1:]] == [0, 0]
    kind = fields.model_type
    is_dropped = not fields.prefix and fields.top.get("model_type") in FLAT
    names = ("head_dim", "hidden_size_per_head", *("kv_channels",) * (kind in SIZE_IS_CHANNELS))
    for key in names:
        if fields.has(key) and not (has_no_parts or is_dropped):
            return fields.integer(key, name="head_size")
    hidden = fields.integer("hidden_size")
    if hidden < heads:
        raise fields.contradiction("hidden_size", f"{hidden} elements for {heads} heads")
    fields.note("head_size", hidden // heads, "hidden_size // num_attention_heads")
    return hidden // heads


def _soft_cap(fields: Fields) -> float | None:
    """Return the cap that vLLM 0.23 gives to some models; others ignore the entry."""
    default = SOFT_CAPPED.get(fields.model_type)
    key = "attn_logit_softcapping"
    if default is None or (key in fields.text and fields.raw(key) is None):
        return None
    return fields.number(key, default, name="logits_soft_cap")


def has_window(fields: Fields) -> bool:
    """Return whether the file has a window that is in use; vLLM takes 0 for none."""
    window = window_list(fields) or fields.raw("sliding_window")
    is_off = fields.raw("use_sliding_window") is False and takes_switch(fields.model_type)
    return window not in (None, 0) and not is_off


def window_list(fields: Fields) -> list[int | None] | None:
    """Return the window of every layer, None for one without; None where no list names them.

    A list shorter than the model is repeated. Errors: ConfigError for windows of several sizes.
    """
    # Mistral's and PLaMo-3's files: a list for `sliding_window`, which vLLM renames.
    for key in ("interleaved_sliding_window", "sliding_window"):
        value = fields.raw(key)
        if not isinstance(value, list) or not value:
            continue
        sizes = [size for size in value if size is not None]
        if not all(type(size) is int and size == sizes[0] > 0 for size in sizes):
            raise fields.wrong(key, value, "null, or windows of one size")
        return [value[index % len(value)] for index in range(fields.layer_count())]
    return None


def _window(fields: Fields) -> int | None:
    if windows := window_list(fields):
        size = next((size for size in windows if size is not None), None)
        fields.note("window_tokens", size, "the list of windows")
        return size
    key = "sliding_window" if has_window(fields) else "attention_chunk_size"
    if not fields.has(key):
        return None
    return fields.integer(key, name="window_tokens", maximum=MAX_INTEGER)
