"""Weights of SSM layers: Mamba, Mamba-2, gated delta nets, Kimi's, short convolutions."""

from workbench.core.ranks import GATES
from workbench.core.weights import DRAFTED, EARLIER, LATER, Part
from workbench.models.weights.parts import Config, Unit, column, cut, row, whole

PROJ_BIAS = {
    **dict.fromkeys(("bamba", "falcon_h1", "granitemoehybrid", "jamba"), "mamba_proj_bias"),
    "zamba2": "add_bias_linear",
}
"""model_type -> field of the bias of a mixer's projections, where it is not `use_bias`."""


def _projections_have_bias(config: Config) -> bool:
    return config.flag(PROJ_BIAS.get(config.kind, "use_bias"))


def mamba1(config: Config, name: str, rank: int, *, norms: bool = False) -> list[Part]:
    """Return a Mamba mixer; rank: of the time steps."""
    state, hidden, bias = config.state, config.hidden, _projections_have_bias(config)
    inner, size = state.intermediate_size, state.state_size
    parts = [
        # MambaMixer.__init__ passes no method of quantization on
        cut(f"{name}.in_proj", inner, inner, inputs=hidden, bias=bias),
        _conv(config, name, inner),
        row(f"{name}.x_proj", inner, rank + 2 * size, is_linear=False),
        cut(f"{name}.dt_proj", inner, inputs=rank, bias=True),
        cut(f"{name}.A", inner, inputs=size, dtype="float32"),
        cut(f"{name}.D", inner),
        row(f"{name}.out_proj", inner, hidden, bias=bias, is_linear=False),
    ]
    if norms:
        parts += [whole(f"{name}.dt_layernorm", rank), *(whole(f"{name}.{b}", size) for b in "bc")]
    return parts


def mamba2(config: Config, name: str, norm: str | bool = True) -> list[Part]:
    """Return a Mamba-2 mixer; its groups are whole on every rank."""
    state, hidden = config.state, config.hidden
    inner, heads = state.intermediate_size, (state.num_heads, 1)
    shared: Unit = (state.n_groups, state.state_size)
    bias = _projections_have_bias(config)
    parts = [
        column(
            f"{name}.in_proj",
            *projected(config),
            inputs=hidden,
            bias=bias,
            merges=state.n_groups,
        ),
        _conv(config, name, inner, shared, shared),
        cut(f"{name}.A", heads, dtype="float32"),
        cut(f"{name}.D", heads),
        cut(f"{name}.dt_bias", heads),
        row(f"{name}.out_proj", inner, hidden, bias=bias),
        whole(f"{name}.offsets", 1, dtype="float32", kind=DRAFTED),
    ]
    return [*parts, cut(f"{name}.norm", inner)] if config.flag(norm) else parts


def projected(config: Config) -> tuple[Unit, ...]:
    """Return what the input projection of Mamba-2 makes: gate, x, B, C and time steps."""
    state = config.state
    inner, shared = state.intermediate_size, (state.n_groups, state.state_size)
    return inner, inner, shared, shared, (state.num_heads, 1)


def _conv(config: Config, name: str, *channels: Unit) -> Part:
    """Return the convolution; Zamba 2 always has a bias, and other classes by default."""
    key = "mamba_conv_bias" if config.fields.has("mamba_conv_bias") else "use_conv_bias"
    kernel, bias = config.state.conv_kernel, config.flag(key, default=True)
    return cut(f"{name}.conv1d", *channels, inputs=kernel, bias=bias)


INTERLEAVED = frozenset({"qwen3_next"})
"""Types whose projections are one output each (`gqa_interleaved_layout`)."""


def delta_net(config: Config) -> list[Part]:
    """Return a gated delta net of Qwen's."""
    state = config.state
    keys = (state.num_key_heads, state.key_head_dim)
    values, heads = (state.num_value_heads, state.value_head_dim), (state.num_value_heads, 1)
    qkvz, ba = [keys, keys, values, values], [heads, heads]
    gates = GATES
    if config.kind in INTERLEAVED:
        qkvz, ba, gates = [_joined(qkvz)], [_joined(ba)], ""
    return [
        column("linear_attn.in_proj_qkvz", *qkvz, inputs=config.hidden),
        column("linear_attn.in_proj_ba", *ba, inputs=config.hidden, repeated=gates),
        cut("linear_attn.conv1d", keys, keys, values, inputs=state.conv_kernel),
        cut("linear_attn.dt_bias", heads),
        cut("linear_attn.A_log", heads, dtype="float32"),
        whole("linear_attn.norm", state.value_head_dim),
        row("linear_attn.out_proj", values[0] * values[1], config.hidden),
    ]


