"""The decisions of vLLM 0.23, in their order."""

from workbench.core.stages import (
    after_alignment,
    attention_bytes,
    backend_choice,
    batch_sizes,
    block_size,
    built_backends,
    cache_mode,
    clamped_experts,
    class_checks,
    context_parallel,
    cpu_experts,
    device,
    draft_backend,
    engines,
    flex,
    fp8_experts,
    grouping,
    humming,
    hybrid_alignment,
    invariant_experts,
    layer_backends,
    layer_checks,
    memory,
    missing_kernels,
    model_dtype,
    pages,
    pipeline,
    pipeline_checks,
    prefix_hits,
    quantization,
    refusals,
    speculation,
    state_pages,
    tower_checks,
    weight_checks,
)

READ_ARGUMENTS = (
    device.device,
    engines.engines_of_server,
    weight_checks.weight_algorithm,
    refusals.served_architecture,
    model_dtype.model_dtype,
    refusals.max_model_len,
    quantization.quantization_known,
    weight_checks.weight_platform,
    quantization.quantization_deprecated,
    batch_sizes.token_budget,
    refusals.kv_cache_dtype,
    context_parallel.context_ranks,
)
"""The configurations of the model, the scheduler, the cache and the ranks, as 0.33 has them too."""

RESOLVE_CONFIGURATION = (
    *READ_ARGUMENTS,
    attention_bytes.skipped_kinds,
    speculation.speculative_method,
    pipeline_checks.drafts_over_stages,
    batch_sizes.slots_of_drafts,
    refusals.tensor_parallel,
    engines.whole_experts,
    # verify_with_parallel_config, before _get_quantization_config
    pipeline_checks.pipeline_parallel,
    context_parallel.shared_kv_heads,
    quantization.quantization_described,
    quantization.method_named,
    quantization.description_read,
    quantization.quantization_capability,
    quantization.quantization_dtype,
    refusals.nvfp4_with_mla,
    pipeline_checks.shared_caches,
    cache_mode.enable_prefix_caching,
    state_pages.state_dtype_field,
    cache_mode.cache_mode,
    batch_sizes.async_scheduling,
    refusals.mamba_block_size,
    model_dtype.dtype_of_device,
    refusals.native_architecture,
    pipeline_checks.plan_of_transformers,
    pipeline_checks.part_not_cut,
    tower_checks.tower_split,
    refusals.vocabulary_split,
    state_pages.states,
    batch_sizes.cpu_mla_token_budget,
)
"""Steps 1 and 2 of the start: arguments, then the model-specific verification."""

BUILD_LAYERS = (
    state_pages.draft_states,
    backend_choice.backend_choice,
    weight_checks.expert_split,
    layer_backends.layer_backends,
    draft_backend.draft_backend,
    built_backends.backends_as_built,
    layer_backends.layers_built,
    # While layers are built, so with the block as it is before any alignment.
    flex.flex_construction,
)
"""Backends, and the layers that take them."""

LOAD_WEIGHTS = (
    flex.flex_mask_block,
    weight_checks.weight_blocks,
    quantization.online_weights,
    weight_checks.weight_kernels,
    clamped_experts.clamped_experts,
    fp8_experts.fp8_experts,
    missing_kernels.missing_kernels,
    humming.humming_reads,
    fp8_experts.refined_experts,
    cpu_experts.cpu_experts,
    invariant_experts.invariant_experts,
    pipeline_checks.tied_vocabulary,
    class_checks.tied_head,
    class_checks.expert_scores,
    class_checks.whole_class,
    class_checks.norm_groups,
    tower_checks.tower_rotation,
    tower_checks.tower_levels,
    class_checks.sparse_nvfp4,
    class_checks.listed_blocks,
    class_checks.layers_without_number,
    layer_checks.group_replication,
    layer_checks.drafted_states,
    layer_checks.e5m2_with_scales,
    layer_checks.kv_head_split,
    layer_checks.rope_sections,
    layer_checks.alibi_square_roots,
)
"""What layers and their weights refuse."""

FIT_MEMORY = (
    context_parallel.spread_layers,
    memory.requests,
    memory.estimates,
    memory.capacity,
    memory.auto_fit,
    # After the fit of the length, which may be too short for any hit.
    prefix_hits.inert_prefix_caching,
    memory.budget,
    memory.memory,
)
"""The blocks of the pool, and what fits into them."""

CHECK_RESULT = (
    layer_checks.nvfp4_generation,
    flex.batch_invariance,
    layer_checks.align_budget,
    attention_bytes.attention_page,
    grouping.packed_hidden_states,
    grouping.hidden_states,
    grouping.cache_layout_choice,
    pipeline.pipeline_stages,
    grouping.groups,
    pages.unify_pages,
    pages.kernel_block_size,
    *LOAD_WEIGHTS,
    layer_checks.mamba_block_advice,
    layer_checks.cpu_prefix_caching,
    *FIT_MEMORY,
    grouping.cache_managers,
)
"""From `validate_block_size` to the runner's kernel blocks."""

STAGES = (
    *RESOLVE_CONFIGURATION,
    # CpuPlatform.check_and_update_config: before there are layers or backends.
    block_size.cpu_block_size,
    *BUILD_LAYERS,
    block_size.preferred_block_size,
    attention_bytes.attention_token_bytes,
    attention_bytes.common_token_bytes,
    hybrid_alignment.hybrid_alignment,
    after_alignment.xpu_gdn_rounding,
    *CHECK_RESULT,
)
