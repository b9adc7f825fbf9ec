"""Weights of decoders that few serve, or that differ from others in one place.

Source: the module of each class in `model_executor/models`, 0.23 and 0.33.
"""

from collections.abc import Mapping
from dataclasses import replace

from workbench.core.weights import Part
from workbench.models.weights.decoders import LLAMA, QWEN, Decoder
from workbench.models.weights.kinds import by_release, unscaled
from workbench.models.weights.older import Classic
from workbench.models.weights.parts import (
    Block,
    Config,
    attention,
    cache_scales,
    column,
    mlp,
    norms,
    vocabulary,
    whole,
)

MORE_WORDS = "additional_vocab_size"


def _mellum(config: Config, number: int) -> list[Part]:
    """Return a layer of Mellum, whose routers the library never quantizes."""
    moes = (replace(QWEN, router_is_linear=one) for one in (True, False))
    return by_release(*(Decoder(norm="head", moe=one).layer(config, number) for one in moes))


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
    "mellum": _mellum,
    "telechat": _telechat,
    "plamo3": _plamo3,
    "iquestloopcoder": _looped,
    "persimmon": _persimmon,
    "mpt": _mpt,
    "molmo": _molmo,
}
"""model_type -> its layers."""
