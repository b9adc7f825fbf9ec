"""Weights of dense decoders, and of those with experts: what their layers have, as data."""

from dataclasses import dataclass, replace
from typing import Any

from workbench.core.ranks import ONE_STAGE, SHARED_EXPERT
from workbench.core.weights import Part
from workbench.models.config_defaults import EXPERTS
from workbench.models.weights.kinds import by_release
from workbench.models.weights.parts import (
    Block,
    Config,
    Options,
    attention,
    column,
    cut,
    experts,
    latent,
    mlp,
    norms,
    whole,
)

COUNTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts", EXPERTS)
"""Numbers of routed experts, the last one of a configuration class, where a file has none."""
ANY_BIAS = "attention_bias|bias"
"""Fields of which any is enough."""
QKV_BIAS = ("qkv_bias", ANY_BIAS)
"""Fields of a bias of queries, keys and values, the first of which counts that a file has."""
SIZES = ("moe_intermediate_size", "expert_hidden_dim", "intermediate_size")


@dataclass(frozen=True)
class Moe:
    """Routed experts of a family, and which layers have them."""

    name: str = "mlp"
    every: str = "decoder_sparse_step"
    """Field: every n-th layer has experts, 1 without it."""
    counts_from: int = 1
    """Number of the first layer where those are counted."""
    first: str = "first_k_dense_replace"
    """Field: layers before this one have none."""
    dense: str = "mlp_only_layers"
    """Field: numbers of layers that have none."""
    shared: tuple[str, ...] = ()
    """Field: number of shared experts, or the elements of one if there is no number."""
    shared_gate: bool = False
    is_gate_alone: bool = False
    """That gate is there without a shared expert, too."""
    correction: bool | str = False
    """The router has a correction of its scores per expert; or what says so, as `flag` reads it."""
    correction_kinds: tuple[tuple[str, str | None], ...] = (("", "float32"),)
    """Kind and dtype of that correction, in every version."""
    router_dtype: str | None = None
    repeated: str = ""
    """What `Split.repeated` calls its shared experts."""
    router_is_linear: bool = False
    """The router is quantized as other layers are, unless a checkpoint excludes it."""
    is_plain: bool = False
    """Its class never quantizes the routed experts."""

    def has(self, config: Config, number: int) -> bool:
        """Return whether a layer has experts."""
        if not config.size(*COUNTS, default=0) or number < config.size(self.first, default=0):
            return False
        only = config.raw(self.dense, ())
        period = config.size(self.every, default=1) or 1
        return number not in only and (number + self.counts_from) % period == 0

    def routed(self, config: Config, name: str, count: int, inner: int) -> list[Part]:
        """Return the routed experts."""
        found = experts(config, name, count, inner)
        return [part._replace(is_linear=part.is_linear and not self.is_plain) for part in found]

    def parts(self, config: Config, _number: int) -> list[Part]:
        """Return router, routed and shared experts."""
        has = config.fields.has
        if not any(map(has, (*COUNTS[:-1], *SIZES[:-1]))):  # their size is the class's as well
            raise config.fields.missing(SIZES[0], "the size of the weights")
        count, inner, name = config.size(*COUNTS), config.size(*SIZES), self.name
        options = {"dtype": self.router_dtype, "is_linear": self.router_is_linear}
        gate = whole(f"{name}.gate", count, inputs=config.hidden, **options)
        parts = [gate]
        if config.flag(self.correction):
            parts += [
                whole(f"{name}.correction", count, dtype=dtype, kind=kind)
                for kind, dtype in self.correction_kinds
            ]
        shared = config.size(*self.shared, default=0) if self.shared else 0
        if self.shared_gate and (shared or self.is_gate_alone):
            parts.append(whole(f"{name}.shared_expert_gate", 1, inputs=config.hidden))
        if shared:
            size = shared if self.shared_gate else shared * inner
            kind = "shared_expert" if self.shared_gate else "shared_experts"
            parts += mlp(config, f"{name}.{kind}", size, repeated=self.repeated)
        # built last, since they run the shared ones
        return [*parts, *self.routed(config, f"{name}.experts", count, inner)]


DEEPSEEK = Moe(
    shared=("n_shared_experts",),
    every="moe_layer_freq",
    counts_from=0,
    correction="topk_method=noaux_tc",
    repeated=SHARED_EXPERT,
)
QWEN = Moe(shared=("shared_expert_intermediate_size",), shared_gate=True)


