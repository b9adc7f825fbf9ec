"""DeepSeek-V4.1: some layers compress, one or two tokens in a vector, and those after them read it.

Every layer keeps the last tokens, in a cache that is computed again after a prefix hit. A layer
that compresses two tokens keeps the last ones raw, in a ring. Sources: `DeepseekV4Attention`,
`DeepseekV4IndexerCache` and `CompressorStateCache` in `vllm/models/deepseek_v41/`, 0.33.
"""

from collections.abc import Sequence
from dataclasses import replace

from workbench.core import model
from workbench.core.states import Ring
from workbench.models.families.compressed import (
    DSPARK_LAYERS,
    index_keys,
    read_compressed,
    to_caches,
    window,
)
from workbench.models.family import register
from workbench.models.fields import MAX_LAYERS, Fields

RATIOS = "compress_ratios"
SOURCES, CHOOSERS = "kv_source_layer_ids", "index_source_layer_ids"
WINDOW_BLOCK, RING_BLOCK = 32, 8


def _numbers(fields: Fields, key: str) -> frozenset[int]:
    found = fields.raw(key)
    if not isinstance(found, Sequence) or not all(isinstance(one, int) for one in found):
        raise fields.wrong(key, found, "a list of layer numbers")
    return frozenset(found)


def _last(fields: Fields) -> model.CompressedCache:
    return replace(window(fields), block_size=WINDOW_BLOCK)


def _layer_caches(fields: Fields, number: int, ratio: int) -> tuple[model.CompressedCache, ...]:
    """Return the caches of a layer, in the order in which they are built."""
    last = _last(fields)
    if not ratio or number not in _numbers(fields, SOURCES):
        return (last,)
    whole = model.CompressedCache(part="", elements=last.elements, tokens_per_state=ratio)
    ring = model.CompressedCache(
        part=".compressor.state_cache",
        elements=2 * last.elements,
        stored=model.FLOAT32_STATE,
        ring=Ring(tokens=2, least_tokens=RING_BLOCK),
    )
    chooses = number in _numbers(fields, CHOOSERS)
    return (whole, *(index_keys(fields, ratio),) * chooses, last, *(ring,) * (ratio > 1))


def _layers(fields: Fields) -> tuple[model.Layer, ...]:
    count = fields.layer_count()
    listed = fields.layer_list(RATIOS, {one: str(one) for one in (0, 1, 2)}) or ()
    ratios = (*map(int, listed[:count]), *(0,) * (count - len(listed)))
    return to_caches(_layer_caches(fields, number, ratio) for number, ratio in enumerate(ratios))


def _dspark(fields: Fields) -> tuple[model.Layer, ...]:
    """Return the layers of `DSparkDeepseekV4Model`."""
    if not all(map(fields.has, ("dspark_target_layer_ids", "dspark_noise_token_id"))):
        return ()
    count = 0
    for key in ("n_mtp_layers", "num_nextn_predict_layers"):
        count = count or fields.integer(key, 0, minimum=0, maximum=MAX_LAYERS)
    layer = model.Layer(number=0, kind=model.SLIDING, cache=_last(fields))
    return (layer,) * (count or DSPARK_LAYERS)


def _attention(fields: Fields) -> model.Attention:
    return replace(
        read_compressed(fields), compression=model.V41, output_groups=fields.integer("o_groups")
    )


register(
    "shared_compressed",
    {"deepseek_v41": ("DeepseekV41ForCausalLM",)},
    _layers,
    attention=_attention,
    dspark=_dspark,
)
