"""Weights of families with SSM layers, layer by layer."""

from dataclasses import replace
from math import ceil

from workbench.core.ranks import SHARED_EXPERT
from workbench.core.weights import NARROW, WIDE, Part
from workbench.models.mtp import ATTENTION
from workbench.models.weights.decoders import QWEN, Decoder, Moe
from workbench.models.weights.kinds import by_release, unscaled
from workbench.models.weights.parts import (
    Block,
    Config,
    Options,
    attention,
    cache_scales,
    column,
    cut,
    experts,
    mlp,
    norms,
    row,
    shared_mlp,
    whole,
)
from workbench.models.weights.states import (
    delta_net,
    mamba1,
    mamba2,
    olmo_delta_net,
    projected,
    short_conv,
)
from workbench.models.weights.stored import Unknown

MIXER = "mixer"
"""What vLLM calls a Mamba-2 mixer of any class where it looks for its format."""
QWEN_MOE = replace(QWEN, repeated=SHARED_EXPERT, is_gate_alone=True)
QWEN_LAYER = Decoder(bias="qkv_bias", norm="head", gate=2, moe=QWEN_MOE)


def qwen_layer(config: Config, number: int, *, attends: bool = True) -> list[Part]:
    """Return a layer of full attention, or of a delta net."""
    gate = 2 if config.flag("attn_output_gate", default=True) else 1
    mixer = QWEN_LAYER.attention(config, gate=gate) if attends else delta_net(config)
    # Qwen3_5DecoderLayer.__init__ goes by the model_type alone
    feed = QWEN_MOE.parts if config.kind == "qwen3_5_moe_text" else QWEN_LAYER.feed_forward
    return [*mixer, *feed(config, number), *norms(config, 2)]


def _qwen(config: Config, number: int) -> list[Part]:
    return qwen_layer(config, number, attends=config.attends(number))


def _olmo(config: Config, number: int) -> list[Part]:
    layer = Decoder(norm="whole", bias=False)
    mixer = layer.attention(config) if config.attends(number) else olmo_delta_net(config)
    return [*mixer, *layer.feed_forward(config, number), *norms(config, 2)]


def _lfm2(config: Config, number: int) -> list[Part]:
    own = attention(config, norm="head", out="out_proj") if config.attends(number) else None
    mixer = unscaled(own or short_conv(config))
    has_experts = config.size("num_experts", default=0) > 0
    if has_experts and number >= config.size("num_dense_layers", default=0):
        # GateLinear gets the method of quantization (Lfm2MoeSparseMoeBlock.__init__)
        moe = Moe("feed_forward", correction="use_expert_bias", router_is_linear=True)
        return [*mixer, *moe.parts(config, number), *norms(config, 2)]
    # Lfm2Config has the older name and these defaults, that of the mixture of experts has none.
    inner = config.size("block_ff_dim", "intermediate_size")
    if config.flag("block_auto_adjust_ff_dim", default=config.kind == "lfm2"):
        multiple = config.size("block_multiple_of", default=256)
        share = config.raw("block_ffn_dim_multiplier", 1)
        inner = multiple * ceil(int(share * int(2 * inner / 3)) / multiple)
    width = config.size("block_dim", "hidden_size")
    parts = [
        column("feed_forward.w13", inner, inner, inputs=width),
        row("feed_forward.w2", inner, width),
    ]
    return [*mixer, *parts, *norms(config, 2)]


def _jamba(config: Config, number: int) -> list[Part]:
    if config.attends(number):
        mixer = unscaled(attention(config, ""))
    else:
        mixer = mamba1(config, "mamba", config.size("mamba_dt_rank"), norms=True)
    period, offset = config.size("expert_layer_period"), config.size("expert_layer_offset")
    count = config.size("num_experts")
    inner = config.size("intermediate_size")
    name = "feed_forward"
    if count > 1 and number % period == offset:
        router = whole(f"{name}.router", count, inputs=config.hidden)
        feed = [router, *experts(config, f"{name}.experts", count, inner)]
    else:
        feed = mlp(config, name, inner)
    return [*mixer, *feed, *norms(config, 2)]


