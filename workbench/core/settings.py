"""The settings that the user chooses in addition to the model.

Names are vLLM's where vLLM has one.
"""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_GPU_MEMORY_UTILIZATION = 0.92
"""vLLM's `CacheConfig` default in 0.23: the share of a device that it takes."""


@dataclass(frozen=True)
class Settings:
    """One scenario without its model; None means "the engine chooses".

    Sizes in tokens; bytes are per rank, None while unknown. kv_cache_memory_bytes replaces the
    budget of device_memory_bytes, gpu_memory_utilization, weights_bytes, activation_bytes (peak,
    and what torch does not see) and cuda_graph_bytes. batch_invariant: VLLM_BATCH_INVARIANT=1.
    kv_cache_memory_bytes_by_rank: what the ranks measured, where they differ; it replaces the other
    sizes. kv_cache_layout: VLLM_KV_CACHE_LAYOUT, which sizes anything from 0.33 on only.
    speculative_method: vLLM's name of it, None for mtp where the checkpoint has such layers, else
    ngram; num_speculative_tokens = 0 switches speculative decoding off whatever the method is.
    hidden_state_layers: layers whose hidden states `extract_hidden_states` keeps in the cache.
    kv_cache_dtype_skip_layers: numbers of the attention layers that stay in the model's dtype, or
    "sliding_window" for all of that kind.
    gdn_flashinfer_prefill: `--gdn-prefill-backend`, true for flashinfer, false for triton; unset,
    the device decides. trtllm_kernels: whether FlashInfer can load TRT-LLM's kernels. Both change
    sizes from 0.33 on.
    torch_version: "2.9.1", None for the torch that vLLM 0.23 comes with; flex attention alone reads
    it. Values are not checked here: `workbench.Scenario` does that.
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
    max_num_seqs: int | None = None
    num_speculative_tokens: int = 0
    speculative_method: str | None = None
    kv_cache_memory_bytes: int | None = None
    device_memory_bytes: int | None = None
    gpu_memory_utilization: float | None = None
    weights_bytes: int | None = None
    activation_bytes: int | None = None
    cuda_graph_bytes: int | None = None
    num_gpu_blocks_override: int | None = None
    kv_cache_memory_bytes_by_rank: tuple[int, ...] | None = None
    disable_hybrid_kv_cache_manager: bool = False
    kv_cache_layout: str | None = None
    hidden_state_layers: int = 0
    batch_invariant: bool = False
    kv_cache_dtype_skip_layers: tuple[str, ...] | None = None
    gdn_flashinfer_prefill: bool | None = None
    trtllm_kernels: bool = False
    torch_version: str | None = None
    flex_attn_block_m: int | None = None
    flex_attn_block_n: int | None = None
    flex_attn_q_block_size: int | None = None
    flex_attn_kv_block_size: int | None = None
    rules: str = "0.23"
