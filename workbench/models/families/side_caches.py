"""Models whose attention layers keep caches of their own alongside: keys that choose tokens.

MiniMax-M3 keeps a key of every token in its sparse layers. GLM-5.3-Flash and Qwen4-Exp keep one key
of several tokens, and those that are not in one yet in a ring, a block of each request.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from workbench.core.model import (
    FULL,
    INDEX_KEY,
    INDEXER_KEYS,
    SSM,
    Attention,
    CompressedCache,
    Layer,
)
from workbench.core.packing import SCALE_BYTES
from workbench.core.states import KimiDeltaAttention, Ring, ShortConv
from workbench.models.attention import read_attention
from workbench.models.families.linear import delta_state, delta_state_dtype
from workbench.models.family import register
from workbench.models.fields import Fields
from workbench.models.layer_lists import Words, first_list
from workbench.models.mtp import M3_COUNT, QWEN_COUNT, READERS, one_each

TAIL = ".indexer.tail"
BFLOAT16 = "bfloat16"
SPARSE, M3_BACKENDS = "sparse_attention_config", ("MINIMAX_M3_SPARSE", "MINIMAX_M3_SPARSE_INDEXER")
POOLED_BACKENDS = ("GLM5_NEXT_INDEXER", "KPOOL_TAIL")
QSA_BACKEND, QSA_STATE = "QWEN4_EXP_QSA_TRITON", "QWEN4_EXP_EXP_QSA_STATE"
POOL = 16
"""Tokens of a key where the file has no number: the default of Glm5NextTextConfig, 5.16."""
POOLED_RING = "must be a multiple of the tail ring ({ring})"
QSA_RING = "QSA ring capacity {ring} must divide the attention block size {block}"
POSITIONS = 12
"""Elements of a key's three positions, where images have them."""
WORDS: Words = {
    "linear_attention": SSM,
    "full_attention": FULL,
    "deepseek_sparse_attention": FULL,
    "qwen_sparse_attention": FULL,
}


def _with(
    caches: tuple[CompressedCache, ...], number: int, *, makes_spec: bool = False
) -> tuple[Layer, ...]:
    """Return the layers of one attention layer: its caches, then the attention itself."""
    own = (Layer(number=number, kind=FULL, cache=cache) for cache in caches)
    return (*own, Layer(number=number, kind=FULL, makes_spec=makes_spec))


def _chosen(fields: Fields) -> list[bool]:
    """Return which layers choose the tokens that they read."""
    # _sparse_attention_layer_ids of minimax_m3/nvidia/model.py, 0.33.
    count = fields.layer_count()
    if not fields.has(SPARSE):
        return [False] * count
    place = fields.child(SPARSE)
    flags = place.raw("sparse_attention_freq")
    if flags is None:
        return [False] * count
    if not isinstance(flags, list) or not all(flag in (0, 1) for flag in flags):
        raise place.wrong("sparse_attention_freq", flags, "a list of 0 and 1")
    # Of layers past its end nothing is said, and entries past the last layer are not read.
    return [bool(flag) for flag in (*flags[:count], *[0] * (count - len(flags)))]


def _m3_sparse(fields: Fields, number: int) -> tuple[Layer, ...]:
    """Return a layer that chooses tokens (MiniMaxM3SparseAttention, 0.33)."""
    size = fields.child(SPARSE).integer("sparse_index_dim", 128)
    keys = CompressedCache(
        part=INDEXER_KEYS, elements=size, stored=BFLOAT16, backend=M3_BACKENDS[1]
    )
    return _with((keys,), number, makes_spec=True)


def _m3_layers(fields: Fields) -> tuple[Layer, ...]:
    return tuple(
        layer
        for number, is_chosen in enumerate(_chosen(fields))
        for layer in (_m3_sparse(fields, number) if is_chosen else _with((), number))
    )


def _m3_attention(fields: Fields) -> Attention:
    backends = M3_BACKENDS if any(_chosen(fields)) else ()
    return replace(read_attention(fields), side_backends=backends)


def _kinds(fields: Fields) -> tuple[str, ...]:
    kinds = first_list(fields, {"layer_types": WORDS})
    if kinds is not None:
        return kinds
    return tuple(SSM if (at + 1) % 4 else FULL for at in range(fields.layer_count()))


def _pool(fields: Fields) -> int:
    """Return the tokens of one key of GLM-5.3-Flash."""
    pool = fields.integer("index_kpool", POOL)
    if pool == 1:
        raise fields.wrong("index_kpool", pool, "at least 2, the tokens of one key")
    return pool


def _pooled_caches(fields: Fields) -> tuple[CompressedCache, ...]:
    """Return the caches of GLM-5.3-Flash: fp8 keys of 16 tokens, and keys and scores in a ring."""
    # Glm5NextIndexerCache and Glm5NextTailCache, 0.33.
    size, pool = fields.integer("index_head_dim", 128), _pool(fields)
    keys = CompressedCache(
        part=INDEXER_KEYS,
        elements=size + size // 128 * SCALE_BYTES,
        stored=INDEX_KEY,
        tokens_per_state=pool,
        backend=POOLED_BACKENDS[0],
    )
    tail = CompressedCache(
        part=TAIL,
        elements=size,
        stored=BFLOAT16,
        backend=POOLED_BACKENDS[1],
        ring=Ring(tokens=pool, unit_tokens=pool, refusal=POOLED_RING),
        num_heads=2,
    )
    return keys, tail


def _pooled_layers(fields: Fields) -> tuple[Layer, ...]:
    caches = _pooled_caches(fields)
    return tuple(
        layer
        for number, kind in enumerate(_kinds(fields))
        for layer in (_with(caches, number) if kind == FULL else (Layer(number=number, kind=SSM),))
    )


