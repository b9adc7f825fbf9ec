"""Weights of decoders that few serve, or that differ from others in one place.

Source: the module of each class in `model_executor/models`, 0.23 and 0.33.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from workbench.core.weights import EARLIER, LATER, Part
from workbench.models.weights.decoders import LLAMA, QWEN, Decoder, Moe
from workbench.models.weights.kinds import by_release
from workbench.models.weights.listed_experts import ROUTER_DTYPES, is_enumerated
from workbench.models.weights.older import Classic
from workbench.models.weights.parts import (
    Block,
    Config,
    attention,
    cache_scales,
    column,
    experts,
    latent,
    mlp,
    norms,
    row,
    vocabulary,
    whole,
)
from workbench.models.weights.stored import PLAIN, Unknown

MORE_WORDS = "additional_vocab_size"
FLOAT, SHARED_SIZE = "float32", "moe_shared_expert_intermediate_size"
NORMS = ("?use_qk_norm", "head")
"""Of queries and keys in Hunyuan, in the oldest and the newest release."""


def _step3(config: Config, number: int) -> list[Part]:
    """Return a layer of Step 3, whose queries come from a small vector, and one head of keys."""
    found, hidden, name = config.attention, config.hidden, "self_attn"
    small, size = config.size("share_q_dim", default=hidden), found.head_size
    parts = [
        whole(f"{name}.qkv_proj", small + 2 * size, inputs=hidden, is_linear=True),
        whole(f"{name}.inter_norm", small),
        column(f"{name}.wq", (found.num_heads, size), inputs=small),
        row(f"{name}.o_proj", found.num_heads * size, hidden),
        cache_scales(name),  # its class reads none from a checkpoint
        *norms(config, 2),
    ]
    if not is_enumerated(config, number):
        return [*parts, *mlp(config, "mlp", config.size("intermediate_size"))]
    count, inner = config.size("moe_num_experts"), config.size("moe_intermediate_size")
    return [
        *parts,
        whole("moe.gate", count, inputs=hidden),
        *mlp(config, "share_expert", config.size("share_expert_dim")),
        *experts(config, "moe.experts", count, inner),
    ]


def _of_layer(config: Config, key: str, number: int) -> int:
    """Return a size that may be one for all layers, or a list."""
    found = config.raw(key)
    return int(found[number] if isinstance(found, list) else found)


@dataclass(frozen=True)
class HunyuanMoe(Moe):
    """Experts in all layers, with a shared one as wide as the layers would be without."""

    def has(self, config: Config, _number: int) -> bool:
        """Return whether a layer has experts."""
        count = config.raw("num_experts", 0)
        return bool((max(count) if isinstance(count, list) else count) > 1)

    def parts(self, config: Config, number: int) -> list[Part]:
        """Return router, routed and shared experts."""
        wide, count = config.size("intermediate_size"), config.size("num_experts")
        given = config.raw("moe_intermediate_size") is not None
        inner = _of_layer(config, "moe_intermediate_size", number) if given else wide
        shared = config.flag("use_mixed_mlp_moe") and _of_layer(config, "num_shared_expert", number)
        return [
            whole("mlp.gate", count, inputs=config.hidden, kind=EARLIER),
            whole("mlp.gate.wg", count, inputs=config.hidden, kind=LATER, is_linear=True),
            *(mlp(config, "mlp.shared_mlp", wide * shared) if shared else ()),
            *experts(config, "mlp.experts", count, inner),
        ]


HUNYUAN = HunyuanMoe()


def _hunyuan_moe(config: Config, number: int) -> list[Part]:
    if config.flag("use_cla") and config.size("cla_share_factor", default=1) > 1:
        raise Unknown("layers of Hunyuan that share keys are not described")
    # the class of the library always has norms
    normed = (Decoder(out_bias="attention_bias", norm=one, moe=HUNYUAN) for one in NORMS)
    return by_release(*(one.layer(config, number) for one in normed))


def _mellum(config: Config, number: int) -> list[Part]:
    """Return a layer of Mellum, whose routers the library never quantizes."""
    moes = (replace(QWEN, router_is_linear=one) for one in (True, False))
    return by_release(*(Decoder(norm="head", moe=one).layer(config, number) for one in moes))


def _telechat(config: Config, number: int) -> list[Part]:
    """Return a layer of TeleChat2: the last layer of each half alone has a bias."""
    parts = Decoder(bias=False, out_bias=True).layer(config, number)
    last = "mlp.down_proj"
    return [one._replace(bias=True) if one.name == last else one for one in parts]


def _param2(config: Config, number: int) -> list[Part]:
    """Return a layer of Param 2, whose routers have 32 bits from 0.33 on."""
    shared = config.size("num_shared_experts", default=1) * config.size("moe_intermediate_size")
    shared = shared and config.size(SHARED_SIZE, default=shared)
    return [
        *Decoder(norm="?use_qk_norm").attention(config),
        *norms(config, 2),
        *_feed(config, number, shared, (None, FLOAT)),
    ]


def _sarvam_latent(config: Config, number: int) -> list[Part]:
    """Return a layer of Sarvam's with latents, whose routers have a dtype of their own in 0.23."""
    stated = config.fields.text.get("router_dtype", "fp32")
    dtypes = (ROUTER_DTYPES.get(stated, "bfloat16"), None)
    each = config.size(SHARED_SIZE, "moe_intermediate_size")
    shared = each * config.size("num_shared_experts", default=1)
    return [*latent(config, number), *norms(config, 2), *_feed(config, number, shared, dtypes)]