def _bamba(config: Config, number: int) -> list[Part]:
    if config.attends(number):
        # BambaAttentionDecoderLayer of 0.23 hands no method of quantization to its attention
        mixer = by_release(unscaled(attention(config, "")), attention(config))
    else:
        mixer = mamba2(config, MIXER)
    inner, biases = config.size("intermediate_size"), (False, config.flag("mlp_bias"))
    feeds = (mlp(config, "feed_forward", inner, bias=one) for one in biases)
    return [*mixer, *by_release(*feeds), *norms(config, 2)]


def _granite(config: Config, number: int) -> list[Part]:
    if config.attends(number):
        parts = attention(config, bias="attention_bias", out_bias="attention_bias")
    else:
        parts = mamba2(config, MIXER)
    count = config.size("num_local_experts", default=0)
    shared = config.size("shared_intermediate_size")
    if count:
        gate = whole("block_sparse_moe.gate", count, inputs=config.hidden)
        inner = config.size("intermediate_size")
        parts += [gate, *experts(config, "block_sparse_moe.experts", count, inner)]
    return [*parts, *shared_mlp(config, shared), *norms(config, 2)]


def _falcon(config: Config, _number: int) -> list[Part]:
    """Return attention and state space side by side, and the multipliers of the latter."""
    return [
        *attention(config, ""),  # its class ignores `attention_bias`
        *mamba2(config, MIXER, "mamba_rms_norm"),
        cut("mamba.mup_vector", *projected(config)),
        *mlp(config, "feed_forward", config.size("intermediate_size")),
        *norms(config, 2),
    ]


def _pure(config: Config, _number: int) -> list[Part]:
    if config.state.kind == "mamba2":
        return [*mamba2(config, "mixer"), *norms(config, 1)]
    rank = config.raw("time_step_rank", "auto")
    steps = ceil(config.hidden / 16) if rank == "auto" else int(rank)
    return [*mamba1(config, "mixer", steps), *norms(config, 1)]


def _nemotron(config: Config, number: int) -> list[Part]:
    if config.raw("block_configs"):
        raise Unknown("layers of other sizes in block_configs are not described")
    if config.has_state(number):
        return [*mamba2(config, "mixer"), *norms(config, 1)]
    kind = "attention" if config.attends(number) else _nemotron_kind(config, number)
    return nemotron_layer(config, kind)


def nemotron_layer(config: Config, kind: str) -> list[Part]:
    """Return a layer of Nemotron-H without states, by its letter or its word."""
    if kind in ATTENTION:
        parts = attention(config, "mixer")
    elif kind in {"E", "moe"}:
        parts = _nemotron_experts(config)
    else:
        inner, bias = config.size("intermediate_size"), config.flag("mlp_bias")
        parts = mlp(config, "mixer", inner, gated=False, bias=bias)
    return [*parts, *norms(config, 1)]


def _nemotron_kind(config: Config, number: int) -> str:
    for key in ("layers_block_type", "layer_types", "hybrid_override_pattern"):
        listed = config.raw(key)
        if listed:
            return str(listed[number])
    return ""


def _nemotron_experts(config: Config) -> list[Part]:
    """Return experts with a ReLU, in Nemotron 3 between projections to a smaller space."""
    count = config.size("n_routed_experts")
    inner = config.size("moe_intermediate_size")
    name = "mixer"
    small, bias = config.size("moe_latent_size", default=0), config.flag("mlp_bias")
    shared = config.size("moe_shared_expert_intermediate_size", default=0)
    shared *= config.size("n_shared_experts", default=0)
    width = small or config.hidden
    parts = [
        whole(f"{name}.gate", count, inputs=config.hidden, kind=NARROW),
        whole(f"{name}.gate", count, inputs=config.hidden, kind=WIDE, dtype="float32"),
        whole(f"{name}.correction", count, dtype="float32"),
    ]
    if shared:
        more: Options = {"gated": False, "repeated": SHARED_EXPERT}
        parts += mlp(config, f"{name}.shared_experts", shared, **more)
    if small:
        ends = (("fc1", config.hidden, small), ("fc2", small, config.hidden))
        for end, inputs, outputs in ends:
            options = {"inputs": inputs, "bias": bias, "is_linear": True}
            parts.append(whole(f"{name}.{end}_latent_proj", outputs, **options))
    return [
        *parts,  # built last, since they run the shared ones
        column(f"{name}.experts.w13", inner, inputs=width, experts=count, runs_padded=True),
        row(f"{name}.experts.w2", inner, width, experts=count, runs_padded=True),
    ]


