"""The backends of compressed attention (DeepSeek-V4) in vLLM 0.23, one record each.

Its layers choose among their own classes, not from the list of a platform. Sources:
`_select_dsv4_attn_cls` and `_resolve_dsv4_kv_cache_dtype` in `vllm/models/deepseek_v4/`, 0.23.
"""

from functools import partial

from workbench.core.backends import Capabilities, HeadSizes, LayerQuery, Rank, always
from workbench.core.dtypes import FLOAT_BYTES, FP8_DTYPES
from workbench.core.model import V4
from workbench.core.versions.v0_23 import layouts
from workbench.core.versions.v0_23.mla import SM10X, SPARSE

NAMED_FP8 = (*FP8_DTYPES, "fp8_per_token_head")
"""Its layers look at the beginning of the name only."""
COMPRESSED = partial(
    SPARSE,
    compression=V4,
    supported=(256,),
    head_sizes=HeadSizes(exact=(512,)),
    dtypes=tuple(FLOAT_BYTES),  # nothing tests the model's dtype
    tests_device=False,  # its layers never call supports_compute_capability
    supports_sinks=always,
    cache=layouts.COMPRESSED,
)

PACKED = partial(
    COMPRESSED,
    kv_cache_dtypes=(*NAMED_FP8, "fp8_ds_mla"),
    stored_kv_cache_dtypes=dict.fromkeys(NAMED_FP8, "fp8_ds_mla"),
)

COMPRESSED_MLA = (
    PACKED(
        "FLASHMLA_SPARSE_DSV4", capabilities=Capabilities(majors=(9, 10)), ranks=(Rank("cuda", 10),)
    ),
    COMPRESSED(
        "FLASHINFER_MLA_SPARSE_DSV4",
        kv_cache_dtypes=("auto", "bfloat16", *NAMED_FP8),
        capabilities=SM10X,
    ),
    # DeepseekV4ROCMAiterMLAAttention and DeepseekV4XPUAttention: the only class of their platform.
    PACKED("ROCM_FLASHMLA_SPARSE_DSV4", platforms=("rocm",), ranks=(Rank("rocm", 10),)),
    PACKED(
        "XPU_V4_MLA_SPARSE",
        platforms=("xpu",),
        is_helper=True,  # vLLM's registry does not have the name
        ranks=(Rank("xpu", 10),),
    ),
)
"""The backends of compressed attention, which its layers choose themselves."""

OWN_NAMES = frozenset(record.name for record in COMPRESSED_MLA if "cuda" in record.platforms)
"""What they take notice of on CUDA; every other backend is ignored."""


def takes_notice(query: LayerQuery, name: str) -> bool:
    """Return whether layers of compressed attention take an explicit backend."""
    return query.platform == "cuda" and name in OWN_NAMES