def _feed(config: Config, number: int, shared: int, dtypes: tuple[str | None, ...]) -> list[Part]:
    """Return an MLP or experts.

    shared: elements of those that every token takes. dtypes: of routers, in the oldest and the
    newest release.
    """
    if number < config.size("first_k_dense_replace", default=0):
        return mlp(config, "mlp", config.size("intermediate_size"))
    count, inner = config.size("num_experts"), config.size("moe_intermediate_size")
    gates = ([whole("mlp.gate", count, inputs=config.hidden, dtype=one)] for one in dtypes)
    corrects = config.flag("moe_router_enable_expert_bias", default=True)
    return [
        *by_release(*gates),
        *[whole("mlp.gate.correction", count, dtype=FLOAT)] * corrects,
        *(mlp(config, "mlp.shared_experts", shared) if shared else ()),
        *experts(config, "mlp.experts", count, inner),
    ]


def _plamo3(config: Config, number: int) -> list[Part]:
    """Return a layer of PLaMo 3, whose class reads no scales of the cache from a checkpoint."""
    parts = Decoder(bias=False, norm="head", norms=4).layer(config, number)
    return [one._replace(name=one.name.removesuffix(PLAIN)) for one in parts]


def _looped(config: Config, number: int) -> list[Part]:
    """Return a layer of IQuest's LoopCoder, which is run several times, each with a cache."""
    heads, size = config.attention.num_heads, config.attention.head_size
    if number >= config.size("num_hidden_layers"):  # again, with a cache of its own
        return [cache_scales("self_attn.attn")]
    gate = column("gate_projections", heads, inputs=size, bias=True)
    return [*LLAMA.layer(config, number), gate]


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


def molmo_rest(config: Config) -> list[Part]:
    """Return the words that Molmo adds to its embedding."""
    return [vocabulary("new_embedding", config.size(MORE_WORDS, default=128), config.hidden)]


def mpt_end(config: Config) -> list[Part]:
    """Return the bias of MPT's last norm."""
    return [whole("norm_bias", config.hidden)] * (not config.flag("no_bias", default=True))


RARER: Mapping[str, Block] = {
    "step3_text": _step3,
    "hunyuan_v1_moe": _hunyuan_moe,
    "mellum": _mellum,
    "telechat": _telechat,
    "plamo3": _plamo3,
    "param2moe": _param2,
    "sarvam_mla": _sarvam_latent,
    "iquestloopcoder": _looped,
    "persimmon": _persimmon,
    "mpt": _mpt,
    "molmo": _molmo,
}
"""model_type -> its layers."""
