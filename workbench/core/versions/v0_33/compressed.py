"""The backends of DeepSeek-V4.1's compressed attention, which its layers choose themselves.

Sources: `_select_dsv4_attn_cls` in `vllm/models/deepseek_v41/nvidia/model.py`,
`_resolve_dsv4_kv_cache_dtype` in its `attention.py`, and the backend classes alongside, 0.33.
"""

from functools import partial

from workbench.core.backends import UNQUANTIZED, Backend, Capabilities, LayerQuery, Rank
from workbench.core.model import V41
from workbench.core.packing import NVFP4_DS
from workbench.core.versions.v0_23.compressed import COMPRESSED, NAMED_FP8
from workbench.core.versions.v0_23.conditions import on_sm10x
from workbench.core.versions.v0_33 import layouts
from workbench.core.versions.v0_33.conditions import on_sm12x

HEADS_PER_OUTPUT_GROUP = 8
PACKED = ("fp8_ds_mla",)


def on_sm9x(query: LayerQuery) -> bool:
    """Return whether the device is an SM9x."""
    return query.major == 9


def fits_mega_attention(query: LayerQuery) -> bool:
    """Return whether the kernel of SM10x runs the heads of a rank."""
    # DeepseekV4MegaAttnAttention.is_available_for
    heads, groups = query.attention.num_heads, query.attention.output_groups or 0
    whole = groups and heads // groups == HEADS_PER_OUTPUT_GROUP
    return on_sm10x(query) and bool(whole) and query.heads_per_rank % HEADS_PER_OUTPUT_GROUP == 0


def plain_on_sm10x(query: LayerQuery) -> str | None:
    """Return why FlashInfer refuses packed records there: it keeps plain vectors."""
    packed = on_sm10x(query) and query.kv_cache_dtype in PACKED
    return "kv_cache_dtype not supported" if packed else None


V4_1 = partial(
    COMPRESSED,
    compression=V41,
    supported=(128,),
    kv_cache_dtypes=("auto", "fp8", *PACKED),
    stored_kv_cache_dtypes=dict.fromkeys(("auto", "fp8"), PACKED[0]),
    cache=layouts.COMPRESSED,
)
WITH_4_BITS = ((NVFP4_DS,), on_sm10x)

COMPRESSED_V41 = (
    V4_1(
        "FLASHMLA_MEGA_ATTN_DSV41",
        capabilities=Capabilities(majors=(10,)),
        extra_kv_cache_dtypes=WITH_4_BITS,
        stored_kv_cache_dtypes=dict.fromkeys(("auto", "fp8"), NVFP4_DS),
        ranks=(Rank("cuda", 5, fits_mega_attention),),
    ),
    V4_1(
        "FLASHMLA_SPARSE_DSV41",
        supported_when=((on_sm9x, (64,)),),
        capabilities=Capabilities(majors=(9, 10)),
        extra_kv_cache_dtypes=WITH_4_BITS,
        ranks=(Rank("cuda", 10),),
    ),
    V4_1(
        "FLASHINFER_MLA_SPARSE_DSV41",
        capabilities=Capabilities(majors=(10, 12)),
        extra_kv_cache_dtypes=((*UNQUANTIZED, *NAMED_FP8), on_sm10x),
        own_reason=plain_on_sm10x,
        stored_where=on_sm12x,
        ranks=(Rank("cuda", 5, on_sm12x),),
    ),
    Backend(
        "DEEPSEEK_V41_INDEXER",
        platforms=("cuda",),
        supported=(128,),
        supported_when=((on_sm9x, (64,)),),
        is_sparse=True,
        is_helper=True,
        cuda_graphs="UNIFORM_BATCH",
        cache=layouts.LATENT,
        orders=("BLHNC", "BLNHC"),
    ),
)

OWN_NAMES_V41 = frozenset(record.name for record in COMPRESSED_V41)
"""What its layers take notice of."""
