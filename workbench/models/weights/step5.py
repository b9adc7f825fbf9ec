"""Weights of Step 5: an indexer of sparse layers next to what Step 3.5 has.

Source: `vllm/models/step5`, 0.33.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workbench.core.weights import Part
from workbench.models.weights.kinds import unscaled
from workbench.models.weights.listed_experts import other_heads, step_attention, step_feed
from workbench.models.weights.parts import Config, cut, norms, whole

WINDOWED = "sliding_attention"
STEP5 = {"proxy_dim": 256, "sparse_indexer_rope_dim": 32, "index_tp_size": 4}
STEP5 |= {"sparse_indexer_num_heads": 16, "sparse_indexer_num_k_heads": 1}
"""Sizes of Step 5's indexer where a file has none (`Step5SparseConfig`)."""


def step5_layer(config: Config, number: int) -> list[Part]:
    """Return a layer of Step 5: norms of their own dtype, an indexer where a layer is sparse."""
    is_windowed, usual = number not in full_layers(config), config.attention
    own = config.size("swa_num_attention_heads", default=0) if is_windowed else 0
    heads = other_heads(config, number) or usual
    heads = replace(heads, num_heads=own or heads.num_heads)
    qkv, out, scales, *normed = unscaled(step_attention(config, heads))
    is_sparse = not is_windowed and sparse_indexer(config) is not None
    gates = [normed.pop()] * config.flag("use_head_wise_attn_gate")
    floats = [one._replace(dtype=config.raw("norm_dtype")) for one in (*normed, *norms(config, 2))]
    rest = [out, scales, *floats, *step_feed(config, number)]
    if not is_sparse:
        return [qkv, *gates, *rest]
    # in one layer with the indexer, which is never quantized
    plain = (one._replace(is_linear=False) for one in (qkv, *gates))
    return [*plain, *rest, *_step5_indexer(config, heads.num_heads)]


def sparse_indexer(config: Config) -> Mapping[str, Any] | None:
    """Return what Step 5's sparse layers choose tokens by; None where they read all of them."""
    found = config.raw("sparse_config")
    is_read = isinstance(found, Mapping) and found.get("enabled") is not False
    return {key: found.get(key) or one for key, one in STEP5.items()} if is_read else None


def _step5_indexer(config: Config, heads: int) -> list[Part]:
    """Return an indexer, whose heads the ranks share in groups, and a number per head."""
    sparse = sparse_indexer(config) or {}
    count, keys, size = (
        int(sparse[f"{one}"])
        for one in ("sparse_indexer_num_heads", "sparse_indexer_num_k_heads", "proxy_dim")
    )
    groups, hidden = int(sparse["index_tp_size"]), config.hidden
    name = "self_attn.sparse_indexer"
    return [
        cut(f"{name}_q", (groups, count // groups * size), inputs=hidden),
        cut(f"{name}_kz", *2 * [(keys, size)], inputs=hidden),
        cut(f"{name}_w", (groups, count // groups), inputs=hidden),
        whole("self_attn.ssmax_s", heads, dtype="float32"),
        whole(f"{name}_q_norm", size),
        whole(f"{name}_k_norm", size, bias=True),
    ]


def full_layers(config: Config) -> frozenset[int]:
    """Return the layers that are not windowed, those of multi-token prediction aside."""
    kinds = config.raw("layer_types", ())
    numbers = range(config.model.num_hidden_layers)
    return frozenset(number for number in numbers if kinds[number] != WINDOWED)
