"""The rules before #37467: aligned in the model configuration, before any backend is known.

Everything else is as in 0.23; only the order differs, and with it the alignment granularity. On XPU
the platform's 64 then overwrites the aligned block, and the pages no longer fit.
"""

from dataclasses import replace

from workbench.core.stages import (
    attention_bytes,
    backend_choice,
    block_size,
    built_backends,
    draft_backend,
    flex,
    hybrid_alignment,
    layer_backends,
)
from workbench.core.trace import Citation
from workbench.core.versions.v0_23 import V0_23
from workbench.core.versions.v0_23.stages import CHECK_RESULT, RESOLVE_CONFIGURATION

BEFORE_37467 = replace(
    V0_23,
    name="before-37467",
    title="vLLM before #37467",
    citations={
        **V0_23.citations,
        hybrid_alignment.GRANULARITY_BEFORE_37467: Citation(
            "before #37467",
            "model_executor/models/config.py",
            ("HybridAttentionMambaModelConfig.verify_and_update_config",),
        ),
        block_size.XPU_DEFAULT_BLOCK_SIZE: Citation(
            "before #37467", "platforms/xpu.py", ("XPUPlatform.check_and_update_config",)
        ),
    },
    traits={
        "aligned_in": "the model configuration, before any backend is known",
        "backends_asked": "none",
    },
    stages=(
        *RESOLVE_CONFIGURATION,
        attention_bytes.attention_token_bytes,
        attention_bytes.common_token_bytes,
        # Before a backend is chosen: this is what #37467 changed.
        hybrid_alignment.align_without_backend,
        block_size.cpu_block_size,
        backend_choice.backend_choice,
        layer_backends.layer_backends,
        draft_backend.draft_backend,
        built_backends.backends_as_built,
        flex.flex_construction,
        # Over the block that was aligned, whose padding stays.
        block_size.xpu_default_block_size,
        *CHECK_RESULT,
    ),
)
