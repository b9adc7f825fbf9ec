"""Every message that is known is found in a line of its own, and in no other's."""

from __future__ import annotations

import pytest

from tests.groups import in_groups
from workbench.interop.logs.find import find_messages
from workbench.interop.logs.messages import MESSAGES
from workbench.interop.logs.text import bare, lines_of

LINES = {
    "serve_command": "VLLM_USE_V1=1 vllm serve Qwen/Qwen3-8B -tp 2 --max-model-len 8192",
    "docker_command": "docker run --gpus all vllm/vllm-openai:v0.23.0 --model Qwen/Qwen3-8B -tp 2",
    "python_command": "python3 -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B -tp 2",
    "image": "image: vllm/vllm-openai:v0.23.0-cu130",
    "version": "vLLM API server version 0.23.0",
    "typed_arguments": "non-default args: {'model': 'Qwen/Qwen3-8B'}",
    "all_arguments": "args: Namespace(host=None, model='Qwen/Qwen3-8B', dtype='auto')",
    "platform": "Automatically detected platform cuda.",
    "listed_device": "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)",
    "moe_device": "Using default MoE config. Performance might be sub-optimal! Config file not "
    "found at configs/E=256,N=256,device_name=NVIDIA_GeForce_RTX_3090,dtype=int4_w4a16.json",
    "architecture": "Resolved architecture: NemotronHForCausalLM",
    "max_model_len": "Using max model len 32768",
    "token_budget": "Chunked prefill is enabled with max_num_batched_tokens=8192.",
    "default_token_budget": "Defaulting max_num_batched_tokens to 8192 for OPENAI_API_SERVER usage "
    "context.",
    "default_sequences": "Defaulting max_num_seqs to 256 for LLM_CLASS usage context.",
    "kv_cache_dtype": "Using fp8_e4m3 data type to store kv cache. It reduces the GPU memory",
    "kv_cache_layout": "`VLLM_KV_CACHE_LAYOUT` environment variable detected. Setting KV cache "
    "layout to HND.",
    "resolved_layout": "Using LBHNC KV cache layout.",
    "engine_config": "Initializing a V1 LLM engine (v0.23.0) with config: model='Qwen/Qwen3-8B',",
    "backend": "Using FLASHINFER attention backend out of potential backends: ['FLASHINFER'].",
    "rocm_backend": "Using ROCM_ATTN backend out of potential backends: ['ROCM_ATTN'].",
    "backend_in_words": "Using Flash Attention backend on V1 engine.",
    "gdn_prefill": "Using Triton/FLA GDN prefill kernel (requested=auto, head_k_dim=128).",
    "cache_mode": "Mamba cache mode is set to 'align' for Qwen3NextForCausalLM by default when "
    "prefix caching is enabled",
    "cache_mode_none": "Mamba cache mode is set to 'none' when prefix caching is disabled",
    "cache_mode_fallback": "Hybrid or mamba-based model detected without support for prefix "
    "caching "
    "with Mamba cache 'all' mode: falling back to 'align' mode.",
    "prefix_caching_not_supported": "Hybrid or mamba-based model detected without support for "
    "prefix caching: disabling.",
    "dtype_not_supported": "Your device 'Tesla T4' (with compute capability 7.5) doesn't support "
    "torch.bfloat16. Falling back to torch.float16 for compatibility.",
    "state_dtype_overridden": "Qwen3.5 model specifies mamba_ssm_dtype='float32' in its config, "
    "but --mamba-ssm-cache-dtype='bfloat16' was passed. Using the user-specified value.",
    "state_dtype_of_the_model": "Updating mamba_ssm_cache_dtype to 'float32' for NemotronH model",
    "gemma_heads": "Gemma4 model has heterogeneous head dimensions (head_dim=256, "
    "global_head_dim=512). Forcing TRITON_ATTN backend to prevent mixed-backend numerical",
    "budget_raised": "Raising max_num_batched_tokens from 2048 to 2496 to accommodate 'video' "
    "input for prefix-LM model google/gemma-3-4b-it.",
    "scheduled_tokens": "max_num_scheduled_tokens is set to 1280 based on the speculative decoding "
    "settings. This may lead to suboptimal performance.",
    "hybrid_manager_of_connector": "Turning off hybrid kv cache manager because "
    "`--kv-transfer-config` selects a KV connector that does not support it.",
    "hybrid_manager_not_used": "Hybrid KV cache manager is disabled for this hybrid model, This "
    "means we do not enable any optimizations for saving KV cache memory",
    "windows_as_full_attention": "KV cache page sizes cannot be unified; treating sliding-window "
    "layers as full attention for cache allocation.",
    "expert_parallel": "[EP Rank 0/4] Expert parallelism is enabled. Expert placement strategy: "
    "linear. Local/global number of experts: 64/256.",
    "backend_layout": "Using HND KV cache layout for FLASHINFER_MLA_SPARSE backend.",
    "query_dtypes": "FlashInfer resolved query dtypes: prefill=torch.bfloat16, "
    "decode=torch.bfloat16, decode_backend=trtllm-gen, kv_cache_dtype=torch.bfloat16, arch=sm103",
    "whole_block_hits": "Disabling fine-grained prefix-cache hits because these KV cache managers "
    "require block-aligned lookups: MambaManager.",
    "preferred_block": "Setting kv cache block size to 64 for FLASH_ATTN backend.",
    "attention_block_size": "Setting attention block size to 528 tokens to ensure that attention "
    "page size is >= mamba page size.",
    "xpu_block_size": "[XPU]Setting attention block size to 576 tokens to ensure multiple of 64, ",
    "quantized_block_size": "Setting attention block size to 64 tokens so the quantized primary KV "
    "page covers the higher-precision padded-spec page.",
    "mamba_padding": "Padding mamba page size by 0.76% to ensure that mamba page size and "
    "attention page size are exactly equal.",
    "weights": "Model loading took 15.01 GiB memory and 58.123456 seconds",
    "available_memory": "Available KV cache memory: 20.0 GiB",
    "reserved_memory": "Initial free memory 78.5 GiB, reserved 20.0 GiB memory for KV Cache as "
    "specified by kv_cache_memory_bytes config and skipped memory profiling.",
    "graphs": "Graph capturing finished in 12 secs, took 0.88 GiB",
    "override": "Overriding num_gpu_blocks=8676 with num_gpu_blocks_override=4338",
    "num_blocks": "# GPU blocks: 1478, # CPU blocks: 2048",
    "graph_profiling": "CUDA graph memory profiling is enabled (default since v0.21.0). The "
    "current --gpu-memory-utilization=0.9200 is equivalent to --gpu-memory-utilization=0.9129 "
    "without CUDA graph memory profiling.",
    "graphs_not_profiled": "CUDA graph memory profiling is disabled "
    "(VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0). Without it, CUDA graph memory is not",
    "graphs_estimated": "Estimated CUDA graph memory: 0.17 GiB total",
    "profiling_blocks": "Overriding num_gpu_blocks=0 with num_gpu_blocks_override=512",
    "window_groups": "Sliding-window bucket(s) are the smallest; using group_size 8 (pads the "
    "sliding-window group instead of the full-attention/mamba layers)",
    "group_sizes": "kv cache group sizes (1056, 1056)",
    "lcm_block": "kv lcm block sizes 1056",
    "padding_layers": "Add 1 padding layers, may waste at most 4.35% KV cache memory",
    "tokens_and_concurrency": "XPU KV cache size: 1,676,933 tokens, Maximum concurrency for "
    "262,144 tokens per request: 6.40x",
    "tokens": "GPU KV cache size: 290,864 tokens",
    "concurrency": "Maximum concurrency for 32,768 tokens per request: 33.04x",
    "hidden_state_block": "Using block size 200 for hidden-state cache layer cache_only_layers.64; "
    "page alignment wastes 1228800 bytes (37.50%) per block",
    "graph_pool": "CUDA graph pool memory: 8.57 GiB (actual), 33.06 GiB (estimated), difference: "
    "24.49 GiB (285.9%).",
    "memory_summary": "Free memory on device (274.27/276.62 GiB) on startup. Desired GPU memory "
    "utilization is (0.92, 254.49 GiB). Actual usage is 171.25 GiB for consumed memory (weights + "
    "non-torch), 36.74 GiB for peak activation, and 8.57 GiB for CUDAGraph memory. Replace "
    "gpu_memory_utilization config with `--kv-cache-memory=40574291354` (37.79 GiB) to fit into "
    "requested memory, or `--kv-cache-memory=61814666240` (57.57 GiB) to fully utilize gpu memory. "
    "Current kv cache memory in use is 46.5 GiB.",
    "auto_fit_whole": "Auto-fit max_model_len: full model context length 262144 fits in available "
    "KV cache memory (40.5 GiB)",
    "auto_fit": "Auto-fit max_model_len: reduced from 262144 to 99792 to fit in GPU memory",
    "not_enough_memory": "ValueError: To serve at least one request with the model's max seq len "
    "(100000), (4.26 GiB KV cache is needed, which is larger than the available KV cache memory "
    "(4.25 GiB).",
    "estimated_length": "Based on the available memory, the estimated maximum model length is "
    "99792.",
    "longer_than_cache": "The model's max seq len (29000) is larger than the maximum number of "
    "tokens that can be stored in KV cache (23648). Try increasing `gpu_memory_utilization`",
    "no_memory": "ValueError: No available memory for the cache blocks. Try increasing "
    "`gpu_memory_utilization` when initializing the engine.",
    "cannot_auto_fit": "Cannot auto-fit max_model_len: not enough GPU memory available",
    "too_many_sequences": "max_num_seqs (1024) exceeds available Mamba cache blocks (600). Each",
    "block_exceeds_budget": "In Mamba cache align mode, block_size (2096) must be <= "
    "max_num_batched_tokens (2048).",
    "pages_not_divisible": "NotImplementedError: The page size of the layer is not divisible by "
    "the maximum page size. Cannot unify by adjusting block_size.",
    "pages_do_not_grow": "assert new_spec.page_size_bytes == max_page_size",
    "offloaded_hit_assertion": 'File "vllm/distributed/kv_transfer/kv_connector/v1/offloading/'
    'scheduler.py", line 734, in update_state_after_alloc',
    "no_common_block": "ValueError: No common block size for 544 (FLASHMLA: [64]).",
    "aligned_not_supported": "Aligned KV cache block size 544 is not supported by attention "
    "backend(s): FLASHMLA.",
    "no_shared_block": "The attention backends share no supported KV cache block size (A: [16])",
    "kernel_block_must_divide": "kernel_block_size 64 must divide kv_manager_block_size size 528",
    "hash_block_not_divisible": "tokens_per_block=16 not divisible by tokens_per_hash=512.",
    "hash_block_must_divide": "Each KV cache group's real block_size must be divisible by "
    "hash_block_size. block_sizes=[1024, 64, 4, 8], hash_block_size=16",
    "hash_block_assertion": "AssertionError: block_size must be divisible by hash_block_size",
    "padded_page_too_small": "assert self.page_size_padded >= page_size",
    "invalid_hash_block": "Invalid prefix_match_unit=64; prefix-cacheable KV cache group block "
    "sizes must be divisible by prefix_match_unit.",
    "context_parallel": "Hybrid KV cache groups with multiple block sizes do not support context "
    "parallelism (dcp_world_size/pcp_world_size > 1).",
    "hybrid_manager_off": "ValueError: Hybrid KV cache manager is disabled but failed to convert "
    "the KV cache specs to one unified type.",
    "flex_power_of_two": "flex_attn_kv_block_size must be a power of 2 (got 528).",
    "flex_tile_too_large": "flex_attn_block_m (32) must be <= cache block size (16) for batch "
    "invariance",
    "flex_cache_block": "FlexAttention currently requires the cache block size to be equal",
    "layout_unknown": "Cannot determine layout for tensor of shape torch.Size([2, 2, 16, 8, 128])",
    "block_size_precluded": "--block-size 32 precluded higher-priority backend(s) FLASHMLA. Using "
    "TRITON_MLA instead, which may result in reduced performance.",
    "backend_not_valid": "ValueError: Selected backend AttentionBackendEnum.CUTLASS_MLA is not "
    "valid for this configuration. Reason: ['sparse not supported']",
    "no_valid_backend": "ValueError: No valid attention backend found for cuda with "
    "AttentionSelectorConfig(head_size=80). Reasons: {FLASH_ATTN: [head_size not supported]}.",
    "out_of_memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. "
    "GPU 0 has a total capacity of 93.09 GiB of which 739.81 MiB is free. Including non-PyTorch "
    "memory, this process has 92.34 GiB memory in use.",
    "memory_in_use": "Free memory on device cuda:0 (19.77/22.05 GiB) on startup is less than "
    "desired GPU memory utilization (0.9, 19.84 GiB). Decrease GPU memory utilization or",
    "too_long": "User-specified max_model_len (262144) is greater than the derived max_model_len "
    "(max_position_embeddings=131072 or model_max_length=None in model's config.json).",
    "heads_not_divisible": "Total number of attention heads (40) must be divisible by tensor "
    "parallel size (16).",
    "mamba_block_without_caching": "--mamba-block-size can only be set with "
    "--enable-prefix-caching",
    "prefix_caching_off": "Disabling prefix caching for FLASHINFER/TRITON_MLA with batch "
    "invariance, as it is not yet supported.",
    "nvfp4_with_mla": "nvfp4 KV cache is not supported with MLA",
}
"""Message -> a line of vLLM's that holds it."""

