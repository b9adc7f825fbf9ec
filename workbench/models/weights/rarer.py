"""Weights of decoders that few serve, or that differ from others in one place.

Source: the module of each class in `model_executor/models`, 0.23 and 0.33.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from workbench.core.arithmetic import round_up
from workbench.core.weights import LATER, Part
from workbench.models.weights.decoders import DEEPSEEK, OF_LLAMA, QWEN, Decoder, Moe
from workbench.models.weights.kinds import unscaled
from workbench.models.weights.listed_experts import ListedMoe
from workbench.models.weights.older import Classic
from workbench.models.weights.parts import (
    Block,
    Config,
    attention,
    cache_scales,
    column,
    cut,
    experts,
    mlp,
    norms,
    row,
    vocabulary,
    whole,
)
from workbench.models.weights.stored import Unknown

LENGTHENED_TIMES = 4
MORE_WORDS = "additional_vocab_size"
GATES = 8  # to which Inkling rounds up the outputs of a router


def _telechat(config: Config, number: int) -> list[Part]:
    """Return a layer of TeleChat2: the last layer of each half alone has a bias."""
    parts = Decoder(bias=False, out_bias=True).layer(config, number)
    last = "mlp.down_proj"
    return [one._replace(bias=True) if one.name == last else one for one in parts]


def _plamo3(config: Config, number: int) -> list[Part]:
    """Return a layer of PLaMo 3, whose class reads no scales of the cache from a checkpoint."""
    return unscaled(Decoder(bias=False, norm="head", norms=4).layer(config, number))


def _looped(config: Config, number: int) -> list[Part]:
    """Return a layer of IQuest's LoopCoder, which is run several times, each with a cache."""
    heads, size = config.attention.num_heads, config.attention.head_size
    if number >= config.size("num_hidden_layers"):  # again, with a cache of its own
        return [cache_scales("self_attn.attn")]
    gate = column("gate_projections", heads, inputs=size, bias=True)
    return [*Decoder(bias=False).layer(config, number), gate]


def _persimmon(config: Config, number: int) -> list[Part]:
    """Return a layer of Persimmon, whose norms of queries and keys have biases."""
    normed = 2 * config.flag("qk_layernorm", default=True)
    norm = whole("self_attn.norm", config.attention.head_size, bias=True)
    return [*Classic().layer(config, number), *normed * [norm]]


def _mpt(config: Config, _number: int) -> list[Part]:
    """Return a layer of MPT."""
    bias, settings = not config.flag("no_bias", default=True), config.mapping("attn_config")
    inner = config.size("expansion_ratio", default=4) * config.hidden
    return [
        *attention(config, "attn", bias=bias, out_bias=bias, out="out_proj"),
        *mlp(config, "ffn", inner, gated=False, bias=bias),
        *norms(config, 2 + 2 * bool(settings.get("qk_ln")), bias=bias),
    ]


