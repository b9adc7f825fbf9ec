"""Weights of Gemma 4: heads of two sizes, shared caches, and inputs of every layer."""

from workbench.core.model import Attention
from workbench.core.weights import EARLIER, LATER, Part
from workbench.models.weights.parts import (
    Config,
    attention,
    column,
    experts,
    mlp,
    norms,
    vocabulary,
    whole,
)


def _gemma4_heads(config: Config, number: int) -> Attention:
    """Return the heads of one layer, also where it reads the cache of an earlier one."""
    kinds = config.raw("layer_types", ())
    known = (layer for layer in config.model.layers if layer.number == number)
    similar = (one for one in config.model.layers if kinds[one.number] == kinds[number])
    return config.attention.of_layer(next(known, None) or next(similar))


def gemma4_layer(config: Config, number: int) -> list[Part]:
    """Return a layer of Gemma 4: dense and routed at the same time, with inputs of its own."""
    heads, hidden = _gemma4_heads(config, number), config.hidden
    inner, size = config.size("intermediate_size"), heads.head_size
    shared = config.size("num_kv_shared_layers", default=0)
    is_shared = shared > 0 and number >= config.model.num_hidden_layers - shared
    bias = config.flag("attention_bias")
    parts = attention(config, heads=heads, bias=bias, out_bias=bias, norm="head")
    if is_shared:
        # Without keys and values from 0.33 on.
        queries = column("self_attn.q_proj", (heads.num_heads, size), inputs=hidden, bias=bias)
        ends = ("qkv_proj", "k_norm")
        parts = [one._replace(kind=EARLIER) if one.name.endswith(ends) else one for one in parts]
        parts.append(queries._replace(kind=LATER))
    double = 2 if is_shared and config.flag("use_double_wide_mlp") else 1
    parts += [*mlp(config, "mlp", double * inner), *norms(config, 4), whole("layer_scalar", 1)]
    if config.raw("num_experts") is not None:
        parts += _gemma4_experts(config)
    own = config.size("hidden_size_per_layer_input", default=0)
    if own:
        parts += [
            whole("per_layer_input_gate", own, inputs=hidden, is_linear=True),
            whole("per_layer_projection", hidden, inputs=own, is_linear=True),
            *norms(config, 1),
        ]
    return parts


def _gemma4_experts(config: Config) -> list[Part]:
    count, hidden = config.size("num_experts"), config.hidden
    inner = config.size("moe_intermediate_size", "expert_intermediate_size")
    return [
        whole("router.scale", hidden),
        whole("router.root_size", 1),
        whole("router.proj", count, inputs=hidden),
        whole("router.per_expert_scale", count),
        *experts(config, "experts", count, inner),
        *norms(config, 3),
    ]


def gemma4_rest(config: Config) -> list[Part]:
    """Return what Gemma 4 has once: the scale of its embedding, and embeddings of every layer."""
    size = config.size("hidden_size_per_layer_input", default=0)
    parts = [whole("normalizer", 1)]
    if not size:
        return parts
    rows = config.size("vocab_size_per_layer_input", "vocab_size")
    wide = size * config.model.num_hidden_layers
    return [
        *parts,
        vocabulary("embed_tokens_per_layer", rows, wide),
        column("per_layer_model_projection", wide, inputs=config.hidden),
        whole("per_layer_projection_norm", size),
        *(whole("scale", 1) for _ in range(3)),
    ]
