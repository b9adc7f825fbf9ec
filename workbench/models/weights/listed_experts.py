"""Weights of EXAONE-MoE, Laguna and Ling: experts in listed layers, heads by layer, other names."""

from dataclasses import dataclass, replace

from workbench.core.model import Attention
from workbench.core.states import LinearAttention
from workbench.core.weights import EARLIER, LATER, Part
from workbench.models.weights.decoders import Decoder, Moe
from workbench.models.weights.kinds import by_release, unscaled
from workbench.models.weights.parts import (
    Block,
    Config,
    attention,
    column,
    cut,
    experts,
    latent,
    mlp,
    norms,
    row,
    whole,
)
from workbench.models.weights.states import ling_delta
from workbench.models.weights.stored import Unknown

LISTS = ("mlp_layer_types", "is_moe_layer")
SPARSE = ("sparse", True)
"""What a list has for a layer with experts."""
HYBRID = "bailing_hybrid"
ROUTER_DTYPES = {None: None, "fp32": "float32"}
"""router_dtype of Ling -> dtype; another word is bfloat16."""
PER_HEAD = (True, "per-head")


@dataclass(frozen=True)
class ListedMoe(Moe):
    """Experts in the layers that a list names or marks."""

    lists: tuple[str, ...] = LISTS
    only_listed: bool = False
    """Without a list there are none; else it is as other families say it."""

    def has(self, config: Config, number: int) -> bool:
        """Return whether a layer has experts."""
        read = map(config.raw, self.lists)
        listed = next((found for found in read if found and isinstance(found, list)), None)
        if listed is None:
            return not self.only_listed and super().has(config, number)
        return listed[number] in SPARSE


LISTED = ListedMoe(shared=("num_shared_experts",), correction=True)
EXAONE = Decoder(norm="head", out_bias="attention_bias", mlp_bias="mlp_bias", moe=LISTED)


def _apart(config: Config, name: str, inner: int) -> list[Part]:
    """Return an MLP whose gate is a layer of its own."""
    return [
        *(column(f"{name}.{one}_proj", inner, inputs=config.hidden) for one in ("gate", "up")),
        row(f"{name}.down_proj", inner, config.hidden),
    ]


def laguna_layer(config: Config, number: int) -> list[Part]:
    """Return a layer of Laguna, of a drafter as well."""
    heads, gating, bias = config.attention, config.raw("gating"), "attention_bias"
    if (by_layer := config.raw("num_attention_heads_per_layer")) is not None:
        heads = replace(heads, num_heads=by_layer[number])
    if config.flag("swa_attention_sink_enabled"):
        raise Unknown("the sinks of Laguna are not described")
    parts = attention(config, heads=heads, bias=bias, out_bias=bias, norm="head")
    if gating:
        size = 1 if gating in PER_HEAD else heads.head_size
        parts.append(column("self_attn.g_proj", (heads.num_heads, size), inputs=config.hidden))
    parts += norms(config, 2)
    if not LISTED.has(config, number):
        return [*parts, *_apart(config, "mlp", config.size("intermediate_size"))]
    count, shared = config.size("num_experts"), config.size("shared_expert_intermediate_size")
    return [
        *parts,
        whole("mlp.gate", count, inputs=config.hidden),
        *(_apart(config, "mlp.shared_expert", shared) if shared else ()),
        whole("mlp.experts.correction", count, dtype="float32"),
        *experts(config, "mlp.experts", count, config.size("moe_intermediate_size")),
    ]


def _ling(config: Config, number: int) -> list[Part]:
    bias = config.flag("use_bias")
    parts = attention(
        config,
        "attention",
        bias=bias or config.flag("use_qkv_bias"),
        out_bias=bias,
        norm="head" if config.flag("use_qk_norm") else "",
        out="dense",
    )
    parts[0] = parts[0]._replace(name="attention.query_key_value")
    has_biases = config.flag("use_qk_norm") and not config.flag("use_rmsnorm")
    biases = 2 * [whole("norm_bias", config.attention.head_size)] * has_biases
    # its class reads no scales of the cache from a checkpoint
    return [*unscaled(parts), *biases, *norms(config, 2), *_ling_feed(config, number)]


def _ling_feed(config: Config, number: int) -> list[Part]:
    each = config.size("moe_shared_expert_intermediate_size", "moe_intermediate_size")
    shared, bias = each * config.size("num_shared_experts", default=0), config.flag("use_bias")
    router = ROUTER_DTYPES.get(config.raw("router_dtype"), "bfloat16")
    if config.kind == HYBRID and router is None:
        router = "float32"
    return ling_feed(config, number, shared, (router, router), bias=bias)


def ling_feed(
    config: Config,
    number: int,
    shared: int,
    dtypes: tuple[str | None, ...],
    *,
    corrects: bool = False,
    bias: bool = False,
) -> list[Part]:
    """Return the MLP of the first layers, or the experts of the others.

    shared: elements of those that every token takes. dtypes: of routers, in the oldest and the
    newest release. corrects: whether routers have a correction where the file does not say.
    """
    if number < config.size("first_k_dense_replace", default=0):
        return mlp(config, "mlp", config.size("intermediate_size"), bias=bias)
    count, inner = config.size("num_experts"), config.size("moe_intermediate_size")
    gates = ([whole("mlp.gate", count, inputs=config.hidden, dtype=one)] for one in dtypes)
    is_corrected = config.flag("moe_router_enable_expert_bias", default=corrects)
    return [
        *by_release(*gates),
        *[whole("mlp.gate.correction", count, dtype="float32")] * is_corrected,
        *(mlp(config, "mlp.shared_experts", shared, bias=bias) if shared else ()),
        *experts(config, "mlp.experts", count, inner),
    ]


