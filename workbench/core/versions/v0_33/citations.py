"""Where vLLM 0.33 has each rule: file and function, as read in the installed 0.33.

What is not here was read in 0.23 only, and the trace says so.
"""

from collections.abc import Mapping
from typing import Final

from workbench.core.stages import (
    after_alignment,
    attention_bytes,
    backend_choice,
    batch_sizes,
    block_size,
    cache_mode,
    context_parallel,
    device,
    draft_backend,
    flex,
    gdn_prefill,
    hybrid_alignment,
    layer_backends,
    layer_checks,
    memory,
    model_dtype,
    pages,
    pipeline,
    refusals,
    speculation,
    state_pages,
)
from workbench.core.trace import Citation, Rule
from workbench.core.versions.v0_23.citations import CITATIONS as V0_23_CITATIONS


def _read(file: str, *functions: str, note: str = "") -> Citation:
    return Citation("0.33", file, functions, note)


_CPU = _read("platforms/cpu.py", "CpuPlatform.check_and_update_config")
_ALIGNED = _read("platforms/interface.py", "Platform._align_hybrid_block_size")
_DEFAULTS = _read(
    "engine/arg_utils.py",
    "EngineArgs.get_batch_defaults",
    "EngineArgs._set_default_max_num_seqs_and_batched_tokens_args",
)
_FLEX = "v1/attention/backends/flex_attention.py"
_PLANNING = "v1/core/kv_cache_planning.py"
_MODELS = "model_executor/models/config.py"
_ONE_ALLOCATION = _read(_PLANNING, "get_kv_cache_config_from_groups")

READ_AGAIN = (
    pipeline.STAGES,
    device.DEVICE,
    model_dtype.MODEL_DTYPE,
    refusals.MAX_MODEL_LEN,
    refusals.KV_CACHE_DTYPE,
    batch_sizes.CPU_MLA_TOKENS,
    speculation.SPECULATIVE_METHOD,
    state_pages.STATE_DTYPE_FIELD,
    state_pages.STATE_PAGE,
    backend_choice.BACKEND,
    layer_backends.PLAIN_BACKEND,
    attention_bytes.TOKEN_BYTES,
    attention_bytes.COMMON_TOKEN_BYTES,
    after_alignment.XPU_GDN,
    layer_checks.ALIGN_BUDGET,
    memory.BUDGET,
    memory.ESTIMATE,
)
"""The rules that were read in 0.33 as well, where 0.23 has them."""

CITATIONS: Final[Mapping[Rule, Citation]] = {
    **{rule: V0_23_CITATIONS[rule]._replace(read_in="0.33") for rule in READ_AGAIN},
    context_parallel.SPAN: _read("v1/core/kv_cache_utils.py", "resolve_dcp_kv_block_size"),
    memory.LEAST_OF_STAGES: _read(_PLANNING, "get_kv_cache_configs"),
    batch_sizes.TOKENS: _DEFAULTS,
    batch_sizes.SEQUENCES: _DEFAULTS,
    cache_mode.PREFIX_CACHING_OF_MODEL: _read(
        "config/model.py", "ModelConfig.is_prefix_caching_supported"
    ),
    cache_mode.ALIGN_MODE_ONLY: _read(_MODELS, "MambaModelConfig.verify_and_update_config"),
    cache_mode.CPU_MLA_PREFIX_CACHING: _CPU,
    state_pages.CPU_STATE_DTYPE: _CPU._replace(note="processors with AVX-512 BF16"),
    gdn_prefill.GDN_PREFILL: _read(
        "model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py", "_resolve_gdn_prefill_backend"
    ),
    backend_choice.STORED_DTYPE: _read(
        "model_executor/layers/attention/mla_attention.py",
        "_canonicalize_sparse_mla_kv_cache_dtype",
    ),
    speculation.DRAFT_LENGTH: _read("config/vllm.py", "VllmConfig._limit_max_model_len_to_draft"),
    draft_backend.DRAFT_BACKEND: _read(
        "config/speculative.py",
        "SpeculativeConfig.apply_draft_overrides",
        note="DFlash and DSpark never take the target's backend",
    ),
    layer_backends.OTHER_HEADS_BACKEND: _read(
        "model_executor/layers/attention/attention.py",
        "Attention.__init__",
        note="a layer selects its backend with its own head size and window",
    ),
    flex.CONSTRUCTION: _read(_FLEX, "FlexAttentionImpl.__init__"),
    flex.MASK_BLOCK: _read(_FLEX, "FlexAttentionMetadataBuilder._get_block_sizes"),
    block_size.COMMON_BLOCK_SIZE: _read(
        "platforms/interface.py", "Platform._preferred_block_size_for_backends"
    ),
    attention_bytes.SHARED_PAGE: _read(
        "platforms/interface.py", "Platform._align_heterogeneous_kv_block_size"
    ),
    hybrid_alignment.GRANULARITY_FOR_ALL: _ALIGNED,
    hybrid_alignment.TOKENS_NEEDED: _ALIGNED,
    hybrid_alignment.ALIGNED_FOR_ALL: _ALIGNED,
    hybrid_alignment.BLOCK_SIZE: _ALIGNED,
    hybrid_alignment.PADDING: _ALIGNED,
    hybrid_alignment.MAMBA_BLOCK_SIZE: _ALIGNED,
    after_alignment.ALIGNED_BLOCK_CHECK: _read(
        "platforms/interface.py", "Platform._check_aligned_block_size"
    ),
    pages.EQUAL_PAGES: _read(_PLANNING, "unify_kv_cache_spec_page_size"),
    pages.KERNEL_BLOCK: _read("v1/worker/utils.py", "select_common_block_size"),
    memory.AUTO_FIT: _read(_PLANNING, "_auto_fit_max_model_len"),
    memory.NUM_BLOCKS: _ONE_ALLOCATION,
    memory.IN_ONE_ALLOCATION: _ONE_ALLOCATION,
    memory.LEAST_OF_RANKS: _read(_PLANNING, "get_kv_cache_configs"),
}