def _pooled_attention(fields: Fields) -> Attention:
    rank = fields.integer("kv_lora_rank", 512)
    fields.note("head_size", rank, "kv_lora_rank (MLA without a rotary part)")
    return Attention(
        num_heads=fields.integer("num_attention_heads", name="num_heads"),
        num_kv_heads=1,
        head_size=rank,
        use_mla=True,
        is_sparse=True,
        qk_nope_head_dim=fields.integer("qk_nope_head_dim", 256),
        qk_rope_head_dim=0,
        v_head_dim=fields.integer("v_head_dim", 256),
        side_backends=POOLED_BACKENDS,
        key_tokens=_pool(fields),
        chosen_tokens=fields.integer("index_topk", 2048),
    )


def _pooled_state(fields: Fields) -> KimiDeltaAttention:
    place, keys = fields, ("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim")
    if fields.has("linear_attn_config"):
        place = fields.child("linear_attn_config")
        keys = ("num_heads", "head_dim", "short_conv_kernel_size")
    heads, size, kernel = (
        place.integer(key, default) for key, default in zip(keys, (64, 128, 4), strict=True)
    )
    return KimiDeltaAttention(heads, size, kernel, is_bounded=True)


def _has_positions(fields: Fields) -> bool:
    """Return whether keys have positions of images: the class for text alone drops them."""
    rope = fields.raw("rope_parameters")
    return bool(fields.prefix) and isinstance(rope, Mapping) and "mrope_section" in rope


def _qsa_caches(fields: Fields) -> tuple[CompressedCache, ...]:
    """Return the caches of Qwen's sparse attention, none where no layer chooses tokens."""
    # QSAKeyStateCache and QSACompressedKeyCache, 0.33.
    if not fields.has("indexer_n_heads"):
        return ()
    size, ratio = fields.integer("indexer_head_dim"), fields.integer("indexer_compress_ratio")
    raw = -(-size // 4) * 4 + POSITIONS if _has_positions(fields) else size
    common = partial(CompressedCache, stored=BFLOAT16, backend=QSA_STATE)
    return (
        common(
            part=TAIL,
            elements=raw,
            ring=Ring(
                tokens=ratio,
                unit_tokens=ratio,
                is_power_of_two=False,
                refusal=QSA_RING,
                positions=raw - size,
            ),
        ),
        common(part=INDEXER_KEYS, elements=size, tokens_per_state=ratio),
    )


def _qwen4_layers(fields: Fields) -> tuple[Layer, ...]:
    """Return the layers; those with embeddings of their own have a convolution first."""
    caches, kinds = _qsa_caches(fields), _kinds(fields)
    embedded = fields.index_list("ple_layer_ids", first=1) or frozenset()
    conv = Layer(number=0, kind=SSM, state=_embedding_state(fields) if embedded else None)
    found: list[Layer] = []
    for number, kind in enumerate(kinds):
        if number in embedded:
            found.append(conv._replace(number=number))
        found += _with(caches, number) if kind == FULL else (Layer(number=number, kind=SSM),)
    return tuple(found)


def _embedding_state(fields: Fields) -> ShortConv:
    # get_ple_mamba_state_shape_from_config, 0.33: whole on every rank, its steps are dilated.
    width = fields.integer("hidden_size") * fields.integer("hc_count", 4)
    taps = fields.integer("ple_conv_kernel_size", 4) - 1
    return ShortConv(width, taps * fields.integer("ngram_size", 3) + 1)


def _qwen4_attention(fields: Fields) -> Attention:
    attention = read_attention(fields)
    if not _qsa_caches(fields):
        return attention
    return replace(attention, own_backend=QSA_BACKEND, side_backends=(QSA_STATE,))


register(
    "minimax_m3",
    {
        "minimax_m3_text": ("MiniMaxM3SparseForCausalLM",),
        "minimax_m3_vl": ("MiniMaxM3SparseForConditionalGeneration",),
        "minimax_m3": ("MiniMaxM3SparseForCausalLM",),
    },
    _m3_layers,
    attention=_m3_attention,
)
register(
    "glm5_next",
    {
        "glm5_next": ("Glm5NextForConditionalGeneration", "Glm5NextForCausalLM"),
        "glm5_next_text": ("Glm5NextForCausalLM",),
    },
    _pooled_layers,
    _pooled_state,
    attention=_pooled_attention,
    names_attention_layers=False,
)
register(
    "qwen4_exp",
    {
        "qwen4_exp": ("Qwen4ExpForConditionalGeneration",),
        "qwen4_exp_text": ("Qwen4ExpForCausalLM",),
    },
    _qwen4_layers,
    delta_state,
    attention=_qwen4_attention,
    ssm_cache_dtype=delta_state_dtype,
    names_attention_layers=False,
)

# Their MTP layers choose tokens, whatever the lists say (force_sparse_attn of MiniMax-M3).
READERS |= {
    **dict.fromkeys(
        ("minimax_m3_vl", "MiniMaxM3SparseForConditionalGeneration"),
        partial(
            one_each,
            key=M3_COUNT,
            default=1,
            is_named_apart=True,
            block=lambda fields, _index: _m3_sparse(fields, 0),
        ),
    ),
    "glm5_next": partial(one_each, block=lambda fields, _index: _with(_pooled_caches(fields), 0)),
    **dict.fromkeys(
        ("qwen4_exp", "qwen4_exp_text"),
        partial(
            one_each,
            key=QWEN_COUNT,
            default=1,
            block=lambda fields, _index: _with(_qsa_caches(fields), 0),
        ),
    ),
}
