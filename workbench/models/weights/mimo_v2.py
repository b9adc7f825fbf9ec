"""Weights of MiMo-V2: heads of their own in windows, and projections stored for several ranks.

Source: `mimo_v2.py` and `mimo_v2_mtp.py`, 0.23 and 0.33.
"""

from collections.abc import Mapping

from workbench.core.weights import CHUNKED, ROW, Part
from workbench.models.weights.decoders import Decoder
from workbench.models.weights.listed_experts import ListedMoe
from workbench.models.weights.parts import Config, cache_scales, column, cut, mlp, norms, row

SCALED_ROWS = 128
"""Rows of a weight that have one scale."""


def mimo_v2_layer(config: Config, number: int) -> list[Part]:
    """Return a layer of MiMo-V2."""
    dtype = config.raw("moe_router_dtype", "float32")
    marked = ListedMoe(
        correction=True, router_dtype=dtype, lists=("moe_layer_freq",), only_listed=True
    )
    layer = Decoder(moe=marked)
    is_windowed = config.raw("hybrid_layer_pattern")[number] == 1
    return [
        *_mimo_v2_attention(config, is_windowed=is_windowed),
        *layer.feed_forward(config, number),
        *norms(config, 2),
    ]


def _mimo_v2_attention(config: Config, *, is_windowed: bool) -> list[Part]:
    """Return attention of MiMo-V2, which has heads and sinks of its own in windows."""
    kind, name = ("swa_" if is_windowed else ""), "self_attn"
    queries, kv, size = (
        config.size(f"{kind}{key}")
        for key in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    value = config.size(f"{kind}v_head_dim", default=size)
    sinks = is_windowed and config.flag("add_swa_attention_sink_bias")
    heads, bias = ((queries, size), (kv, size), (kv, value)), config.flag("attention_bias")
    chunks = config.size("num_key_value_heads")
    padding = _padding_of_chunks(config, *(one * width // chunks for one, width in heads))
    return [
        column(f"{name}.qkv_proj", *heads, inputs=config.hidden, bias=bias),
        *[column(f"{name}.qkv_proj", (chunks, padding), inputs=config.hidden, kind=CHUNKED)]
        * (padding > 0),
        row(f"{name}.o_proj", queries * value, config.hidden),
        cache_scales(f"{name}.attn"),
        *[cut(f"{name}.sinks", queries)] * sinks,
    ]


def _padding_of_chunks(config: Config, queries: int, keys: int, values: int) -> int:
    """Return how many rows a chunk of a fused projection lacks to whole blocks of scales.

    A rank that has several chunks keeps the keys and values of each together.
    """
    scaled = config.fields.top.get("quantization_config")
    in_blocks = isinstance(scaled, Mapping) and scaled.get("weight_block_size")
    is_fused = config.raw("attention_projection_layout") == "fused_qkv" and in_blocks
    is_whole = not (keys % SCALED_ROWS or values % SCALED_ROWS)
    if not is_fused or queries % SCALED_ROWS or is_whole:
        return 0
    return -(keys + values) % SCALED_ROWS


def mimo_v2_draft(config: Config, _number: int) -> list[Part]:
    """Return a layer of MiMo-V2 for multi-token prediction: a window, and no experts."""
    mixer = _mimo_v2_attention(config, is_windowed=True)
    # MiMoV2Attention never quantizes its output there
    parts = [one._replace(is_linear=one.is_linear and one.shard != ROW) for one in mixer]
    feed = mlp(config, "mlp", config.size("intermediate_size"))
    return [*parts, *feed, *norms(config, 2)]
