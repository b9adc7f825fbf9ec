"""The decisions of vLLM 0.23, in their order."""

from workbench.core.stages import (
    after_alignment,
    attention_bytes,
    backend_choice,
    batch_sizes,
    block_size,
    cache_mode,
    flex,
    grouping,
    hybrid_alignment,
    layer_checks,
    memory,
    pages,
    plain_backend,
    prefix_hits,
    refusals,
    speculation,
    state_pages,
)

RESOLVE_CONFIGURATION = (
    refusals.served_architecture,
    refusals.model_dtype,
    refusals.max_model_len,
    batch_sizes.token_budget,
    refusals.kv_cache_dtype,
    refusals.tensor_parallel,
    refusals.quantization_dtype,
    refusals.nvfp4_with_mla,
    speculation.speculative_method,
    cache_mode.enable_prefix_caching,
    state_pages.state_dtype_field,
    cache_mode.cache_mode,
    refusals.mamba_block_size,
    refusals.native_architecture,
    state_pages.states,
    batch_sizes.cpu_mla_token_budget,
)
"""Steps 1 and 2 of the start: arguments, then the model-specific verification."""

CHECK_RESULT = (
    backend_choice.nvfp4_generation,
    flex.batch_invariance,
    layer_checks.align_budget,
    attention_bytes.attention_page,
    grouping.hidden_states,
    grouping.cache_layout_choice,
    grouping.groups,
    pages.unify_pages,
    pages.kernel_block_size,
    flex.flex_mask_block,
    layer_checks.group_replication,
    layer_checks.kv_head_split,
    layer_checks.mamba_block_advice,
    layer_checks.cpu_prefix_caching,
    memory.requests,
    memory.capacity,
    memory.auto_fit,
    prefix_hits.inert_prefix_caching,
    memory.budget,
    memory.memory,
)
"""From `validate_block_size` to the runner's kernel blocks."""

STAGES = (
    *RESOLVE_CONFIGURATION,
    block_size.cpu_block_size,
    backend_choice.backend_choice,
    plain_backend.plain_backend,
    flex.flex_construction,
    block_size.preferred_block_size,
    attention_bytes.attention_token_bytes,
    attention_bytes.common_token_bytes,
    hybrid_alignment.hybrid_alignment,
    after_alignment.xpu_gdn_rounding,
    *CHECK_RESULT,
)