def _zamba(config: Config, number: int) -> list[Part]:
    """Return a Mamba-2 layer; the first with attention hold the shared blocks and the adapters."""
    parts = [*mamba2(config, MIXER), *norms(config, 1)]
    if not config.attends(number):
        return parts
    parts.append(whole("linear", config.hidden, inputs=config.hidden, is_linear=True))
    earlier, blocks = sum(map(config.attends, range(number))), config.size("num_mem_blocks")
    if earlier >= blocks:
        return parts
    inner, rank = config.size("intermediate_size"), config.size("adapter_rank")
    adapter = [
        column("adapter.A", rank, inputs=config.hidden),
        column("adapter.B", inner, inner, inputs=rank),
        cache_scales("attention"),
    ]
    if config.flag("use_shared_attention_adapter"):  # Zamba2Attention: of q, k and v
        size = config.size("attention_hidden_size")
        one = (column("adapter.q_A", rank, inputs=size), column("adapter.q_B", size, inputs=rank))
        adapter += 3 * one
    total = sum(map(config.attends, config.kinds))
    return [
        *parts,
        *adapter * len(range(earlier, total, blocks)),
        *attention(config, inputs=2 * config.hidden)[:2],
        *mlp(config, "feed_forward", inner, bias=config.flag("add_bias_linear")),
        *norms(config, 3),
    ]


def _minimax(config: Config, number: int) -> list[Part]:
    """Return a layer of MiniMax-Text-01, with lightning attention or softmax."""
    hidden = config.hidden
    if config.attends(number):
        mixer = attention(config)
    else:
        wide = config.state.num_heads * config.state.head_dim
        mixer = [
            column("self_attn.qkv_proj", 3 * wide, inputs=hidden),
            column("self_attn.output_gate", wide, inputs=hidden),
            row("self_attn.out_proj", wide, hidden),
            cut("self_attn.norm", wide),
        ]
    count, inner = config.size("num_local_experts", default=1), config.size("intermediate_size")
    if count == 1:
        feed = mlp(config, "mlp", inner)
    else:
        name = "block_sparse_moe"
        gate = whole(f"{name}.gate", count, inputs=hidden, dtype="float32")
        feed = [gate, *experts(config, f"{name}.experts", count, inner)]
    listed = config.raw("shared_intermediate_size", 0)
    shared = listed[number] if isinstance(listed, list) else listed
    if shared:
        coefficient = whole("coefficient", 1, inputs=hidden, dtype="float32")
        feed += [*mlp(config, "shared_mlp", shared), coefficient]
    return [*mixer, *feed, *norms(config, 2)]


def _plamo(config: Config, number: int) -> list[Part]:
    feed = [*mlp(config, "mlp", config.size("intermediate_size")), *norms(config, 4)]
    if config.attends(number):
        return [*unscaled(attention(config, "mixer", norm="cut")), *feed]
    state, steps = config.state, max(64, config.hidden // 16)
    inner, heads = state.intermediate_size, (state.num_heads, 1)
    return [
        column("mixer.in_proj", inner, inner, inputs=config.hidden),
        row("mixer.bcdt_proj", inner, steps + 2 * state.state_size),
        column("mixer.dt_proj", heads, inputs=steps),
        row("mixer.out_proj", inner, config.hidden),
        cut("mixer.conv1d", inner, inputs=state.conv_kernel),
        cut("mixer.A", heads, dtype="float32"),
        cut("mixer.D", heads),
        cut("mixer.dt_bias", heads),
        whole("mixer.dt_norm", steps),
        *(whole("mixer.norm", state.state_size) for _ in range(2)),
        *feed,
    ]


HYBRIDS: dict[str, Block] = {
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), _qwen),
    "olmo_hybrid": _olmo,
    **dict.fromkeys(("lfm2", "lfm2_moe"), _lfm2),
    "jamba": _jamba,
    "bamba": _bamba,
    "granitemoehybrid": _granite,
    "falcon_h1": _falcon,
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba"), _pure),
    "nemotron_h": _nemotron,
    "zamba2": _zamba,
    "minimax_text_01": _minimax,
    "plamo2": _plamo,
}
WITHOUT_POSITIONS = frozenset(
    {
        *("ernie4_5_moe_vl", "inkling_model", "jamba", "nemotron_h", "kimi_linear", "whisper"),
        *("bloom", "gpt2", "gpt_bigcode", "mpt", "opt", "step1"),
    }
)
"""model_types whose attention has no rotary embedding."""
