"""DeepSeek-V4: every layer keeps the last tokens; most keep others compressed, 4 or 128 in one.

Compressed tokens are made of states of their own; a layer that compresses 4 has an indexer, which
compresses, too. Sources: `DeepseekV4Attention`, `DeepseekV4Indexer` and `CompressorStateCache` of
0.23 and 0.33, `DeepseekV4Config` of transformers 5.
"""

from collections.abc import Iterable
from functools import partial

from workbench.core import model
from workbench.models.family import register
from workbench.models.fields import MAX_LAYERS, Fields
from workbench.models.mtp import READERS, one_each

RATIOS, RATES, KINDS = "compress_ratios", "compress_rates", "layer_types"
LITTLE, MUCH, NOT = "compressed_sparse_attention", "heavily_compressed_attention", model.SLIDING
RATE_OF_KIND = {LITTLE: 4, MUCH: 128, NOT: 0}
WITH_INDEXER = 4
"""Tokens in one vector of the layers that choose what they read."""
STATE_BLOCKS = {4: 4, 128: 8}
"""Tokens in one vector -> tokens of a block of the states that it is made of."""
WINDOW_BLOCK = 64
SCALES = 4
"""Bytes of the scale of an indexer's key."""
DSPARK_LAYERS = 3
"""Of DSpark's drafter, where config.json does not say how many."""


def compress_ratios(fields: Fields) -> tuple[int, ...]:
    """Return how many tokens each layer compresses into one, 0 for none; MTP layers omitted."""
    count = fields.layer_count()
    if fields.has(KINDS):
        kinds = fields.layer_list(KINDS, {kind: kind for kind in RATE_OF_KIND}) or ()
        rates = fields.child(RATES) if fields.has(RATES) else None
        found = tuple(_rate(rates, kind) for kind in kinds)
    elif fields.has(RATIOS):
        words = {1: "0", **{ratio: str(ratio) for ratio in (0, *STATE_BLOCKS)}}
        found = tuple(map(int, fields.layer_list(RATIOS, words) or ()))
    else:
        found = tuple(4 if at % 2 and at > 1 else 128 for at in range(count))
    if len(found) < count:
        raise fields.contradiction(
            "num_hidden_layers", f"{count} layers, but only {len(found)} compress ratios"
        )
    return found[:count]


def _rate(rates: Fields | None, kind: str) -> int:
    if rates is None or kind == NOT:
        return RATE_OF_KIND[kind]
    rate = rates.integer(kind, RATE_OF_KIND[kind])
    if rate not in STATE_BLOCKS:
        raise rates.wrong(kind, rate, f"one of {', '.join(map(str, STATE_BLOCKS))}")
    return rate


def _states(part: str, elements: int, ratio: int) -> model.CompressedCache:
    """Return the values and scores that one vector is made of, in float32.

    With four tokens in one vector two runs of them overlap, so there are twice as many.
    """
    runs = 2 if ratio == WITH_INDEXER else 1
    return model.CompressedCache(
        part=f"{part}.compressor.state_cache",
        elements=2 * runs * elements,
        stored=model.FLOAT32_STATE,
        window_tokens=runs * ratio,
        block_size=STATE_BLOCKS[ratio],
    )


def window(fields: Fields) -> model.CompressedCache:
    """Return the cache of the last tokens, which every layer has and a drafter's has alone."""
    return model.CompressedCache(
        part=".swa_cache",
        elements=fields.integer("head_dim"),
        window_tokens=fields.integer("sliding_window"),
        block_size=WINDOW_BLOCK,
    )


def _drafted(fields: Fields) -> model.Layer:
    return model.Layer(number=0, kind=model.SLIDING, cache=window(fields))


def _dspark(fields: Fields) -> tuple[model.Layer, ...]:
    """Return the layers of `DSparkDeepseekV4Model`, which reads hidden states of these layers."""
    if not all(map(fields.has, ("dspark_target_layer_ids", "dspark_noise_token_id"))):
        return ()
    count = fields.integer("n_mtp_layers", DSPARK_LAYERS, minimum=0, maximum=MAX_LAYERS)
    return (_drafted(fields),) * (count or DSPARK_LAYERS)


def index_keys(fields: Fields, ratio: int) -> model.CompressedCache:
    """Return the keys of the indexer, which chooses what a query reads."""
    key = fields.integer("index_head_dim")
    return model.CompressedCache(
        part=model.INDEXER_KEYS,
        elements=key + key // 128 * SCALES,
        stored=model.INDEX_KEY,
        tokens_per_state=ratio,
    )


def to_caches(caches: Iterable[Iterable[model.CompressedCache]]) -> tuple[model.Layer, ...]:
    """Return a layer per cache; caches: of every layer of the model, in the order of building."""
    return tuple(
        model.Layer(
            number=number, kind=model.SLIDING if cache.window_tokens else model.FULL, cache=cache
        )
        for number, own in enumerate(caches)
        for cache in own
    )


def _caches(fields: Fields, ratio: int) -> tuple[model.CompressedCache, ...]:
    """Return the caches of a layer, in the order in which they are built."""
    last = window(fields)
    if not ratio:
        return (last,)
    size = last.elements
    whole = model.CompressedCache(part="", elements=size, tokens_per_state=ratio)
    own = (last, whole, _states("", size, ratio))
    if ratio != WITH_INDEXER:
        return own
    return (
        index_keys(fields, ratio),
        _states(".indexer", fields.integer("index_head_dim"), ratio),
        *own,
    )


def _layers(fields: Fields) -> tuple[model.Layer, ...]:
    ratios = compress_ratios(fields)
    caches = {ratio: _caches(fields, ratio) for ratio in set(ratios)}
    return to_caches(caches[ratio] for ratio in ratios)


def read_compressed(fields: Fields) -> model.Attention:
    """Return the geometry of compressed attention: of DeepSeek-V4, unless replaced."""
    return model.Attention(
        num_heads=fields.integer("num_attention_heads", name="num_heads"),
        num_kv_heads=1,
        head_size=fields.integer("head_dim", name="head_size"),
        use_mla=True,
        is_sparse=True,
        compression=model.V4,
        has_sinks=True,
        window_tokens=fields.integer("sliding_window", name="window_tokens"),
        qk_rope_head_dim=fields.integer("qk_rope_head_dim"),
    )


register(
    "compressed",
    {"deepseek_v4": ("DeepseekV4ForCausalLM", "DeepseekV4ForConditionalGeneration")},
    _layers,
    attention=read_compressed,
    dspark=_dspark,
)
READERS["deepseek_v4"] = partial(
    one_each, default=1, block=lambda fields, _index: (_drafted(fields),)
)
