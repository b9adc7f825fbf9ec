"""The attention backends of vLLM 0.23, one record each.

Sources: `get_supported_kernel_block_sizes`, `get_preferred_block_size`, `supports_*`,
`validate_configuration` and `get_kv_cache_shape` of every backend class in 0.23; backend
selection of `vllm/platforms/{cuda,rocm,xpu,cpu}.py` (#37467 for `is_ssm` and preferred sizes).
A backend that is added here is in the later versions, too.
"""

from dataclasses import replace

from workbench.core import packing
from workbench.core.backend_table import BackendTable
from workbench.core.backends import (
    FP8_ANY,
    FP8_E4M3,
    UNQUANTIZED,
    Backend,
    Capabilities,
    HeadSizes,
    LayerQuery,
    MultipleOf,
    Rank,
    always,
    never,
)
from workbench.core.dtypes import PER_TOKEN_HEAD_DTYPES, TURBOQUANT_BITS
from workbench.core.model import DECODER, ENCODER_DECODER, ENCODER_ONLY
from workbench.core.platforms import EVERYWHERE
from workbench.core.versions.v0_23 import conditions, layouts
from workbench.core.versions.v0_23.compressed import COMPRESSED_MLA, takes_notice
from workbench.core.versions.v0_23.mla import HELPERS, MLA, SPARSE_MLA
from workbench.core.versions.v0_23.narrow_values import needs_newer_flash

ALL_FLOATS = ("bfloat16", "float16", "float32")
M1, M16 = (MultipleOf(1),), (MultipleOf(16),)


_ATTENTION = (
    Backend(
        "FLASH_ATTN",
        types=(DECODER, ENCODER_ONLY, ENCODER_DECODER),
        non_causal=True,
        returns_lse=True,
        # ROCm takes it on request (RocmPlatform.get_attn_backend_cls), with a package of its own
        platforms=("cuda", "xpu", "rocm"),
        # with float32 states only sizes that keep NaN from spreading: flash-attention#1974
        supported=M16,
        with_float32_state=(16, 32, 64),
        # XPU takes 64 where nothing is set, although 16 is supported (get_preferred_block_size).
        preferred_at_least={"xpu": 64},
        batch_invariant=True,
        head_sizes=HeadSizes(multiple_of=8, at_most=256),
        large_head_sizes=(HeadSizes(multiple_of=8, at_most=512), conditions.has_flash_attention_4),
        extra_kv_cache_dtypes=(FP8_E4M3, conditions.flash_attention_3),
        capabilities=Capabilities(at_least=(8, 0)),
        supports_sinks=conditions.newer_flash_attention,
        cuda_graphs="UNIFORM_BATCH",
        cuda_graphs_where=("ALWAYS", conditions.flash_attention_3),
        cache=layouts.FLASH_ATTN,
        ranks=(Rank("cuda", 20), Rank("xpu", 30, conditions.plain_on_xpu)),
    ),
    Backend(
        "FLASHINFER",
        returns_lse=True,
        platforms=("cuda",),
        # vLLM is sure of these for Blackwell alone, and offers no others anywhere.
        supported=(16, 32, 64),
        head_sizes=HeadSizes(exact=(64, 128, 256, 512)),
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_ANY, "nvfp4"),
        capabilities=Capabilities(at_least=(7, 5), at_most=(12, 1)),
        supports_sinks=conditions.trtllm_kernels,
        cuda_graphs="UNIFORM_SINGLE_TOKEN_DECODE",
        cuda_graphs_where=("UNIFORM_BATCH", conditions.trtllm_kernels),
        cache=layouts.FLASHINFER,
        layout="HND",
        # TRT-LLM's kernels, which run there, read all tokens of one head before the next head.
        layout_on=Capabilities(majors=(10,)),
        # first on SM10x, where TRT-LLM kernels are; after FLASH_ATTN elsewhere
        ranks=(Rank("cuda", 10, conditions.on_sm10x), Rank("cuda", 30)),
        packs={"nvfp4": packing.nvfp4},
    ),
    Backend(
        "TRITON_ATTN",
        types=(DECODER, ENCODER_ONLY, ENCODER_DECODER),
        platforms=("cuda", "rocm", "xpu"),
        supported=M16,
        batch_invariant=True,
        head_sizes=HeadSizes(at_least=32),
        dtypes=ALL_FLOATS,
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_ANY, *PER_TOKEN_HEAD_DTYPES),
        supports_sinks=always,
        supports_mm_prefix=always,
        cuda_graphs="ALWAYS",
        cache=layouts.TRITON_ATTN,
        ranks=(
            Rank("cuda", 40),
            Rank("rocm", 30, conditions.reads_all_tokens),
            Rank("xpu", 20, conditions.float32_on_xpu),
        ),
        on_request=conditions.plain_on_xpu,
        packs=packing.PER_TOKEN_HEAD,
    ),
    Backend(
        "FLEX_ATTENTION",
        types=(DECODER, ENCODER_ONLY),
        non_causal=True,
        # PyTorch's own kernel: ROCm takes it on request (RocmPlatform.get_attn_backend_cls)
        platforms=("cuda", "rocm"),
        supported=M16,
        batch_invariant=True,
        dtypes=ALL_FLOATS,
        supports_mm_prefix=always,
        cuda_graphs="ALWAYS",
        cache=layouts.FLEX_ATTENTION,
        ranks=(Rank("cuda", 50),),
    ),
    Backend(
        "TURBOQUANT",
        platforms=("cuda", "rocm", "xpu"),
        supported=(16, 32, 64, 128),
        # All backends before it in the order refuse these.
        kv_cache_dtypes=tuple(TURBOQUANT_BITS),
        cuda_graphs="UNIFORM_BATCH",
        cache=layouts.TURBOQUANT,
        ranks=(
            Rank("cuda", 60),
            Rank("rocm", 40, conditions.reads_all_tokens),
            Rank("xpu", 10, conditions.packed_by_turboquant),
            # XPUPlatform looks at the dtype alone, for MLA too
            Rank("xpu", 10, conditions.packed_by_turboquant, mla=True),
        ),
        packs=packing.TURBOQUANT,
    ),
    Backend(
        "ROCM_ATTN",
        types=(DECODER, ENCODER_ONLY),
        non_causal=True,
        platforms=("rocm",),
        supported=M16,
        head_sizes=HeadSizes(exact=(32, 64, 80, 96, 128, 160, 192, 224, 256)),
        dtypes=ALL_FLOATS,
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_ANY),
        supports_mm_prefix=always,
        cuda_graphs="ALWAYS",
        cache=layouts.ROCM_ATTN,
        # connectors need blocks first (_get_backend_priorities)
        suits_connectors=False,
        ranks=(Rank("rocm", 10, conditions.reads_all_tokens),),
    ),
    Backend(
        "ROCM_AITER_FA",
        non_causal=True,
        platforms=("rocm",),
        supported=(16, 32),
        head_sizes=HeadSizes(exact=(64, 128, 256)),
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_ANY),
        ranks=(Rank("rocm", 15, conditions.tries_aiter),),
        own_reason=conditions.needs_aiter,
        supports_sinks=always,
        cuda_graphs="UNIFORM_BATCH",
        cache=layouts.ROCM_AITER,
        # its get_name() returns FLASH_ATTN, and log lines repeat that
        reported_name="FLASH_ATTN",
    ),
    Backend(
        "ROCM_AITER_UNIFIED_ATTN",
        types=(DECODER, ENCODER_ONLY, ENCODER_DECODER),
        platforms=("rocm",),
        supported=M16,
        preferred_at_least={"rocm": 64},
        head_sizes=HeadSizes(at_least=32),
        dtypes=ALL_FLOATS,
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_ANY),
        supports_sinks=always,
        supports_mm_prefix=always,
        cuda_graphs="ALWAYS",
        cache=layouts.ROCM_AITER,
        ranks=(Rank("rocm", 20, conditions.reads_all_tokens_with_aiter),),
        suits_connectors=False,  # as ROCM_ATTN, of which its class is made
    ),
    Backend(
        "CPU_ATTN",
        types=(DECODER, ENCODER_ONLY, ENCODER_DECODER),
        platforms=("cpu",),
        supported=M16,
        head_sizes=HeadSizes(exact=(32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)),
        dtypes=ALL_FLOATS,
        # float16 and bfloat16 by name are refused, although auto means one of them
        kv_cache_dtypes=("auto", *FP8_ANY),
        cache=layouts.CPU_ATTN,
        layout="HND",
        ranks=(Rank("cpu", 10),),
    ),
)