@dataclass(frozen=True)
class Decoder:
    """A layer of attention and MLP. Biases are a constant, or the name of a field, or several."""

    bias: str | bool | tuple[str, ...] = "attention_bias"
    out_bias: str | bool = False
    norm: str = ""
    """Norm of queries and keys, as `attention` has it; "?field" is "head" if the field is set.

    "?field:kind" is another kind.
    """
    norms: int = 2
    norm_bias: bool = False
    gate: int = 1
    gate_apart: str = ""
    """Name of the layer that makes a gate as wide as the queries, where it is one of its own."""
    mlp_bias: str | bool = False
    gated: bool = True
    moe: Moe | None = None
    mlp_name: str = "mlp"
    repeated: str = ""
    """What `Split.repeated` calls its MLP."""

    def layer(self, config: Config, number: int) -> list[Part]:
        """Return the parts of one layer."""
        is_latent = config.attention.use_mla
        parts = latent(config, number) if is_latent else self.attention(config)
        return [*parts, *self.feed_forward(config, number), *self.layer_norms(config)]

    def layer_norms(self, config: Config) -> list[Part]:
        """Return the norms of a layer."""
        return norms(config, self.norms, bias=self.norm_bias)

    def attention(self, config: Config, **more: Any) -> list[Part]:
        """Return the attention of one layer."""
        norm = self.norm
        if norm.startswith("?"):
            field, _, kind = norm[1:].partition(":")
            norm = (kind or "head") * config.flag(field)
        options = {"bias": self.bias, "out_bias": self.out_bias, "norm": norm, "gate": self.gate}
        found, own = config.attention, self.gate_apart
        heads = (found.num_heads, found.head_size)
        gate = [column(f"self_attn.{own}", heads, inputs=config.hidden)] * bool(own)
        return [*attention(config, **{**options, **more}), *gate]

    def feed_forward(self, config: Config, number: int) -> list[Part]:
        """Return the MLP, or the experts of a layer that has them."""
        if self.moe is not None and self.moe.has(config, number):
            return self.moe.parts(config, number)
        inner, bias = config.size("intermediate_size"), config.flag(self.mlp_bias)
        options: Options = {"gated": self.gated, "bias": bias, "repeated": self.repeated}
        return mlp(config, self.mlp_name, inner, **options)


def of_releases(earlier: Decoder, later: Decoder) -> Block:
    """Return the layers of classes that the oldest and the newest release build differently."""
    return lambda config, number: by_release(
        earlier.layer(config, number), later.layer(config, number)
    )


def _gpt_oss(config: Config, _number: int) -> list[Part]:
    """Return a layer of gpt-oss, every share of whose experts is rounded up for its kernels."""
    count, inner = config.size("num_local_experts"), config.size("intermediate_size")
    heads = config.attention.num_heads
    return [
        *attention(config, bias=True, out_bias=True),
        cut("sinks", heads),
        whole("mlp.router", count, inputs=config.hidden, bias=True),
        *experts(config, "mlp.experts", count, inner, bias=True),
        *norms(config, 2),
    ]


def _ernie_moe(config: Config, number: int) -> bool:
    last = config.size("moe_layer_end_index", default=config.model.num_hidden_layers - 1)
    step = config.size("moe_layer_interval", default=1)
    first = config.size("moe_layer_start_index", default=0)
    return first <= number <= last and (number + 1) % step == 0


@dataclass(frozen=True)
class ErnieMoe(Moe):
    """Experts between two layers."""

    def has(self, config: Config, number: int) -> bool:
        """Return whether a layer has experts."""
        return config.size(*COUNTS, default=0) > 0 and _ernie_moe(config, number)


def _gemma(norm: str = "", **more: Any) -> Decoder:
    return Decoder(out_bias="attention_bias", norm=norm, **{"norms": 4, **more})


