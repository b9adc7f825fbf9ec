"""Gemma 3n and Gemma 4: the last layers read the cache of earlier ones; two sizes of heads.

Sources: `Gemma3nAttention`, `Gemma4DecoderLayer` and `Gemma4Attention` of 0.23 and 0.33, and
`Gemma4TextConfig` of transformers 5.
"""

from collections.abc import Mapping
from dataclasses import replace

from workbench.core.errors import ConfigError, shown
from workbench.core.media import AUDIO, IMAGE, VIDEO
from workbench.core.model import FULL, SLIDING, Attention, Layer
from workbench.models.attention import read_attention
from workbench.models.families.decoder import WORDS
from workbench.models.family import register
from workbench.models.fields import Fields
from workbench.models.layer_lists import first_list

SHARED, PER_LAYER = "num_kv_shared_layers", "per_layer_config"
GLOBAL_HEAD, GLOBAL_KV_HEADS = "global_head_dim", "num_global_key_value_heads"
OF_LAYER = ("num_key_value_heads", "head_dim")
NO_LAYER = "`per_layer_config` keys must be integer layer indices"
NOT_GLOBAL = "The following attributes are missing:"
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


def _own_of_3n(fields: Fields) -> tuple[Layer, ...]:
    """Return the layers with a cache: also those whose earlier layer would be before the first."""
    # Gemma3nAttention.__init__: a layer reads the last of its kind before those that share.
    kinds = _kinds(fields, 5)
    first = len(kinds) - fields.integer(SHARED, 0, minimum=0)
    return tuple(
        Layer(number=at, kind=kind)
        for at, kind in enumerate(kinds)
        if at < first or first < (2 if kind == SLIDING else 1)
    )


def _gemma3n_attention(fields: Fields) -> Attention:
    shares = len(_own_of_3n(fields)) < fields.layer_count()
    return replace(read_attention(fields), shares_caches=shares)


def gemma4_kinds(fields: Fields) -> list[str]:
    """Return the kind of every layer, also of those that read the cache of another one."""
    kinds = _kinds(fields, 6)
    kinds[-1] = FULL  # the configuration class forces it
    return kinds


def _gemma4_layers(fields: Fields) -> tuple[Layer, ...]:
    heads, plain = _gemma4_heads(fields), _gemma4_attention(fields)
    return tuple(
        Layer(
            number=at,
            kind=kind,
            num_kv_heads=None if heads[at][0] == plain.num_kv_heads else heads[at][0],
            head_size=None if heads[at][1] == plain.head_size else heads[at][1],
        )
        for at, kind in enumerate(_own(fields, gemma4_kinds(fields)))
    )


def _gemma4_heads(fields: Fields) -> list[tuple[int, int]]:
    """Return the KV heads of every layer, and the elements of a head."""
    plain, kinds = read_attention(fields), gemma4_kinds(fields)
    usual = plain.num_kv_heads, plain.head_size
    if fields.raw(PER_LAYER) is not None:
        own = _listed_heads(fields, usual)
        return [own.get(at, usual) for at in range(len(kinds))]
    kv_heads = plain.num_kv_heads
    if fields.raw("attention_k_eq_v") is True and fields.has(GLOBAL_KV_HEADS):
        kv_heads = fields.integer(GLOBAL_KV_HEADS, name="num_kv_heads")
    whole = kv_heads, fields.integer(GLOBAL_HEAD, 512, name="head_size")
    return [whole if kind == FULL else usual for kind in kinds]


def _listed_heads(fields: Fields, usual: tuple[int, int]) -> dict[int, tuple[int, int]]:
    """Return what later transformers save of single layers. Errors: ConfigError."""
    # _apply_heterogeneous_config of transformers 5.20: no layer that the model has not, and vLLM
    # 0.33 reads heads alone for every layer.
    place, count = fields.child(PER_LAYER), fields.layer_count()
    found = {}
    for name in place.text:
        if not (is_number := name.isdecimal()) or int(name) >= count:
            text = NO_LAYER if is_number else "invalid literal for int() with base 10"
            raise _not_of_layer(place, name, f"expected numbers from 0 to {count - 1}", text)
        layer = place.child(name)
        for key, value in layer.text.items():
            if key not in {*OF_LAYER, "skip"} and (not fields.has(key) or fields.raw(key) != value):
                text = f"'{key}' is a per-layer attribute" if fields.has(key) else NOT_GLOBAL
                raise _not_of_layer(place, f"{name}/{key}", "vLLM has one value for all", text)
        heads, size = (
            layer.integer(key, value) for key, value in zip(OF_LAYER, usual, strict=True)
        )
        found[int(name)] = heads, size
    return found


def _not_of_layer(place: Fields, key: str, why: str, text: str) -> ConfigError:
    where = place.pointer(key)
    return ConfigError(
        "config_wrong_value", f"Invalid {where}: {why}.", field=where, vllm_text=text
    )


def _taken(fields: Fields) -> frozenset[str]:
    """Return what the model takes besides text (`get_supported_mm_limits` of gemma4_mm.py)."""
    has_sound = fields.top.get("audio_config") is not None
    return frozenset({IMAGE, VIDEO, AUDIO} if has_sound else {IMAGE, VIDEO})


def _gemma4_attention(fields: Fields) -> Attention:
    sliding, heads = read_attention(fields), _gemma4_heads(fields)
    sizes = {size for _heads, size in heads}
    bidirectional, window = fields.raw("use_bidirectional_attention"), sliding.window_tokens
    return replace(
        sliding,
        # ModelConfig.get_head_size gives the largest head.
        head_size=max(sizes),
        has_mixed_head_sizes=len(sizes) > 1,
        seen_whole=_taken(fields) if bidirectional == "vision" else frozenset(),
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
    {"gemma3n": ("Gemma3nForConditionalGeneration",), "gemma3n_text": ("Gemma3nForCausalLM",)},
    _own_of_3n,
    attention=_gemma3n_attention,
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
)
