"""Weights of layers between residual streams: DeepSeek-V4's mixing, GLM-5.3-Flash, Qwen4-Exp.

Source: `vllm/models/deepseek_v4`, `glm5next` and `qwen4_exp`, 0.33.
"""

from dataclasses import replace

from workbench.core.ranks import ONE_STAGE, SHARED_EXPERT
from workbench.core.weights import MIXING, STEP, Part
from workbench.models.weights.decoders import QWEN, Decoder
from workbench.models.weights.listed_experts import ListedMoe
from workbench.models.weights.parts import Config, column, cut, latent, norms, whole
from workbench.models.weights.states import delta_net, kimi_delta
from workbench.models.weights.stored import LATENT

INTEGER = "float32"
"""Tables of 32-bit integers are as large."""


def floats(*sizes: int) -> list[Part]:
    """Return vectors of 32-bit floats."""
    return [whole("float", size, dtype="float32") for size in sizes]


def mixed_streams(config: Config) -> list[Part]:
    """Return what mixes the streams before and after the two halves of a layer."""
    streams = config.size("hc_mult", default=4)
    width = (2 + streams) * streams
    return 2 * [mixing("hc_fn", width, streams * config.hidden), *floats(width, 3)]


def mixing(name: str, outputs: int, width: int) -> Part:
    """Return what weighs residual streams; width: elements of a token in all of them."""
    return whole(name, outputs, inputs=width, dtype="float32", kind=MIXING)


HY = Decoder(moe=ListedMoe(shared=("n_shared_experts",), correction=True, router_dtype="float32"))


def hy_layer(config: Config, number: int) -> list[Part]:
    """Return a layer of Hunyuan 4: latents with sinks and a gate, between streams."""
    heads, hidden = config.attention.num_heads, config.hidden
    gate = (heads, config.size("v_head_dim"))
    plain = [one for one in latent(config, number) if "indexer" not in one.name]
    streams = config.size("hc_mult", default=4)
    mixed = mixing("hc_fn", 2 * streams, streams * hidden)
    return [
        *plain,
        cut("self_attn.learnable_sink_param", heads),
        column("self_attn.linear_gate", gate, inputs=hidden),
        *HY.feed_forward(config, number),
        *norms(config, 2),
        *2 * [mixed, *floats(2, 2 * streams)],
    ]


ALICE, ALICE_MOE = Decoder(bias=False, norm="head", gate=2), replace(QWEN, correction=True)


def alice_layer(config: Config, number: int) -> list[Part]:
    """Return a layer of Alice AI: Kimi's delta attention or Qwen's, and what weighs the earlier."""
    if config.attends(number):
        mixer = ALICE.attention(config)
    else:
        mixer = [
            one._replace(name=one.name.replace("self_attn", "linear_attn"))
            for one in kimi_delta(config)
        ]
    halves = 2 if number else 1
    return [
        *mixer,
        *ALICE_MOE.parts(config, number),
        *norms(config, 2),
        *halves * weighed_states(config),
    ]


def weighed_states(config: Config) -> list[Part]:
    """Return what weighs the states of earlier layers: by half, and after the last layer."""
    return [*norms(config, 1), whole("res_proj", 1, inputs=config.hidden)]


class GlmMoe(ListedMoe):
    """Experts in the layers that a list names, without one in all but the first three."""

    def has(self, config: Config, number: int) -> bool:
        """Return whether a layer has experts."""
        listed = config.raw("mlp_layer_types")
        if listed is None:
            return number >= 3
        # what follows the last layer, for multi-token prediction, is like it
        return super().has(config, min(number, len(listed) - 1))


GLM = Decoder(
    moe=GlmMoe(
        shared=("n_shared_experts",), correction="topk_method=noaux_tc", repeated=SHARED_EXPERT
    ),
    repeated=ONE_STAGE,
)


def pooled_layer(config: Config, number: int) -> list[Part]:
    """Return a layer of GLM-5.3-Flash."""
    streams = mixed_streams(config) if config.flag("mhc", default=True) else []
    return [*pooled_attention(config, number), *streams, *_fed(config, number)]


def _fed(config: Config, number: int) -> list[Part]:
    return [*GLM.feed_forward(config, number), *norms(config, 2)]


