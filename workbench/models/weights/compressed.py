"""Weights of DeepSeek-V4: compressed attention, and streams that are mixed."""

from workbench.core.ranks import ONE_STAGE
from workbench.core.weights import STREAMS, Part
from workbench.models.families.compressed import compress_ratios
from workbench.models.weights.parts import Config, column, cut, experts, mlp, norms, row, whole
from workbench.models.weights.streams import floats, mixed_streams, mixing

COMPRESSED_INDEX, SINK_MULTIPLE = 4, 64
"""Tokens of a vector whose layers have an indexer; heads to which sinks are padded."""


def compressed_layer(config: Config, number: int) -> list[Part]:
    """Return a layer of DeepSeek-V4: compressed attention, and streams that are mixed."""
    found, hidden = config.attention, config.hidden
    heads, size, rank = found.num_heads, config.size("head_dim"), config.size("q_lora_rank")
    groups, low = config.size("o_groups"), config.size("o_lora_rank")
    parts = [
        whole("attn.fused_wqa_wkv", rank, size, inputs=hidden, is_linear=True),
        column("attn.wq_b", (heads, size), inputs=rank),
        column("attn.wo_a", (groups, low), inputs=heads * size // groups),
        row("attn.wo_b", groups * low, hidden),
        cut("attn.attn_sink", heads, dtype="float32")._replace(multiple=SINK_MULTIPLE),
        whole("attn.q_norm", rank),
        whole("attn.kv_norm", size),
        *_compressor(config, number),
        *norms(config, 2),
    ]
    return [*parts, *mixed_streams(config), *_experts(config, number)]


def _compressor(config: Config, number: int) -> list[Part]:
    """Return what compresses the tokens of a layer, and its indexer."""
    if number >= config.model.num_hidden_layers:
        return []  # what drafts compresses nothing
    ratio, hidden = compress_ratios(config.fields)[number], config.hidden
    size = config.size("head_dim")
    if not ratio:
        return []
    pairs = 2 if ratio == COMPRESSED_INDEX else 1

    def compressor(wide: int) -> list[Part]:
        return [
            whole("attn.ape", ratio, inputs=pairs * wide, dtype="float32"),
            whole("attn.fused_wkv_wgate", 2 * pairs * wide, inputs=hidden),
            whole("attn.compressor.norm", wide),
        ]

    if ratio != COMPRESSED_INDEX:
        return compressor(size)
    heads, wide = config.size("index_n_heads"), config.size("index_head_dim")
    return [
        *compressor(size),
        *compressor(wide),
        whole("attn.indexer.wq_b", heads * wide, inputs=config.size("q_lora_rank"), is_linear=True),
        whole("attn.indexer.weights_proj", heads, inputs=hidden),
    ]


def _experts(config: Config, number: int) -> list[Part]:
    count, inner = config.size("n_routed_experts"), config.size("moe_intermediate_size")
    shared = inner * config.size("n_shared_experts", default=0)
    listed = config.raw("mlp_layer_types", ())  # by transformers 5
    if number < config.size("num_hash_layers", default=listed.count("hash_moe")):
        each, rows = config.size("num_experts_per_tok"), config.size("vocab_size")
        choice = [whole("ffn.gate.tid2eid", rows, inputs=each, dtype="float32")]
    else:
        corrected = config.flag("topk_method=noaux_tc")
        choice = [whole("ffn.gate.correction", count, dtype="float32")] * corrected
    return [
        whole("ffn.gate", count, inputs=config.hidden),
        *choice,
        *experts(config, "ffn.experts", count, inner),
        *(mlp(config, "ffn.shared_experts", shared, repeated=ONE_STAGE) if shared else ()),
    ]


def compressed_joint(config: Config) -> list[Part]:
    """Return what joins an embedding and the streams of the target for a draft."""
    hidden = config.hidden
    parts = [whole(name, hidden, inputs=hidden, is_linear=True) for name in ("e_proj", "h_proj")]
    return [*parts, *joined_streams(config)]


def target_streams(config: Config) -> list[Part]:
    """Return what joins the streams of DeepSeek-V4, and the streams that a drafter reads."""
    streams = config.size("hc_mult", default=4) * config.hidden
    return [*joined_streams(config), whole("streams", streams, kind=STREAMS)]


def joined_streams(config: Config) -> list[Part]:
    """Return what joins the streams of DeepSeek-V4 after its last layer."""
    streams = config.size("hc_mult", default=4)
    return [mixing("hc_head_fn", streams, streams * config.hidden), *floats(streams, 1)]
