"""What reads the caches that layers of 0.33's sparse models keep alongside their attention.

Sources: `get_supported_kernel_block_sizes` and `supported_kv_cache_layouts` of the classes in
`vllm/models/minimax_m3`, `glm5next` and `qwen4_exp`, and of `KpoolTailBackend`.
"""

from functools import partial

from workbench.core.backends import Backend, MultipleOf
from workbench.core.versions.v0_23.mla import HELPER
from workbench.core.versions.v0_33 import layouts

M1, M16 = (MultipleOf(1),), (MultipleOf(16),)
KEYS = partial(HELPER, cache=layouts.LATENT)

SIDE = (
    HELPER("MINIMAX_M3_SPARSE", supported=(128,)),
    KEYS("MINIMAX_M3_SPARSE_INDEXER", supported=(128,)),
    # Pages of 32 or 64 keys, each of 16 tokens.
    KEYS("GLM5_NEXT_INDEXER", supported=(512, 1024)),
    KEYS("KPOOL_TAIL", supported=M1, orders=("BLHNC",)),
    KEYS("QWEN4_EXP_EXP_QSA_STATE", supported=M1, orders=("BLNHC", "BLHNC")),
    Backend(
        "QWEN4_EXP_QSA_TRITON",
        platforms=("cuda",),
        supported=M16,
        is_helper=True,
        dtypes=("bfloat16",),
        kv_cache_dtypes=("auto", "bfloat16", "fp8", "fp8_e4m3"),
        cuda_graphs="UNIFORM_BATCH",
        cache=layouts.USUAL,
    ),
)
