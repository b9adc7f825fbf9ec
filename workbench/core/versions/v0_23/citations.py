"""Where vLLM 0.23 has each rule: file and function, as read in the installed 0.23.0."""

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
    return Citation("0.23", file, functions, note)


_CPU = _read("platforms/cpu.py", "CpuPlatform.check_and_update_config")
_ALIGNED = _read("platforms/interface.py", "Platform._align_hybrid_block_size", note="#37467")
_DEFAULTS = _read(
    "engine/arg_utils.py", "EngineArgs._set_default_max_num_seqs_and_batched_tokens_args"
)
_FLEX = "v1/attention/backends/flex_attention.py"
_PLANNING = "v1/core/kv_cache_utils.py"
_MODELS = "model_executor/models/config.py"

CITATIONS: Final[Mapping[Rule, Citation]] = {
    context_parallel.SPAN: _read(
        "v1/core/single_type_kv_cache_manager.py", "SingleTypeKVCacheManager.__init__"
    ),
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
    cache_mode.PREFIX_CACHING: _read(
        "engine/arg_utils.py", "EngineArgs._set_default_chunked_prefill_and_prefix_caching_args"
    ),
    cache_mode.CACHE_MODE: _read(_MODELS, "MambaModelConfig.verify_and_update_config"),
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
    backend_choice.BACKEND: _read(
        "platforms/cuda.py",
        "CudaPlatformBase.get_attn_backend_cls",
        note="each platform has its own",
    ),
    backend_choice.STORED_DTYPE: _read(
        "model_executor/layers/attention/mla_attention.py", "MLAAttention.__init__"
    ),
    layer_backends.PLAIN_BACKEND: _read(
        "model_executor/layers/attention/attention.py",
        "Attention.__init__",
        note="a layer selects its backend with the dtype of its own cache",
    ),
    draft_backend.DRAFT_BACKEND: _read(
        "v1/spec_decode/llm_base_proposer.py",
        "SpecDecodeBaseProposer._create_draft_vllm_config",
        note="load_eagle_model in v1/worker/gpu/spec_decode/eagle/utils.py for the second runner",
    ),
    layer_backends.OTHER_HEADS_BACKEND: _read(
        "model_executor/layers/attention/attention.py",
        "Attention.__init__",
        note="a layer selects its backend with its own head size",
    ),
    flex.CONSTRUCTION: _read(_FLEX, "FlexAttentionImpl.__init__", note="#41252"),
    flex.MASK_BLOCK: _read(_FLEX, "FlexAttentionMetadataBuilder._get_block_sizes", note="#41252"),
    block_size.PLATFORM_BLOCK_SIZE: _CPU,
    block_size.PREFERRED_BLOCK_SIZE: _read(
        "platforms/interface.py", "Platform.update_block_size_for_backend", note="#37467"
    ),
    attention_bytes.TOKEN_BYTES: _ALIGNED._replace(note="the page of a spec of one token"),
    attention_bytes.COMMON_TOKEN_BYTES: _ALIGNED._replace(note="with layers that skip the packing"),
    hybrid_alignment.GRANULARITY: _ALIGNED,
    hybrid_alignment.TOKENS_NEEDED: _ALIGNED,
    hybrid_alignment.ALIGNED: _ALIGNED,
    hybrid_alignment.ALIGNED_TO_CHUNKS: _ALIGNED,
    hybrid_alignment.BLOCK_SIZE: _ALIGNED,
    hybrid_alignment.PADDING: _ALIGNED,
    hybrid_alignment.MAMBA_BLOCK_SIZE: _ALIGNED,
    after_alignment.XPU_GDN: _read("platforms/xpu.py", "XPUPlatform.update_block_size_for_backend"),
    layer_checks.ALIGN_BUDGET: _read("config/vllm.py", "VllmConfig.validate_block_size"),
    pages.EQUAL_PAGES: _read(_PLANNING, "unify_kv_cache_spec_page_size"),
    pages.KERNEL_BLOCK: _read("v1/worker/utils.py", "select_common_block_size", note="#38831"),
    memory.BUDGET: _read("v1/worker/gpu_worker.py", "Worker.determine_available_memory"),
    memory.ESTIMATE: _read("v1/worker/gpu_worker.py", "Worker.determine_available_memory"),
    memory.AUTO_FIT: _read(_PLANNING, "_auto_fit_max_model_len"),
    memory.NUM_BLOCKS: _read(_PLANNING, "get_kv_cache_config_from_groups"),
    memory.LEAST_OF_RANKS: _read(_PLANNING, "get_kv_cache_configs"),
}