HEADS = (
    "",
    "\x1b[0;36m(EngineCore pid=12)\x1b[0;0m INFO 11-20 10:00:00 [interface.py:671] ",
    "[36m(RayWorkerWrapper pid=2201, ip=10.0.0.2)[0m WARNING 11-20 10:00:00 [x.py:1] ",
    "vllm-1  | (Worker_TP0_EP0 pid=165) ERROR 07-02 07:48:04 [core.py:1108] ",
    "2026-06-12T11:02:50.020540539Z (EngineCore_DP0 pid=1156) ",
    "Aug 18 14:15:02 llm python3[28147]: (Worker pid=1) INFO 08-18 14:15:02 [gpu_worker.py:475] ",
    "INFO 06-12 08:12:23 distributed_gpu_executor.py:45] ",
)


def messages_in(text):
    return [found for found in find_messages(lines_of(text)) if not found.is_cut]


def test_every_message_has_a_line_here():
    assert LINES.keys() == MESSAGES.keys()


@in_groups
@pytest.mark.parametrize("head", HEADS, ids=range(len(HEADS)))
@pytest.mark.parametrize("name", LINES)
def test_a_line_matches_only_its_message_with_any_prefix(name, head):
    [found] = messages_in(head + LINES[name])
    assert found.message.name == name
    assert LINES[name].startswith(found.text.removesuffix("…"))
    assert all(group in found.values for group in found.message.pattern.groupindex) or name in {
        "kernel_block_must_divide",
        "memory_summary",
        "prefix_caching_off",
    }