def _joined(units: list[tuple[int, int]]) -> tuple[int, int]:
    """Return one output in place of several."""
    return sum(count * size for count, size in units), 1


def olmo_delta_net(config: Config) -> list[Part]:
    """Return a gated delta net of OLMo's, whose logarithms are in the model's dtype."""
    qkvz, ba, *parts, out = delta_net(config)
    apart = (ba._replace(outputs=(one,), repeated="") for one in ba.outputs)
    return [qkvz, *apart, *(part._replace(dtype=None) for part in parts), out]


K3_MULTIPLE = 16
"""To which KimiK3DeltaAttention rounds up the outputs of its projections on a rank."""


def kimi_delta(config: Config) -> list[Part]:
    """Return Kimi delta attention: gates and decays by projections of low rank."""
    state, hidden = config.state, config.hidden
    heads: Unit = (state.num_heads, state.head_dim)
    size, all_heads = state.head_dim, state.num_heads * state.head_dim
    apart = [
        *(column(f"self_attn.{one}_proj", heads, inputs=hidden) for one in "qkv"),
        whole("self_attn.f_a_proj", size, inputs=hidden, is_linear=True),
        column("self_attn.b_proj", (state.num_heads, 1), inputs=hidden),
    ]
    is_full = bool(config.mapping("linear_attn_config").get("use_full_rank_gate"))
    narrow: list[Unit] = [(state.num_heads, 1), (1, size)]
    merged = (3 + is_full) * [heads] + (narrow[::-1] if is_full else narrow)
    low = [
        whole("self_attn.g_a_proj", size, inputs=hidden, is_linear=True),
        column("self_attn.g_b_proj", heads, inputs=size),
    ]
    # KimiK3KDA keeps both again for the kernels of Hopper and later, as 32-bit floats.
    copies = [
        cut("decode_conv1d_weight", heads, inputs=3 * state.conv_kernel, dtype="float32"),
        whole("decode_norm_weight", size, dtype="float32"),
    ]
    return [
        *([] if is_full else [part._replace(kind=EARLIER) for part in apart]),
        column(
            "self_attn.in_proj_qkvgfab",
            *merged,
            inputs=hidden,
            kind=LATER,
            multiple=K3_MULTIPLE if is_full else 1,
        ),
        *(copies if is_full else low),
        *(
            cut(f"self_attn.{one}_conv1d", heads, inputs=state.conv_kernel, dtype="float32")
            for one in "qkv"
        ),
        column("self_attn.f_b_proj", heads, inputs=size),
        cut("self_attn.dt_bias", heads, dtype="float32"),
        cut("self_attn.A_log", (state.num_heads, 1), dtype="float32"),
        whole("self_attn.o_norm", size),
        row("self_attn.o_proj", all_heads, hidden),
    ]


def ling_delta(config: Config) -> list[Part]:
    """Return Kimi delta attention of Ling 3, whose projections are whole."""
    state, hidden, name = config.state, config.hidden, "self_attn"
    heads: Unit = (state.num_heads, state.head_dim)
    one_each = (state.num_heads, 1)
    return [
        column(f"{name}.qkvb_proj", *3 * [heads], one_each, inputs=hidden),
        *(column(f"{name}.{one}_proj", heads, inputs=hidden) for one in "fg"),
        *3 * [cut(f"{name}.conv1d", heads, inputs=state.conv_kernel, dtype="float32")],
        cut(f"{name}.dt_bias", heads, dtype="float32"),
        cut(f"{name}.A_log", one_each, dtype="float32"),
        whole(f"{name}.o_norm", state.head_dim),
        row(f"{name}.o_proj", state.num_heads * state.head_dim, hidden),
    ]


def short_conv(config: Config) -> list[Part]:
    """Return a short convolution between two projections."""
    state, bias = config.state, config.flag("conv_bias")
    width = state.layer_dim or state.conv_dim
    linear = [
        column("short_conv.in_proj", width, width, width, inputs=width, bias=bias),
        row("short_conv.out_proj", width, width, bias=bias),
    ]
    return [
        cut("short_conv.conv", width, inputs=state.conv_kernel, bias=bias),
        # ShortConv.__init__ passes the method of quantization on from 0.33 on
        *(part._replace(kind=EARLIER, is_linear=False) for part in linear),
        *(part._replace(kind=LATER) for part in linear),
    ]
