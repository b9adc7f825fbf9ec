"""Families with linear attention: gated delta nets, Kimi's, lightning, short convolutions."""

from dataclasses import replace
from functools import partial

from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.errors import ConfigError
from workbench.core.model import FULL, SSM, Layer
from workbench.core.states import GatedDeltaNet, KimiDeltaAttention, LinearAttention, ShortConv
from workbench.models.family import read_state, register
from workbench.models.fields import Fields
from workbench.models.layer_lists import Words, first_list, listed, to_layers

LISTED: dict[str, Words] = {"layer_types": {"linear_attention": SSM, "full_attention": FULL}}
CONVOLUTIONS: dict[str, Words] = {"layer_types": {"conv": SSM, "full_attention": FULL}}
NUMBERS: Words = {0: SSM, 1: FULL}
LIGHTNING = {"attn_type_list": NUMBERS, "decoder_attention_types": NUMBERS, **LISTED}
LING_3 = ("BailingMoeV3ForCausalLM", "BailingMoeV3VLForConditionalGeneration")
"""With Kimi delta attention instead of lightning attention."""
KIMI_KEY = "linear_attn_config"
KIMI_FLAT_KEYS = ("layer_types", "linear_num_heads")
"""Fields of the configuration class since transformers 5.16, which flattens the nested object."""


def _every(fields: Fields, interval: int = 4) -> list[str]:
    """Return full attention in every fourth layer, or at another interval."""
    return [SSM if (index + 1) % interval else FULL for index in range(fields.layer_count())]


def _olmo_layers(fields: Fields) -> tuple[Layer, ...]:
    """Return every fourth layer as full without a list, and the last one if there is none."""
    kinds = list(first_list(fields, LISTED) or ())
    if not fields.has("layer_types"):
        kinds = _every(fields)
        if FULL not in kinds:
            kinds[-1] = FULL
    if len(set(kinds)) == 1:
        raise fields.contradiction("layer_types", "both kinds of layers are needed")
    return to_layers(kinds)


def _olmo_state(fields: Fields) -> GatedDeltaNet:
    """Compute absent dimensions: heads as in attention, keys 3/4 of a head, values twice."""
    heads = fields.integer("num_attention_heads")
    key_heads = fields.integer("linear_num_key_heads", heads)
    key_dim = int(0.75 * fields.integer("hidden_size") / key_heads)
    value_heads = fields.integer("linear_num_value_heads", heads)
    key_dim = fields.integer("linear_key_head_dim", key_dim)
    return read_state(
        GatedDeltaNet,
        fields,
        num_key_heads=key_heads,
        num_value_heads=value_heads,
        key_head_dim=key_dim,
        value_head_dim=("linear_value_head_dim", 2 * key_dim),
        conv_kernel=("linear_conv_kernel_dim", 4),
    )


def _alice_state(fields: Fields) -> KimiDeltaAttention:
    # _make_kimi_kda_config of alice_ai.py, 0.33
    for part in ("num_{}_heads", "{}_head_dim"):
        key, value = (f"linear_{part.format(kind)}" for kind in ("key", "value"))
        if fields.integer(key) != fields.integer(value):
            raise ConfigError(
                "config_contradiction",
                f"{fields.pointer(value)}: not {key}, which Kimi delta attention needs here.",
                field=fields.pointer(value),
                vllm_text="AliceAI KDA requires matching key/value head counts and dimensions",
            )
    return read_state(
        KimiDeltaAttention,
        fields,
        num_heads="linear_num_key_heads",
        head_dim="linear_key_head_dim",
        conv_kernel="linear_conv_kernel_dim",
    )


def _is_flat(fields: Fields) -> bool:
    """Return whether only Kimi's flat fields are there; vLLM reads the nested object."""
    return not fields.has(KIMI_KEY) and any(fields.has(key) for key in KIMI_FLAT_KEYS)


