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

CITATIONS: Final[Mapping[Rule, Citation]] = {
    context_parallel.SPAN: _read("v1/core/kv_cache_utils.py", "resolve_dcp_kv_block_size"),
    pipeline.STAGES: _read("distributed/utils.py", "get_pp_indices"),
    memory.LEAST_OF_STAGES: _read(_PLANNING, "get_kv_cache_configs"),
    device.DEVICE: _read(
        "platforms/interface.py",
        "Platform.get_device_name",
        "Platform.get_device_capability",
        "Platform.get_device_total_memory",
    ),
    model_dtype.MODEL_DTYPE: _read("config/model.py", "_get_and_verify_dtype"),
    refusals.MAX_MODEL_LEN: _read("config/model.py", "_get_and_verify_max_len"),
    refusals.KV_CACHE_DTYPE: _read("utils/torch_utils.py", "resolve_kv_cache_dtype_string"),
    batch_sizes.TOKENS: _DEFAULTS,
    batch_sizes.SEQUENCES: _DEFAULTS,
    batch_sizes.CPU_MLA_TOKENS: _CPU,
    speculation.SPECULATIVE_METHOD: _read(
        "config/speculative.py", "SpeculativeConfig.__post_init__"
    ),
    cache_mode.PREFIX_CACHING_OF_MODEL: _read(
        "config/model.py", "ModelConfig.is_prefix_caching_supported"
    ),
    cache_mode.ALIGN_MODE_ONLY: _read(_MODELS, "MambaModelConfig.verify_and_update_config"),
    cache_mode.CPU_MLA_PREFIX_CACHING: _CPU,
    state_pages.CPU_STATE_DTYPE: _CPU._replace(note="processors with AVX-512 BF16"),
    state_pages.STATE_DTYPE_FIELD: _read(
        _MODELS,
        "NemotronHForCausalLMConfig.update_mamba_ssm_cache_dtype",
        "Qwen3_5ForConditionalGenerationConfig.verify_and_update_config",
    ),
    state_pages.STATE_PAGE: _read(
        "v1/kv_cache_interface.py",
        "MambaSpec.page_size_bytes",
        note="of the shapes of the model's get_mamba_state_shape_from_config",
    ),
    gdn_prefill.GDN_PREFILL: _read(
        "model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py", "_resolve_gdn_prefill_backend"
    ),
    backend_choice.BACKEND: _read(
        "platforms/cuda.py",
        "CudaPlatformBase.get_attn_backend_cls",
        note="each platform has its own",
    ),
    backend_choice.STORED_DTYPE: _read(
        "model_executor/layers/attention/mla_attention.py",
        "_canonicalize_sparse_mla_kv_cache_dtype",
    ),
    layer_backends.PLAIN_BACKEND: _read(
        "model_executor/layers/attention/attention.py",
        "Attention.__init__",
        note="a layer selects its backend with the dtype of its own cache",
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
    attention_bytes.TOKEN_BYTES: _ALIGNED._replace(note="the page of a spec of one token"),
    attention_bytes.COMMON_TOKEN_BYTES: _ALIGNED._replace(note="with layers that skip the packing"),
    attention_bytes.SHARED_PAGE: _read(
        "platforms/interface.py", "Platform._align_heterogeneous_kv_block_size"
    ),
    hybrid_alignment.GRANULARITY_FOR_ALL: _ALIGNED,
    hybrid_alignment.TOKENS_NEEDED: _ALIGNED,
    hybrid_alignment.ALIGNED_FOR_ALL: _ALIGNED,
    hybrid_alignment.BLOCK_SIZE: _ALIGNED,
    hybrid_alignment.PADDING: _ALIGNED,
    hybrid_alignment.MAMBA_BLOCK_SIZE: _ALIGNED,
    after_alignment.XPU_GDN: _read("platforms/xpu.py", "XPUPlatform.update_block_size_for_backend"),
    after_alignment.ALIGNED_BLOCK_CHECK: _read(
        "platforms/interface.py", "Platform._check_aligned_block_size"
    ),
    layer_checks.ALIGN_BUDGET: _read("config/vllm.py", "VllmConfig.validate_block_size"),
    pages.EQUAL_PAGES: _read(_PLANNING, "unify_kv_cache_spec_page_size"),
    pages.KERNEL_BLOCK: _read("v1/worker/utils.py", "select_common_block_size"),
    memory.BUDGET: _read("v1/worker/gpu_worker.py", "Worker.determine_available_memory"),
    memory.ESTIMATE: _read("v1/worker/gpu_worker.py", "Worker.determine_available_memory"),
    memory.AUTO_FIT: _read(_PLANNING, "_auto_fit_max_model_len"),
    memory.NUM_BLOCKS: _ONE_ALLOCATION,
    memory.IN_ONE_ALLOCATION: _ONE_ALLOCATION,
    memory.LEAST_OF_RANKS: _read(_PLANNING, "get_kv_cache_configs"),
}