def _ling_hybrid(config: Config, number: int) -> list[Part]:
    """Return a layer of Ling 2.5 or 3, with linear attention or with latents."""
    feed = [*norms(config, 2), *_ling_feed(config, number)]
    if config.attends(number):
        return [*latent(config, number), *_latent_gate(config), *feed]
    if not isinstance(config.state, LinearAttention):
        return [*ling_delta(config), *feed]
    lightning = [
        one._replace(kind=kind)
        for kind, size in ling_heads(config).items()
        for one in _lightning(config, size)
    ]
    return [*lightning, *feed]


def _latent_gate(config: Config) -> list[Part]:
    """Return the gate of the output of latents in Ling 3: per head, or per element."""
    sizes = {"head_wise": 1, "element_wise": config.attention.v_head_dim or 0}
    size = sizes.get(str(config.raw("gated_attention_proj_granularity_type")), 0)
    gate = column("self_attn.g_proj", (config.attention.num_heads, size), inputs=config.hidden)
    return [gate] * bool(size)


def ling_heads(config: Config) -> dict[str, int]:
    """Return the size of the heads of lightning attention, by the releases that have it."""
    state = config.state
    if not isinstance(state, LinearAttention):
        return {}
    later = state.mla_head_dim or state.head_dim
    same = {"": state.head_dim}
    return same if later == state.head_dim else {EARLIER: state.head_dim, LATER: later}


def _lightning(config: Config, size: int) -> list[Part]:
    heads, bias, name = (config.state.num_heads, size), config.flag("use_bias"), "self_attn"
    has_bias = bias or config.flag("use_qkv_bias")
    return [
        column(f"{name}.query_key_value", *3 * [heads], inputs=config.hidden, bias=has_bias),
        *2 * [whole(f"{name}.norm", size)] * config.flag("use_qk_norm"),
        column(f"{name}.g_proj", heads, inputs=config.hidden),
        row(f"{name}.dense", heads[0] * size, config.hidden, bias=bias),
        cut(f"{name}.g_norm", heads),
    ]


def _step(config: Config, number: int) -> list[Part]:
    """Return a layer of Step 3.5: other heads in windows, a gate per head, experts where listed."""
    earlier = later = config.attention
    if (other := other_heads(config, number)) is not None:
        earlier, count = other, other.num_heads
        later = replace(other, num_heads=config.size("num_sliding_attention_heads", default=count))
    mixer = by_release(*(step_attention(config, one) for one in (earlier, later)))
    return [*mixer, *norms(config, 2), *step_feed(config, number)]


def other_heads(config: Config, number: int) -> Attention | None:
    """Return the heads that Step 3.5 and 5 have in layers of another kind, else None."""
    other, kinds = config.mapping("attention_other_setting"), config.raw("layer_types", ())
    if number >= len(kinds) or kinds[number] != other.get("attention_type"):
        return None
    found = config.attention
    if (other["num_attention_groups"], other["head_dim"]) != (found.num_kv_heads, found.head_size):
        raise Unknown("keys of Step 3.5 that differ by layer are not described")
    return replace(found, num_heads=other["num_attention_heads"])


def step_attention(config: Config, heads: Attention) -> list[Part]:
    """Return attention of Step 3.5 and 5, with a gate per head where the file has it."""
    gate = column("self_attn.g_proj", heads.num_heads, inputs=config.hidden)
    gates = [gate] * config.flag("use_head_wise_attn_gate")
    return [*attention(config, heads=heads, bias="attention_bias", norm="head"), *gates]


def is_enumerated(config: Config, number: int) -> bool:
    """Return whether a text of numbers names a layer; without one all but the first are named."""
    named = config.raw("moe_layers_enum")
    return number in map(int, named.strip().split(",")) if named else number > 0


def step_feed(config: Config, number: int) -> list[Part]:
    """Return the MLP of Step 3.5 and 5, or experts where the file names the layer."""
    listed = config.raw("mlp_layer_types")
    if not (listed[number] in SPARSE if listed else is_enumerated(config, number)):
        return mlp(config, "mlp", config.size("intermediate_size"))
    count = config.size("moe_num_experts")
    return [
        whole("moe.gate", count, inputs=config.hidden, dtype="float32"),
        whole("moe.router_bias", count, dtype="float32"),
        *mlp(config, "moe.share_expert", config.size("share_expert_dim")),
        *experts(config, "moe.experts", count, config.size("moe_intermediate_size")),
    ]


LISTED_EXPERTS: dict[str, Block] = {
    "exaone_moe": EXAONE.layer,
    "laguna": laguna_layer,
    "step3p5": _step,
    HYBRID: _ling_hybrid,
    **dict.fromkeys(("bailing_moe", "bailing_moe_v2", "sarvam_moe"), _ling),
}
"""model_type -> its layers."""
