"""Weights of Gemma 4 and 3n: heads of two sizes, shared caches, and inputs of every layer."""

from workbench.core.formats import Format
from workbench.core.model import Attention
from workbench.core.weights import EARLIER, LATER, Part
from workbench.models.families.shared_layers import gemma4_kinds
from workbench.models.weights.parts import (
    Config,
    attention,
    column,
    experts,
    mlp,
    norms,
    row,
    vocabulary,
    whole,
)
from workbench.models.weights.scheme import read_scheme


def _gemma4_heads(config: Config, number: int) -> Attention:
    """Return the heads of one layer, also where it reads the cache of an earlier one."""
    kinds = gemma4_kinds(config.fields)
    known = (layer for layer in config.model.layers if layer.number == number)
    similar = (one for one in config.model.layers if kinds[one.number] == kinds[number])
    return config.attention.of_layer(next(known, None) or next(similar))


def _shared_attention(config: Config, heads: Attention, number: int) -> tuple[list[Part], bool]:
    """Return attention, and whether it reads the cache of an earlier layer."""
    shared, bias = config.size("num_kv_shared_layers", default=0), config.flag("attention_bias")
    is_shared = shared > 0 and number >= config.model.num_hidden_layers - shared
    parts = attention(config, heads=heads, bias=bias, out_bias=bias, norm="head")
    if is_shared:
        # Without keys and values from 0.33 on.
        size = (heads.num_heads, heads.head_size)
        queries = column("self_attn.q_proj", size, inputs=config.hidden, bias=bias)
        ends = ("qkv_proj", "k_norm")
        parts = [one._replace(kind=EARLIER) if one.name.endswith(ends) else one for one in parts]
        parts.append(queries._replace(kind=LATER))
    return parts, is_shared


def _own_inputs(config: Config, own: int) -> list[Part]:
    """Return what reads the inputs of one layer."""
    return [
        whole("per_layer_input_gate", own, inputs=config.hidden, is_linear=True),
        whole("per_layer_projection", config.hidden, inputs=own, is_linear=True),
        *norms(config, 1),
    ]


def gemma4_layer(config: Config, number: int) -> list[Part]:
    """Return a layer of Gemma 4: dense and routed at the same time, with inputs of its own."""
    heads = _gemma4_heads(config, number)
    inner = config.size("intermediate_size")
    parts, is_shared = _shared_attention(config, heads, number)
    double = 2 if is_shared and config.flag("use_double_wide_mlp") else 1
    parts += [*mlp(config, "mlp", double * inner), *norms(config, 4), whole("layer_scalar", 1)]
    if config.raw("num_experts") is not None:
        parts += _gemma4_experts(config)
    own = config.size("hidden_size_per_layer_input", default=0)
    if own:
        parts += _own_inputs(config, own)
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


STREAMS, LOW_RANK = "altup_num_inputs", "laurel_rank"


def gemma3n_layer(config: Config, number: int) -> list[Part]:
    """Return a layer of Gemma 3n: several streams, a path of low rank, and inputs of its own."""
    hidden, streams = config.hidden, config.size(STREAMS, default=4)
    listed, low = config.raw("intermediate_size"), config.size(LOW_RANK, default=64)
    mixed = (("correction_coefs", streams, streams), ("prediction_coefs", streams**2, streams))
    return [
        *_shared_attention(config, config.attention, number)[0],
        *mlp(config, "mlp", listed[number] if isinstance(listed, list) else listed),
        *norms(config, 6),
        *(
            whole(f"altup.{name}", outputs, inputs=inputs, is_linear=True)
            for name, outputs, inputs in (*mixed, ("modality_router", streams, hidden))
        ),
        whole("altup.correct_output_scale", hidden, dtype="float32"),
        whole("altup.router_input_scale", 1, kind=LATER, stored=_router_format(config, number)),
        column("laurel.linear_left", low, inputs=hidden),
        row("laurel.linear_right", low, hidden),
        *_own_inputs(config, config.size("hidden_size_per_layer_input", default=256)),
    ]


def _router_format(config: Config, number: int) -> Format | None:
    """Return the format of a number that is as wide as the weights of the router of streams."""
    path = f"model.layers.{number}.altup.modality_router"
    stored = read_scheme(config.fields).format_of(path, is_expert=False)
    return stored and Format(stored.bits)


def gemma3n_rest(config: Config) -> list[Part]:
    """Return what Gemma 3n has once: embeddings of every layer, and what spreads the streams."""
    own, hidden = config.size("hidden_size_per_layer_input", default=256), config.hidden
    rows, wide = config.size("vocab_size_per_layer_input"), own * config.model.num_hidden_layers
    ends = ("self_decoder.altup_projections", "altup_unembed_projections")
    more = config.size(STREAMS, default=4) - 1
    return [
        vocabulary("embed_tokens_per_layer", rows, wide),
        column("model.self_decoder.per_layer_model_projection", wide, inputs=hidden),
        whole("per_layer_projection_norm", own),
        *(column(f"model.{name}.0", hidden, inputs=hidden) for name in ends for _ in range(more)),
        *4 * [whole("scale", 1, kind=LATER)],
    ]