def _kimi_layers(fields: Fields) -> tuple[Layer, ...]:
    if _is_flat(fields):
        layers = listed(LISTED)(fields)
        fields.remarks.append(
            f"{KIMI_KEY} is absent, and its values are read from the fields that transformers 5.16 "
            f"has instead. vLLM 0.23 and 0.33 read {KIMI_KEY} and stop without it."
        )
        return layers
    count = fields.layer_count()
    linear = fields.child(KIMI_KEY)
    # Kimi's lists count layers from 1; KimiLinearConfig.is_kda_layer asks one of them, and builds
    # what it does not name with attention.
    delta = linear.index_list("kda_layers", first=1)
    if delta is None:
        raise linear.missing("kda_layers", "the kinds of layers")
    full = linear.index_list("full_attn_layers", first=1)
    if full not in {None, frozenset(range(count)) - delta}:
        fields.remarks.append(
            f"full_attn_layers and kda_layers do not name each of the {count} layers once: vLLM "
            "goes by kda_layers alone, and gives every other layer attention."
        )
    return to_layers([SSM if index in delta else FULL for index in range(count)])


def _kimi_state(fields: Fields) -> KimiDeltaAttention:
    place, prefix, conv = fields, "linear_", "linear_conv_kernel_dim"
    if not _is_flat(fields):
        place, prefix, conv = fields.child(KIMI_KEY), "", "short_conv_kernel_size"
    state = read_state(
        KimiDeltaAttention,
        place,
        num_heads=place.integer(f"{prefix}num_heads", name="kda_num_heads"),
        head_dim=place.integer(f"{prefix}head_dim", name="kda_head_dim"),
        conv_kernel=(conv, 4),
    )
    return replace(state, is_bounded=place.has("gate_lower_bound"))


def _lfm2_kinds(fields: Fields) -> list[str]:
    count = fields.layer_count()
    attention = fields.index_list("full_attn_idxs")
    return [FULL if attention is None or index in attention else SSM for index in range(count)]


def _wide_conv(fields: Fields) -> ShortConv:
    """Return a convolution as wide as the model, which LFM2 has with experts and with images."""
    width = fields.integer("hidden_size", name="conv_dim")
    return read_state(ShortConv, fields, conv_dim=width, conv_kernel=("conv_L_cache", 3))


def _lfm2_vl_state(fields: Fields) -> ShortConv:
    """Return LFM2-VL's: its class names the hidden size, the layers of its LFM2 have conv_dim."""
    # Lfm2VLForConditionalGeneration.get_mamba_state_shape_from_config, 0.23 and 0.33
    state, width = _wide_conv(fields), fields.raw("conv_dim")
    is_own = fields.raw("model_type") == "lfm2" and isinstance(width, int) and width > 0
    return replace(state, layer_dim=width) if is_own else state


def _is_ling_3(fields: Fields) -> bool:
    """Return whether vLLM builds Ling 3, which shares its model_type with Ling 2.5."""
    named = fields.top.get("architectures")
    return isinstance(named, list | tuple) and bool({*map(str, named)} & {*LING_3})


def _bailing_kinds(fields: Fields) -> list[str]:
    size, count = fields.integer("layer_group_size", 1, minimum=-1), fields.layer_count()
    # Ling 3: the layers after the last whole group are attention, too (bailing_moe_v3.py, 0.33).
    whole = count // size * size if _is_ling_3(fields) and size > 0 else count
    numbers = range(1, count + 1)
    return [FULL if size <= 0 or n % size == 0 or n > whole else SSM for n in numbers]


def _lightning_state(fields: Fields) -> LinearAttention:
    return LinearAttention(
        fields.integer("num_attention_heads", name="linear_num_heads"),
        fields.integer("head_dim", name="linear_head_dim"),
    )


def _head_or_share(fields: Fields) -> LinearAttention:
    if fields.has("head_dim"):
        return _lightning_state(fields)
    heads = fields.integer("num_attention_heads", name="linear_num_heads")
    size = fields.integer("hidden_size") // heads
    fields.note("linear_head_dim", size, "hidden_size // num_attention_heads")
    return LinearAttention(heads, size)


def _bailing_state(fields: Fields) -> LinearAttention | KimiDeltaAttention:
    if _is_ling_3(fields):
        # The class of a whole file writes MLA's rotary part over head_dim (transformers 5.20).
        size = "head_dim" if fields.prefix else "qk_rope_head_dim"
        return read_state(
            KimiDeltaAttention,
            fields,
            num_heads=fields.integer("num_attention_heads", name="kda_num_heads"),
            head_dim=fields.integer(size, name="kda_head_dim"),
            conv_kernel=("short_conv_kernel_size", 4),
        )
    return replace(
        _head_or_share(fields),
        mla_head_dim=fields.integer("qk_rope_head_dim", 64, name="mla_head"),
        norm_groups=fields.integer("group_norm_size", 1, name="norm_groups"),
    )


