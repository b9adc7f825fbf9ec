"""Gemma 3n and Gemma 4: the last layers read the cache of earlier ones; two sizes of heads.

Sources: `Gemma3nAttention`, `Gemma4DecoderLayer` and `Gemma4Attention` of 0.23 and 0.33, and
`Gemma4TextConfig` of transformers 5.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from workbench.core.errors import ConfigError, shown
from workbench.core.model import FULL, SLIDING, Attention, Layer
from workbench.models.attention import read_attention
from workbench.models.families.decoder import WORDS
from workbench.models.family import register
from workbench.models.fields import Fields
from workbench.models.layer_lists import first_list

SHARED, PER_LAYER = "num_kv_shared_layers", "per_layer_config"
GLOBAL_HEAD, GLOBAL_KV_HEADS = "global_head_dim", "num_global_key_value_heads"
CANVAS_TOKENS = 256
SOFT_TOKENS = "num_soft_tokens"
VIDEO_TOKENS = 32 * (70 + 2 + 6)
"""Of a video of Gemma 4: frames, each with its tokens, two marks and a time stamp."""


def _kinds(fields: Fields, period: int) -> list[str]:
    kinds = first_list(fields, {"layer_types": WORDS})
    if kinds is not None:
        return list(kinds)
    return [FULL if (at + 1) % period == 0 else SLIDING for at in range(fields.layer_count())]


def _own(fields: Fields, kinds: list[str]) -> list[str]:
    """Return the kinds of the layers with a cache: all but the last, which share one."""
    count = fields.integer(SHARED, 0, minimum=0, maximum=len(kinds))
    own = kinds[: len(kinds) - count]
    if not set(kinds) <= set(own):
        raise fields.contradiction(
            SHARED, f"{count} shared layers, and none of their kind before them"
        )
    return own


def _gemma3n_layers(fields: Fields) -> tuple[Layer, ...]:
    return tuple(
        Layer(number=at, kind=kind) for at, kind in enumerate(_own(fields, _kinds(fields, 5)))
    )


def _gemma3n_attention(fields: Fields) -> Attention:
    return replace(read_attention(fields), shares_caches=bool(fields.raw(SHARED)))


def _gemma4_layers(fields: Fields) -> tuple[Layer, ...]:
    kinds = _kinds(fields, 6)
    kinds[-1] = FULL  # the configuration class forces it
    whole = _global_heads(fields, plain := read_attention(fields))
    heads = None if plain.num_kv_heads == whole.num_kv_heads else whole.num_kv_heads
    size = None if plain.head_size == whole.head_size else plain.head_size
    of_kind = {
        FULL: partial(Layer, kind=FULL, num_kv_heads=heads),
        SLIDING: partial(Layer, kind=SLIDING, head_size=size),
    }
    return tuple(of_kind[kind](number=at) for at, kind in enumerate(_own(fields, kinds)))


def _global_heads(fields: Fields, attention: Attention) -> Attention:
    """Return the geometry of full attention; its own KV heads are read where keys are values."""
    kv_heads = attention.num_kv_heads
    if fields.has(PER_LAYER):
        # Later transformers save what a full layer has of its own; it is the same for all.
        layers = fields.child(PER_LAYER)
        own = layers.child(next(iter(layers.text), ""))
        return replace(
            attention,
            num_kv_heads=own.integer("num_key_value_heads", kv_heads, name="num_kv_heads"),
            head_size=own.integer("head_dim", attention.head_size, name="head_size"),
        )
    if fields.raw("attention_k_eq_v") is True and fields.has(GLOBAL_KV_HEADS):
        kv_heads = fields.integer(GLOBAL_KV_HEADS, name="num_kv_heads")
    size = fields.integer(GLOBAL_HEAD, 512, name="head_size")
    return replace(attention, num_kv_heads=kv_heads, head_size=size)


def _gemma4_attention(fields: Fields) -> Attention:
    whole = _global_heads(fields, sliding := read_attention(fields))
    bidirectional, window = fields.raw("use_bidirectional_attention"), sliding.window_tokens
    return replace(
        whole,
        # ModelConfig.get_num_kv_heads gives num_key_value_heads, get_head_size the larger head.
        num_kv_heads=sliding.num_kv_heads,
        has_mixed_head_sizes=sliding.head_size != whole.head_size,
        has_mm_prefix=bidirectional == "vision",
        canvas_tokens=_canvas(fields),
        shares_caches=bool(fields.raw(SHARED)),
        window_tokens=window // 2 + 1 if window and bidirectional == "all" else window,
    )


def _canvas(fields: Fields) -> int | None:
    # DiffusionGemmaModelForBlockDiffusionConfig, 0.33
    if fields.top.get("model_type") != "diffusion_gemma":
        return None
    size = fields.top.get("canvas_length", CANVAS_TOKENS)
    if type(size) is not int or size < 1:
        raise ConfigError(
            "config_wrong_value",
            f"Invalid /canvas_length {shown(size)}. Expected a number of tokens, at least 1.",
            field="/canvas_length",
        )
    fields.note("canvas_tokens", size, "canvas_length")
    return size


def _video(fields: Fields) -> int | None:
    """Return the tokens of the largest item where images and videos are seen whole."""
    if not fields.prefix or fields.raw("use_bidirectional_attention") != "vision":
        return None
    # get_mm_max_tokens_per_item of gemma4_unified.py reads a field that its class has not, and
    # vLLM leaves the budget as it is where that fails.
    vision = fields.top.get("vision_config")
    names_tokens = isinstance(vision, Mapping) and SOFT_TOKENS in vision
    unified = fields.top.get("model_type") == "gemma4_unified"
    return None if unified and not names_tokens else VIDEO_TOKENS


register(
    "gemma3n",
    {
        "gemma3n": ("Gemma3nForConditionalGeneration",),
        "gemma3n_text": ("Gemma3nForCausalLM",),
    },
    _gemma3n_layers,
    attention=_gemma3n_attention,
    is_hybrid=False,
)
register(
    "gemma4",
    {
        "gemma4": ("Gemma4ForConditionalGeneration",),
        "gemma4_text": ("Gemma4ForCausalLM",),
        "gemma4_unified": ("Gemma4UnifiedForConditionalGeneration",),
        "diffusion_gemma": ("DiffusionGemmaForBlockDiffusion",),
    },
    _gemma4_layers,
    attention=_gemma4_attention,
    largest_item_tokens=_video,
    is_hybrid=False,
)