DUMPS = {
    "typed_arguments",
    "all_arguments",
    "engine_config",
    "backend",
    "rocm_backend",
    "backend_not_valid",
    "layout_unknown",
    "listed_device",
    "serve_command",
    "docker_command",
    "python_command",
}
"""Messages that end in a printed object or a command: of one that is cut, what is left is read."""


@in_groups
@pytest.mark.parametrize("name", sorted(LINES.keys() - DUMPS))
def test_a_line_that_is_wrapped_anywhere_is_still_read(name):
    """In the middle of a word, or with an indent at a space; but not within its last number."""
    line = LINES[name]
    whole = messages_in(line)[0].values
    begins = line.index(MESSAGES[name].begins) + len(MESSAGES[name].begins)
    last = max(at for at, mark in enumerate(line) if mark.isalnum())
    while last and (line[last].isalnum() or line[last] == "."):
        last -= 1
    for at in range(begins + 1, last):
        wrapped = [f"{line[:at]}\n{line[at:]}"]
        if line[at] == " ":
            wrapped.append(f"{line[:at]}\n     {line[at + 1 :]}")
        for text in wrapped:
            read = [one.values for one in messages_in(text) if one.message.name == name]
            assert read == [whole], text


@pytest.mark.parametrize("name", ["attention_block_size", "mamba_padding", "available_memory"])
def test_half_a_line_is_reported_as_cut_and_gives_no_number(name):
    line = LINES[name]
    digit = next(at for at, mark in enumerate(line) if mark.isdigit())
    for at in range(16, digit):
        found = find_messages(lines_of(line[:at]))
        assert [(one.values, one.is_cut) for one in found] == [({}, True)], line[:at]


@pytest.mark.parametrize(
    "line", [LINES["concurrency"][:30], LINES["tokens_and_concurrency"][:60], LINES["tokens"][:20]]
)
def test_a_line_of_capacity_that_is_cut_is_reported_once(line):
    [found] = find_messages(lines_of(line))
    assert found.is_cut


def test_equal_lines_of_several_ranks_count_once_with_their_number():
    [found] = messages_in("\n".join([LINES["tokens"]] * 8))
    assert found.times == 8
    assert found.line.number == 1


@in_groups
@pytest.mark.parametrize("entry", MESSAGES.values(), ids=lambda entry: entry.name)
def test_a_message_says_what_it_means(entry):
    assert entry.means.endswith((".", ")."))
    [found] = messages_in(LINES[entry.name])
    assert all(advice.endswith(".") for advice in entry.advise(found.values, {}))


def test_a_prefix_alone_stays():
    assert bare("INFO 11-20 10:00:00 [core.py:1] ") == "INFO 11-20 10:00:00 [core.py:1]"