MINICPM = (
    *("MiniCPMV4_6ForConditionalGeneration", "MiniCPMV4_7ForConditionalGeneration"),
    "MiniCPMOcrForConditionalGeneration",
)
INTERN = ("InternS2PreviewForConditionalGeneration", "InternS2MobiusForConditionalGeneration")
"""They build Qwen3.5 themselves."""
delta_state = partial(
    read_state,
    GatedDeltaNet,
    num_key_heads="linear_num_key_heads",
    num_value_heads="linear_num_value_heads",
    key_head_dim=("linear_key_head_dim", 128),
    value_head_dim=("linear_value_head_dim", 128),
    conv_kernel=("linear_conv_kernel_dim", 4),
)
"""State of a gated delta net whose fields are those of Qwen3-Next."""


def delta_state_dtype(fields: Fields) -> str | None:
    """Return the dtype that Qwen's configurations state for the recurrent state."""
    return fields.word("mamba_ssm_dtype", tuple(FLOAT_BYTES), name="mamba_ssm_cache_dtype")


_at_interval = listed(
    LISTED, lambda fields: _every(fields, fields.integer("full_attention_interval", 4))
)
register("qwen3_next", {"qwen3_next": ("Qwen3NextForCausalLM",)}, _at_interval, delta_state)
register(
    "qwen3_5",
    {
        "qwen3_5": ("Qwen3_5ForConditionalGeneration",),
        "qwen3_5_moe": ("Qwen3_5MoeForConditionalGeneration",),
        "qwen3_5_text": ("Qwen3_5ForCausalLM", *MINICPM),
        "qwen3_5_moe_text": ("Qwen3_5MoeForCausalLM", *INTERN),
    },
    _at_interval,
    delta_state,
    ssm_cache_dtype=delta_state_dtype,
)
register("olmo_hybrid", {"olmo_hybrid": ("OlmoHybridForCausalLM",)}, _olmo_layers, _olmo_state)
register(
    "kimi_linear",
    {"kimi_linear": ("KimiLinearForCausalLM", "KimiK3ForConditionalGeneration")},
    _kimi_layers,
    _kimi_state,
    names_attention_layers=False,
)
register("alice_ai", {"alice_ai": ("AliceAIForCausalLM",)}, listed(LISTED), _alice_state)
register(
    "lfm2",
    {"lfm2": ("Lfm2ForCausalLM",)},
    listed(CONVOLUTIONS, _lfm2_kinds),
    partial(read_state, ShortConv, conv_dim="conv_dim", conv_kernel=("conv_L_cache", 3)),
)
register("lfm2_moe", {"lfm2_moe": ("Lfm2MoeForCausalLM",)}, listed(CONVOLUTIONS), _wide_conv)
register(
    "lfm2_vl",
    dict.fromkeys(("lfm2_vl", "lfm2-vl"), ("Lfm2VlForConditionalGeneration",)),
    listed(CONVOLUTIONS, _lfm2_kinds),
    _lfm2_vl_state,
)
register(
    "minimax_text_01",
    {"minimax_text_01": ("MiniMaxText01ForCausalLM",), "minimax_m1": ("MiniMaxM1ForCausalLM",)},
    listed(LIGHTNING, lambda fields: [FULL] * fields.layer_count()),
    _lightning_state,
    slides=True,  # CacheConfig.sliding_window is that of every layer
)
register(
    "minimax",
    {"minimax": ("MiniMaxForCausalLM",)},
    # The default of transformers for an absent list: even layers full, odd ones linear.
    listed(
        LIGHTNING,
        lambda fields: [SSM if index % 2 else FULL for index in range(fields.layer_count())],
    ),
    _head_or_share,
)
register(
    "bailing_hybrid",
    {"bailing_hybrid": ("BailingMoeV2_5ForCausalLM", *LING_3)},
    lambda fields: to_layers(_bailing_kinds(fields)),
    _bailing_state,
    names_attention_layers=False,
)
