"""What a command can set that has no field in a scenario, and what then can be another size."""

GRAPHS = "CUDA graphs then take other memory"
TOWERS = "the towers for images, video and audio then take other memory"
HITS = "prefix hits then count otherwise"
OTHER_MODEL = "layers can then be others than those of config.json"
ON_HOST = "weights then stay in host memory"
SCALED = "weights that the checkpoint does not quantize then take fewer bytes"
STEPS = "the steps of the scheduler then hold other requests"
MATTERS = {
    "prefill_context_parallel_size": "the prompt's tokens are spread over ranks in 0.33, "
    "each with the whole cache; 0.23 has no attention that can",
    "all2all_backend": "some exchanges between ranks leave shared experts divided",
    "enable_eplb": "experts may be kept twice",
    "enable_dbo": "two halves of a batch each have a workspace",
    "hf_overrides": "fields of config.json are changed",
    "hf_config_path": "another config.json is read",
    "config": "the arguments in that file are not read",
    "config_format": "another file than config.json is read",
    "revision": "that revision can have another config.json",
    "model_impl": OTHER_MODEL,
    "model_class_overrides": OTHER_MODEL,
    "convert": OTHER_MODEL,
    "runner": "a pooling model has other defaults",
    "quantization_config": SCALED,
    "override_attention_dtype": "attention then has a dtype of its own",
    "disable_sliding_window": "windows become full attention",
    "dcp_kv_cache_interleave_size": "blocks are cut at multiples of it",
    "cp_kv_cache_interleave_size": "blocks are cut at multiples of it",
    "kv_transfer_config": "a connector may ask for other sizes",
    "kv_offloading_size": "a connector takes over: `workbench offload` counts its blocks",
    "enable_lora": "adapters take memory",
    "use_replayssm": "states then have a buffer of inputs",
    "replayssm_buffer_len": "states then have a buffer of inputs",
    "diffusion_config": "a canvas of tokens is then drafted at once",
    "enable_mamba_shared_prefix_checkpoint": HITS,
    "prefix_cache_retention_interval": HITS,
    "prefix_match_unit": HITS,
    "swa_bounded_replay": HITS,
    "watermark": "some blocks then stay free",
    "max_num_scheduled_tokens": STEPS,
    "max_num_active_seqs": STEPS,
    "max_num_partial_prefills": STEPS,
    "language_model_only": TOWERS,
    "limit_mm_per_prompt": TOWERS,
    "mm_encoder_only": TOWERS,
    "mm_encoder_tp_mode": TOWERS,
    "mm_processor_kwargs": TOWERS,
    "mm_ipc_gpu_memory_gb": TOWERS,
    "skip_mm_profiling": TOWERS,
    "cpu_offload_gb": ON_HOST,
    "offload_backend": ON_HOST,
    "offload_group_size": ON_HOST,
    "compilation_config": GRAPHS,
    "cudagraph_capture_sizes": GRAPHS,
    "max_cudagraph_capture_size": GRAPHS,
    "optimization_level": GRAPHS,
}
"""Argument -> why; what else has no field changes no size."""
VARIABLES = {
    "VLLM_MLA_DISABLE": "MLA then keeps whole keys and values",
    "VLLM_PP_LAYER_PARTITION": "stages then have other layers",
    "VLLM_CPU_KVCACHE_SPACE": "it is the cache's memory on a CPU: give kv_cache_memory_bytes",
    "VLLM_USE_V2_MODEL_RUNNER": "the other model runner has other batches under way",
    "VLLM_ROCM_USE_AITER": "other backends then come first on ROCm: give the backend",
    "VLLM_ROCM_USE_AITER_MHA": "other backends then come first on ROCm: give the backend",
    "VLLM_ROCM_USE_AITER_MLA": "other backends then come first on ROCm: give the backend",
    "VLLM_ROCM_USE_AITER_UNIFIED_ATTENTION": "other backends then come first on ROCm: "
    "give the backend",
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": GRAPHS,
    "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE": "chunked attention then has groups of "
    "its own",
}
"""Environment variable -> why."""
NO_EFFECT = frozenset({"", "0", "1", "false", "none", "auto", "generate", "{}", "[]"})
"""Values that leave an argument without an effect: the default, or one rank."""
ON = frozenset({"", "0", "false"})
NO_EFFECT_OF = {
    "optimization_level": frozenset({"2"}),
    **dict.fromkeys(VARIABLES, ON),
    "VLLM_USE_V2_MODEL_RUNNER": frozenset[str](),
}
"""Those of arguments with other defaults."""


def effect(argument: str, value: str | bool) -> str | None:
    """Return why an argument or a variable without a field can change a size; None if it cannot."""
    without = NO_EFFECT_OF.get(argument, NO_EFFECT)
    return None if str(value).casefold() in without else (MATTERS | VARIABLES).get(argument)
