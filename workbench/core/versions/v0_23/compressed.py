"""The backends of compressed attention (DeepSeek-V4) in vLLM 0.23, one record each.

Its layers choose among their own classes, not from the list of a platform. Sources:
`_select_dsv4_attn_cls` and `_resolve_dsv4_kv_cache_dtype` in `vllm/models/deepseek_v4/`, 0.23.
"""

from functools import partial

from workbench.core.backends import Capabilities, HeadSizes, Rank, always
from workbench.core.dtypes import FP8_DTYPES
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
    dtypes=("bfloat16",),
    supports_sinks=always,
    cache=layouts.COMPRESSED,
)

COMPRESSED_MLA = (
    COMPRESSED(
        "FLASHMLA_SPARSE_DSV4",
        kv_cache_dtypes=(*NAMED_FP8, "fp8_ds_mla"),
        stored_kv_cache_dtypes=dict.fromkeys(NAMED_FP8, "fp8_ds_mla"),
        capabilities=Capabilities(majors=(9, 10)),
        ranks=(Rank("cuda", 10),),
    ),
    COMPRESSED(
        "FLASHINFER_MLA_SPARSE_DSV4",
        kv_cache_dtypes=("auto", "bfloat16", *NAMED_FP8),
        capabilities=SM10X,
    ),
)
"""The backends of compressed attention, which its layers choose themselves."""

OWN_NAMES = frozenset(record.name for record in COMPRESSED_MLA)
"""What they take notice of; every other backend is ignored."""