_SSM = tuple(
    Backend(name, platforms=EVERYWHERE, supported=M1, is_ssm=True, cuda_graphs=cuda_graphs)
    for name, cuda_graphs in (
        ("MAMBA1_ATTN", "UNIFORM_BATCH"),
        ("MAMBA2_ATTN", "UNIFORM_BATCH"),
        ("SHORT_CONV_ATTN", "UNIFORM_BATCH"),
        ("LINEAR_ATTN", "UNIFORM_SINGLE_TOKEN_DECODE"),
        ("GDN_ATTN", "UNIFORM_BATCH"),
    )
)

_DIFFERENT_VALUES = replace(
    _ATTENTION[0],
    name="FLASH_ATTN_DIFFKV",
    platforms=("cuda", "rocm", "xpu"),
    cache=layouts.FLASH_ATTN_DIFFERENT_VALUES,
    fails_when_built=needs_newer_flash,
    on_request=never,  # layers take it without a question
    ranks=(),
)

BACKENDS = BackendTable(
    (*_ATTENTION, _DIFFERENT_VALUES, *MLA, *SPARSE_MLA, *COMPRESSED_MLA, *HELPERS, *_SSM)
)


def noticed(query: LayerQuery, name: str) -> str | None:
    """Return an explicit backend; None where a layer takes no notice of it."""
    return None if _ignores(query, name) else name


def _ignores(query: LayerQuery, name: str) -> bool:
    # get_attn_backend_cls of XPU and CPU: they decide some things before they look at the request
    if query.attention.is_compressed:
        return not takes_notice(query, name)
    if query.platform != "xpu":
        return query.platform == "cpu" and name != "CPU_ATTN"
    float32 = query.model_dtype == "float32" and name != "TRITON_ATTN"
    return query.attention.use_mla or conditions.packed_by_turboquant(query) or float32