def _molmo(config: Config, _number: int) -> list[Part]:
    """Return a layer of Molmo, whose size of the MLP counts the gate as well."""
    normed = "whole" if config.flag("attention_layer_norm") else ""
    return [
        *attention(config, bias="qkv_bias", norm=normed),
        *mlp(config, "mlp", config.size("intermediate_size") // 2),
        *norms(config, 2),
    ]


def _molmo2(config: Config, number: int) -> list[Part]:
    """Return a layer of Molmo 2."""
    if config.flag("use_qk_norm") and not config.flag("qk_norm_type=qwen3"):
        raise Unknown("such norms of queries in Molmo 2 are not described")
    return Decoder(bias="qkv_bias", norm="?use_qk_norm").layer(config, number)


def _ernie(config: Config, number: int) -> list[Part]:
    """Return a layer of Ernie 4.5 VL, with experts for words and for images."""
    spans = (config.raw(f"moe_layer_{one}_index") for one in ("start", "end"))
    found = [first <= number <= last for first, last in zip(*spans, strict=True)]
    period = config.size("moe_layer_interval", default=1)
    found = [one and (number + 1) % period == 0 for one in found]
    parts = [*attention(config, bias="use_bias"), *norms(config, 2)]
    # its table of positions is not shared
    length, half = config.size("max_position_embeddings"), config.attention.head_size
    parts.append(whole("cos_sin_cache", LENGTHENED_TIMES * length, inputs=half))
    inner, bias = config.size("intermediate_size"), config.flag("use_bias")
    if not any(found):
        return [*parts, *mlp(config, "mlp", inner, bias=bias)]
    counts, sizes = config.raw("moe_num_experts"), config.raw("moe_intermediate_size")
    shared = sizes[0] * config.size("moe_num_shared_experts", default=0)
    routed = [
        part
        for name, is_used, count, size in zip(("text", "vision"), found, counts, sizes, strict=True)
        for part in (
            *is_used * [_router(config, f"mlp.{name}_experts_gate", count, dtype="float32")],
            *(experts(config, f"mlp.{name}_experts", count, size) if is_used else ()),
            *(mlp(config, "mlp", inner, bias=bias) if not is_used else ()),
        )
    ]
    return [
        *parts,
        whole("mlp.correction", 2 * counts[0], dtype="float32"),
        *(mlp(config, "mlp.shared_experts", shared) if shared else ()),
        *routed,
    ]


def _router(config: Config, name: str, count: int, **more: Any) -> Part:
    """Return a router that is quantized as other layers are."""
    return whole(name, count, inputs=config.hidden, is_linear=True, **more)


def _molmo_rest(config: Config) -> list[Part]:
    """Return the words that Molmo adds to its embedding."""
    return [vocabulary("new_embedding", config.size(MORE_WORDS, default=128), config.hidden)]


def _ouro(config: Config, number: int) -> list[Part]:
    """Return a layer of Ouro, which is run several times, each with a cache."""
    if number >= config.size("num_hidden_layers"):
        return [cache_scales("self_attn.attn")]
    return Decoder(bias=False, norms=4).layer(config, number)


def _arctic(config: Config, number: int) -> list[Part]:
    """Return a layer of Arctic: an MLP, or experts next to a small one."""
    inner, hidden = config.size("intermediate_size"), config.hidden
    parts = [*attention(config), *norms(config, 2)]
    if (number + 1) % config.size("moe_layer_frequency", default=2):
        return [*parts, *mlp(config, "block_sparse_moe.mlp", inner)]
    count, is_beside = config.size("num_local_experts"), config.flag("use_residual")
    dense = (one._replace(is_linear=False) for one in mlp(config, "residual_mlp", hidden))
    more = [*norms(config, 1), *dense] * is_beside
    both = experts(config, "block_sparse_moe", count, inner, runs_padded=False, is_linear=False)
    return [*parts, _router(config, "block_sparse_moe.gate", count), *both, *more]


def _pangu_ultra(config: Config, number: int) -> list[Part]:
    """Return a layer of Pangu Ultra MoE, whose halves may have a norm before and after."""
    moe = replace(DEEPSEEK, correction="router_enable_expert_bias", repeated="")
    layer = Decoder(norms=2 + 2 * config.flag("sandwich_norm"), mlp_bias="mlp_bias", moe=moe)
    return layer.layer(config, number)


def _pangu_pro(config: Config, number: int) -> list[Part]:
    """Return a layer of Pangu Pro MoE, with keys and values of its own before all others."""
    found, moe = config.attention, Moe(every="", shared=("n_shared_experts",))
    sinks = config.size("param_sink_number", default=0) * found.head_size
    key = cut("self_attn.param_sink_key", found.num_kv_heads, inputs=sinks)
    qkv, out, scales, *rest = replace(OF_LLAMA, moe=moe).layer(config, number)
    later = (one._replace(kind=LATER) for one in (scales, key))  # 0.23 keeps no more values
    return [qkv, out, key, *later, *rest, whole("self_attn.k_layernorm", found.head_size)]


def _beam(config: Config, number: int) -> list[Part]:
    """Return a layer of Beam, whose heads have a gate each."""
    moe = ListedMoe(correction=True, router_dtype="float32")
    gate = cut("self_attn.gate_bias", config.attention.num_heads)
    return [*Decoder(bias=False, norm="head", gate=2, norms=4, moe=moe).layer(config, number), gate]


def _domyn(config: Config, number: int) -> list[Part]:
    """Return a layer of Domyn, which has a norm of keys alone."""
    key_norm = whole("attention.k_norm", config.attention.head_size)
    return [*Decoder(bias=False, norms=4).layer(config, number), key_norm]


def _kolibri(config: Config, number: int) -> list[Part]:
    """Return a layer of Kolibri, whose shared expert has no gate."""
    moe = replace(QWEN, correction=True)
    parts = Decoder(bias=False, norm="head", norms=4, moe=moe).layer(config, number)
    return [one for one in parts if not one.name.endswith("shared_expert_gate")]


def _k2(config: Config, number: int) -> list[Part]:
    """Return a layer of K2 Horizon, whose values are chosen among several."""
    found, hidden = config.attention, config.hidden
    queries, keys = (found.num_heads, found.head_size), (found.num_kv_heads, found.head_size)
    count = config.size("mova_num_experts")
    moe = Moe(first="", shared=("n_shared_experts",), router_is_linear=True)
    return [
        column("self_attn.qk_proj", queries, keys, inputs=hidden),
        _router(config, "self_attn.v_router", count),
        *count * [column("self_attn.v_experts.0", keys, inputs=hidden)],
        *attention(config)[1:],
        *(cut("self_attn.norm", one) for one in (queries, keys)),
        *moe.parts(config, number),
        *norms(config, 2),
    ]


def _inkling(config: Config, number: int) -> list[Part]:
    """Return a layer of Inkling: relative positions, short convolutions, experts that all take."""
    hidden, taps, name = config.hidden, config.size("sconv_kernel_size"), "attn"
    is_local = number in config.raw("local_layer_ids", ())
    queries, kv, size = (
        config.size(f"{'swa_' * is_local}{key}")
        for key in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    far = config.size("sliding_window_size" if is_local else "rel_extent")
    near = config.size("d_rel")
    heads = ((queries, size), (kv, size), (kv, size), (queries, near))
    return [
        column(f"{name}.qkvr", *heads, inputs=hidden),
        row(f"{name}.wo_ud", queries * size, hidden),
        whole(f"{name}.rel_logits_proj", near, inputs=far),
        *2 * [whole(f"{name}.norm", size)],
        *2 * [cut(f"{name}.kv_sconv", (kv, size), inputs=taps)],
        *2 * [cut("sconv", hidden, inputs=taps)],
        whole(f"{name}.scales", 2, dtype="float32"),
        *norms(config, 2),
        *_inkling_feed(config, number),
    ]


def _inkling_feed(config: Config, number: int) -> list[Part]:
    scale = whole("mlp.global_scale", 1)
    if number < config.size("dense_mlp_idx"):
        return [*mlp(config, "mlp", config.size("dense_intermediate_size")), scale]
    count, shared = config.size("n_routed_experts"), config.size("n_shared_experts", default=0)
    inner, gates = config.size("intermediate_size"), round_up(count + shared, GATES)
    return [
        whole("mlp.gate", gates, inputs=config.hidden),
        *(whole("mlp.gate.number", one, dtype="float32") for one in (1, count)),
        cut("mlp.sink_experts", *2 * [shared * inner], inputs=config.hidden),
        row("mlp.sink_experts", shared * inner, config.hidden, is_linear=False),
        *experts(config, "mlp.experts", count, inner),
    ]


def _hrm_rest(config: Config) -> list[Part]:
    """Return the two stacks of HRM, whose layers are run several times and have no norms."""
    stacks, hidden = 2 * config.size("num_layers_per_stack"), config.hidden
    qkv, out, _ = attention(config, gate=2)
    feed = mlp(config, "mlp", config.size("intermediate_size"))
    return [whole("z_L_init", hidden), *stacks * [qkv, out, *feed]]


def mpt_end(config: Config) -> list[Part]:
    """Return the bias of MPT's last norm."""
    return [whole("norm_bias", config.hidden)] * (not config.flag("no_bias", default=True))


RARER_REST: Mapping[str, Callable[[Config], list[Part]]] = {
    **dict.fromkeys(("molmo", "molmo2_text"), _molmo_rest),
    "ouro": lambda config: [row("early_exit_gate", config.hidden, 1, bias=True, is_linear=False)],
    "hrm_text": _hrm_rest,
    "inkling_model": lambda config: norms(config, 1),
}
"""model_type -> what it has next to layers and vocabularies."""
RARER: Mapping[str, Block] = {
    "inkling_model": _inkling,
    "molmo2_text": _molmo2,
    "ernie4_5_moe_vl": _ernie,
    "ouro": _ouro,
    "arctic": _arctic,
    "pangu_ultra_moe": _pangu_ultra,
    "PanguProMoE": _pangu_pro,
    "beam": _beam,
    "domyn_edge": _domyn,
    "kolibri1": _kolibri,
    "k2_horizon": _k2,
    "hrm_text": lambda _config, _number: [cache_scales("self_attn.attn_per_step")],
    "telechat": _telechat,
    "plamo3": _plamo3,
    "iquestloopcoder": _looped,
    "persimmon": _persimmon,
    "mpt": _mpt,
    "molmo": _molmo,
}
"""model_type -> its layers."""