def pooled_attention(config: Config, number: int) -> list[Part]:
    """Return attention with keys of several tokens, or Kimi's delta attention: both stay plain."""
    # Glm5NextDecoderLayer and Glm5NextLinearAttention build them without a method of quantization.
    if config.has_state(number):
        mixer = kimi_delta(config)
    else:
        heads, size = config.size("index_n_heads", default=32), config.size("index_head_dim")
        rank, pool = config.size("q_lora_rank"), config.attention.key_tokens
        mixer = [
            *latent(config, number),
            whole("indexer.compress_ape", pool, inputs=size, dtype="float32"),
            whole("indexer.compress_gate", size, inputs=config.hidden),
            whole("indexer.wq_b", heads * size, inputs=rank),
            whole("indexer.wk_weights_proj", size, heads, inputs=config.hidden),
            whole("indexer.k_norm", size, bias=True, dtype="float32"),
        ]
    # without a method, attention has no places for the scales of a checkpoint either
    return [one._replace(name=one.name.removesuffix(LATENT), is_linear=False) for one in mixer]


def pooled_draft(config: Config, number: int) -> list[Part]:
    """Return a layer of GLM-5.3-Flash for multi-token prediction, which has one stream."""
    return [*pooled_attention(config, number), *_fed(config, number)]


QWEN4 = Decoder(bias=False, norm="head", gate=2, moe=replace(QWEN, repeated=SHARED_EXPERT))


def connected_layer(config: Config, number: int) -> list[Part]:
    """Return a layer of Qwen4-Exp between hyper-connections."""
    mixer = chosen_attention(config) if config.attends(number) else delta_net(config)
    wide = config.size("hc_count", default=4) * config.hidden
    parts = [*mixer, *connected(config, number)]
    if number + 1 in config.raw("ple_layer_ids", ()):
        # Its table is in the memory of the host (EngramConfig.cpu_offload).
        width = config.size("ple_embed_dim", default=config.hidden)
        taps = config.size("ple_conv_kernel_size", default=4)
        parts += [
            whole("ple.kv_proj", wide, config.hidden, inputs=width, is_linear=True),
            *(whole(f"ple.norm_{one}", wide) for one in range(3)),
            whole("ple.conv1d", wide, inputs=taps),
            *_hash_tables(config),
        ]
    return parts


def connected(config: Config, number: int) -> list[Part]:
    """Return experts, and the connections of both halves of a layer."""
    return [*QWEN4.feed_forward(config, number), *2 * _connection(config, blocks=1)]


def connected_draft(config: Config, number: int) -> list[Part]:
    """Return a layer of Qwen4-Exp for multi-token prediction."""
    return [*chosen_attention(config), *connected(config, number)]


def connected_ends(config: Config) -> list[Part]:
    """Return what is around those layers: projections, norms, and what joins the streams."""
    wide = config.size("hc_count", default=4) * config.hidden
    return [
        *(column(f"fc_{one}", config.hidden, inputs=config.hidden) for one in range(2)),
        whole("pre_fc_norm_embedding", config.hidden),
        whole("pre_fc_norm_hidden", wide),
        *connected_rest(config),
    ]


def _hash_tables(config: Config) -> list[Part]:
    """Return the factors of n-grams, and sizes and offsets of their tables, in 64 bits."""
    grams = config.size("ngram_size", default=3)
    heads = (grams - 1) * config.size("heads_per_ngram", default=8)
    return [whole("table", 2 * size, dtype=INTEGER) for size in (grams, heads, heads)]


def chosen_attention(config: Config) -> list[Part]:
    """Return attention to tokens that an indexer chooses, if there is one."""
    queries, out, scales, *rest = QWEN4.attention(config)
    if not config.size("indexer_n_heads", default=0):
        return [queries, out, scales, *rest]
    # Its class reads no scales from a checkpoint (Qwen4ExpQSAAttention).
    rest = [out, scales._replace(name="self_attn.scales"), *rest]
    heads, size = config.size("indexer_n_heads"), config.size("indexer_head_dim")
    chosen = config.size("indexer_budget") + config.size("indexer_compress_ratio")
    index = (1, (heads + 1) * size)  # whole on every rank
    return [
        queries._replace(outputs=(*queries.outputs, index)),
        whole("topk_indices_buffer", chosen, dtype=INTEGER, kind=STEP),
        *rest,
        *(whole(f"self_attn.indexer.{one}_layernorm", size) for one in "qk"),
    ]


def _connection(config: Config, blocks: int) -> list[Part]:
    """Return what joins the streams to one vector, and spreads it again for so many blocks."""
    streams, low = config.size("hc_count", default=4), config.size("hc_lowrank", default=320)
    wide = streams * config.hidden
    return [
        whole("hc_norm", wide),
        whole("input_mix_down", low + blocks * streams**2, inputs=wide, kind=MIXING),
        whole("input_mix_up", wide, inputs=low),
    ]


def connected_rest(config: Config) -> list[Part]:
    """Return what joins the streams of Qwen4-Exp after its last layer."""
    return _connection(config, blocks=0)
