"""Weights of EXAONE-MoE, Laguna and Ling: experts in listed layers, heads by layer, other names."""

from dataclasses import dataclass, replace

from workbench.core.weights import Part
from workbench.models.weights.decoders import Decoder, Moe
from workbench.models.weights.parts import (
    Block,
    Config,
    attention,
    column,
    experts,
    mlp,
    norms,
    row,
    whole,
)
from workbench.models.weights.stored import Unknown

LISTS = ("mlp_layer_types", "is_moe_layer")
SPARSE = ("sparse", True)
"""What a list has for a layer with experts."""
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


def _laguna(config: Config, number: int) -> list[Part]:
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
    parts += norms(config, 2)
    if number < config.size("first_k_dense_replace", default=0):
        return [*parts, *mlp(config, "mlp", config.size("intermediate_size"), bias=bias)]
    return [*parts, *_ling_experts(config)]


def _ling_experts(config: Config) -> list[Part]:
    count, inner = config.size("num_experts"), config.size("moe_intermediate_size")
    each = config.size("moe_shared_expert_intermediate_size", default=inner)
    shared, bias = each * config.size("num_shared_experts", default=0), config.flag("use_bias")
    router = ROUTER_DTYPES.get(config.raw("router_dtype"), "bfloat16")
    corrects = config.flag("moe_router_enable_expert_bias")
    return [
        whole("mlp.gate", count, inputs=config.hidden, dtype=router),
        *((whole("mlp.gate.correction", count, dtype="float32"),) if corrects else ()),
        *(mlp(config, "mlp.shared_experts", shared, bias=bias) if shared else ()),
        *experts(config, "mlp.experts", count, inner),
    ]


LISTED_EXPERTS: dict[str, Block] = {
    "exaone_moe": EXAONE.layer,
    "laguna": _laguna,
    **dict.fromkeys(("bailing_moe", "bailing_moe_v2"), _ling),
}
"""model_type -> its layers."""