LLAMA = Decoder(bias=ANY_BIAS, out_bias=ANY_BIAS, mlp_bias="mlp_bias")
OF_LLAMA = replace(LLAMA, bias=QKV_BIAS)
"""Layers of its class itself, which a file may give biases of queries, keys and values alone."""
DECODERS: dict[str, Decoder] = {
    **dict.fromkeys(("llama", "mistral", "ministral3", "phi3"), OF_LLAMA),
    **dict.fromkeys(("PanguEmbedded", "openpangu_vl"), OF_LLAMA),
    **dict.fromkeys(("granite", "smollm3"), LLAMA),
    **dict.fromkeys(("mixtral", "granitemoe"), Decoder(bias=False, moe=Moe("block_sparse_moe"))),
    **dict.fromkeys(
        ("qwen2", "mimo", "qwen2_5_vl", "qwen2_5_vl_text"), Decoder(bias=True, norm="?qk_norm")
    ),
    "qwen2_moe": Decoder(bias=True, moe=replace(QWEN, is_gate_alone=True)),
    **dict.fromkeys(("qwen3", "qwen3_vl_text"), Decoder(norm="head")),
    **dict.fromkeys(
        ("qwen3_moe", "qwen3_vl_moe_text"),
        Decoder(norm="head", moe=replace(QWEN, router_is_linear=True)),
    ),
    "gemma": Decoder(bias=False),
    "gemma2": _gemma(),
    "vaultgemma": _gemma(norms=2),
    "gemma3": _gemma("head"),
    "gemma3_text": _gemma("head"),
    "glm4": Decoder(norms=4),
    "glm4_moe": Decoder(
        norm="?use_qk_norm",
        moe=Moe(shared=("n_shared_experts",), correction=True, router_dtype="float32"),
    ),
    "exaone4": Decoder(norm="head", out_bias="attention_bias", mlp_bias="mlp_bias"),
    "starcoder2": Decoder(
        bias="use_bias", out_bias="use_bias", mlp_bias="use_bias", gated=False, norm_bias=True
    ),
    "ernie4_5": replace(OF_LLAMA, out_bias=False),
    "ernie4_5_moe": Decoder(
        bias="use_bias",
        mlp_bias="use_bias",
        moe=ErnieMoe(shared=("moe_num_shared_experts",), correction=True, router_dtype="float32"),
    ),
    "minimax_m2": Decoder(
        norm="cut",
        moe=Moe("block_sparse_moe", correction="use_routing_bias", router_dtype="float32"),
    ),
    # Their norms have values of their own for each head (CohereAttention, param_shape).
    **dict.fromkeys(("cohere", "cohere2"), Decoder(bias=False, norms=1, norm="?use_qk_norm:cut")),
    "cohere_compass_text": Decoder(out_bias="attention_bias", norms=1),
    "stablelm": Decoder(bias="use_qkv_bias", norm_bias=True),
    "nemotron": Decoder(
        out_bias="attention_bias", mlp_bias="mlp_bias", gated=False, norm_bias=True
    ),
    "minicpm": Decoder(bias=False),
    "muse_glimmer_text": Decoder(bias=False, norms=4, gate_apart="output_gate_proj"),
    "arcee": Decoder(out_bias="attention_bias", mlp_bias="mlp_bias", gated=False),
    "olmoe": Decoder(bias=False, norm="whole", moe=Moe()),
    "step1": Decoder(bias=False),
    **dict.fromkeys(("git", "grok-1"), Decoder(bias=False, norms=4, moe=Moe("moe_block"))),
    "aria_text": replace(OF_LLAMA, moe=Moe(shared=("moe_num_shared_experts",))),
    "cosmos3_edge_text": Decoder(bias=False, mlp_bias="mlp_bias", gated=False),
}
DECODERS |= dict.fromkeys(
    ("deepseek", "deepseek_v2", "deepseek_v3", "kimi_k2"), Decoder(bias=False, moe=DEEPSEEK)
)
DOTS = replace(DEEPSEEK, correction_kinds=(("", None),), repeated="")
DECODERS["dots1"] = Decoder(norm="head", moe=DOTS)
SPARSE = Decoder(moe=DEEPSEEK, repeated=ONE_STAGE)
DECODERS |= dict.fromkeys(("deepseek_v32", "glm_moe_dsa"), SPARSE)
GLM_LITE = replace(DEEPSEEK, router_dtype="float32", correction=True, repeated="")
DECODERS["glm4_moe_lite"] = Decoder(moe=GLM_LITE)
LAYERS: dict[str, Block] = {name: found.layer for name, found in DECODERS.items()}
LAYERS["gpt_oss"] = _gpt_oss
TIED = frozenset(
    {
        *("gemma", "gemma2", "gemma3", "gemma3_text", "gemma4", "gemma4_text", "plamo2"),
        "vaultgemma",
        *("cohere", "cohere2", "cohere2_moe", "minicpm", "mpt", "smollm3", "starcoder2"),
        *("ernie4_5", "ernie4_5_moe", "lfm2", "lfm2_moe", "mamba", "falcon_mamba", "zamba2"),
        *("bloom", "falcon", "gpt2", "gpt_bigcode", "minicpm3", "opt", "whisper"),
    }
)
"""model_types whose configuration class ties the two vocabularies if config.json does not say."""
