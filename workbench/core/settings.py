"""What a person picks beside the model. Names are vLLM's where vLLM has one."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_MAX_NUM_BATCHED_TOKENS = 2048
"""vLLM's `SchedulerConfig` default; servers on large GPUs start with more."""


@dataclass(frozen=True)
class Settings:
    """One scenario without its model; None means "the engine chooses".

    Sizes in tokens; kv_cache_memory_bytes is per rank, None while it is unknown. Values are not
    checked here: `workbench.Scenario` does that.
    """

    platform: str = "cuda"
    compute_capability: str | None = None
    backend: str | None = None
    tensor_parallel: int = 1
    dtype: str = "auto"
    kv_cache_dtype: str = "auto"
    mamba_cache_dtype: str = "auto"
    mamba_ssm_cache_dtype: str = "auto"
    enable_prefix_caching: bool | None = None
    mamba_cache_mode: str | None = None
    block_size: int | None = None
    mamba_block_size: int | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    num_speculative_tokens: int = 0
    kv_cache_memory_bytes: int | None = None
    num_gpu_blocks_override: int | None = None
    rules: str = "0.23"
