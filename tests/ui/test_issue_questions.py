"""What users ask in issues about hybrid models: a rule of vLLM, a line of it, a size of a plan."""

from __future__ import annotations

import pytest

from tests.ui.panels import region
from tests.ui.test_questions import answer, plain_text

SAID = {
    "can I mix H100 and A100": ("A scenario has one device", "the least room"),
    "can H100, A100 and L40S be mixed in one engine?": ("A scenario has one device",),
    "minimum number of GPUs for kimi-k2 on H200": ("The fewest that start", "16 x H200"),
    "which GPU for nemotron-3-nano with requests of 128k tokens": (
        "1 x H100 NVL \u2713 would start:",
        "requests of 128,000 tokens fit",
    ),
    "does MTP reduce capacity for Qwen3-Next-80B on 4 x H100": (
        "Apply Speculative tokens 1, Speculative method mtp Gain:",
        "requests per GPU instead of",
    ),
    "how much KV cache does a 32k request take for qwen3.5-4b": (
        "One request of 32,000 tokens takes 1.03 GiB",
    ),
    "how many requests does nemotron-3-nano take with prefix caching": ("Prefix caching on.",),
    "shortest prompt that hits: qwen3.5-4b with prefix caching on H100?": ("Prefix caching on.",),
    "is deepseek-v3 hybrid?": ("Layers with a cache: 61 layers (full attention)",),
    "how many requests fit without prefix caching": ("Prefix caching off.",),
    "what is vllm#37467": ("The meaning of #37467.", "then aligns hybrid models"),
    "what does PR 38831 do?": ("The meaning of #38831.", "kernel blocks"),
    "explain #36697": ("rounded down to whole blocks",),
    "qwen3.5-397b-a17b on a RTX 2060 or a T4?": ("The device 'RTX 2060' is not known",),
    "what is mamba_cache_mode": ("which states prefix caching keeps", "Values: none, align, all."),
    "what is max_num_seqs": ("--max-num-seqs",),
    "does prefix caching work with mamba_cache_mode none": ("Mamba cache mode none Gain:",),
    "should I set --mamba-ssm-cache-dtype float16": ("Apply Mamba SSM-state dtype float16 Gain:",),
    "should I set mamba_ssm_cache_dtype to float16?": ("Mamba SSM-state dtype float16 Gain:",),
    "block_size must be <= max_num_batched_tokens": ("rounded down to whole blocks",),
    "why are prefix cache hits a multiple of 528": (
        "With prefix caching on, hits are multiples of",
    ),
    "difference between mamba cache mode all and align": (
        "Apply Prefix caching on, Mamba cache mode all",
        "Apply Prefix caching on, Mamba cache mode align",
    ),
    "which models support mamba_cache_mode all": (
        "models of the catalog start with Prefix caching on, Mamba cache mode all:",
        "bamba-9b",
    ),
    "which models support MTP?": ("models of the catalog start with", "qwen3-next-80b-a3b"),
    "which models support MTP on H100?": (
        "models of the catalog start with Device H100, Speculative tokens 1",
        "qwen3.5-4b",
    ),
    "which models support FLASHINFER": ("start with Backend FLASHINFER:", "qwen3.5-4b"),
    "which models support fp8 on H100": ("start with Device H100, KV-cache dtype fp8:",),
    "which models work with fp8?": ("models of the catalog start with KV-cache dtype fp8:",),
    "why are hits a multiple of 528 for qwen3.5-4b": (
        "hits are multiples of 528 tokens, the least common multiple of the blocks of all groups",
    ),
    "how much memory does the mamba cache use per request": (
        "The states of a request take 49.12 MiB on each GPU: 4 blocks in 4 groups",
        "whatever its length",
    ),
    "how many mamba blocks per request": ("The states of a request take", "4 blocks in 4 groups"),
    "how many blocks per request": ("It holds 20 blocks of the pool, 4 of them for states.",),
    "why is kernel block size 16 when block size is 528": (
        "The kernel block of nemotron-3-nano-30b-a3b: 16 tokens",
        "Step 20 of 20: Kernel block size: 16 tokens",
    ),
    "which kernel block sizes does FlashInfer support": ("FLASHINFER in vLLM 0.23 has kernel b",),
    "kv offload cpu 64 GiB how many blocks": ("vLLM does not start with offload",),
    "how many blocks does kv offload hold for llama-3.1-8b?": (
        "64.00 GiB of host memory holds 32,768 blocks or 16 prompts",
    ),
    "does fp8 kv cache double concurrency for hybrid models": ("Apply KV-cache dtype fp8 Gain:",),
    "why does fp8 kv cache double my block size": ("Block: 4,176 tokens, 2,096 before.",),
    "what happens when max_num_seqs is larger than mamba blocks": (
        "has fewer blocks than Max sequences",
    ),
    "why does align mode need chunked prefill": (
        "align mode ends each step at the end of a block",
    ),
    "which block sizes are valid for TRITON_ATTN": ("TRITON_ATTN in vLLM 0.23 has kernel blocks",),
    "why was FlashAttention not selected on B200 for qwen3-next-80b": (
        "FLASH_ATTN can be set here; vLLM chooses FLASHINFER by itself.",
    ),
    "why can't I use fp8_e5m2 with FlashAttention": (
        "FLASH_ATTN is not valid for this configuration: KV-cache dtype",
    ),
    "how many requests can run at once with 16 GiB of kv cache": (
        "KV-cache memory per GPU 16 GiB",
        "requests of 32,768 tokens fit",
    ),
    "does speculative decoding need extra mamba blocks for qwen3-next-80b": (
        "Apply Speculative tokens 1",
    ),
    "is kv cache shared between attention and mamba layers": ("1 group of 6 layers (FullAtt",),
    "is --mamba-block-size the same as --block-size?": (
        "Mamba block: --mamba-block-size, in tokens",
        "alignment granularity, not a cap",
    ),
    "what is lcm block size": ("the least common multiple of the blocks of all groups",),
    "is there a limit on max_num_seqs for mamba models": ("fewer blocks than Max sequences",),
    "what if I set max_num_batched_tokens to 8192": ("Apply Max batched tokens 8,192",),
    "how big is the conv state of qwen3-next-80b?": (
        "conv state 3 x 8,192 x 2 bytes of bfloat16 = 49,152 B (48.00 KiB); recurrent state 32 x",
    ),
    "state size of qwen3-8b": ("No layer of this model keeps a state.",),
    "which models use MLA?": ("models of the catalog have MLA layers:", "kimi-linear-48b-a3b"),
    "which models have sliding window layers": ("have sliding attention layers:", "gpt-oss-20b"),
    "models with mamba2 layers": ("have mamba2 layers:", "bamba-9b"),
    "does kimi-linear use MLA?": ("20 layers (ssm: kda), 7 layers", "The attention is MLA."),
    "what is vllm:prefix_cache_hits": ("those of new prompts that were looked up",),
    "what does the metric vllm:gpu_cache_usage_perc mean?": ("from 0 to 1",),
    "which metrics show hits": ("A server's /metrics have:", "vllm:prefix_cache_queries"),
    "how do I see the prefix hit rate": ("A server's /metrics have:",),
    "where are the lessons?": ("the row of labs ends with the first one",),
    "can I serve qwen3.5-27b on one A100 80GB": ("would start",),
    "show me the layout of a page": ("is a page of 2,146,304 B",),
    "what is in a block?": ("is a page of 2,146,304 B",),
    "what is a short conv": ("The layer of LFM2",),
    "why is --block-size ignored": ("alignment granularity, not a cap",),
}


def test_a_number_of_a_field_is_not_a_block_size():
    assert "--block-size 8192" not in answer("what if I set max_num_batched_tokens to 8192")[1]


@pytest.mark.parametrize("text", SAID)
def test_what_users_ask_in_issues_is_answered(text):
    _door, said = answer(text)
    assert all(words in said for words in SAID[text]), said


def test_two_devices_on_which_nothing_starts_say_why():
    door, _said = answer("kimi-k2 on L4 vs A10G")
    shown = plain_text(region(door, "body"))
    assert "Neither starts." in shown
    assert "No memory left" in shown


def test_models_are_listed_by_their_layers_and_no_others():
    _door, said = answer("which models have gated delta nets?")
    listed, _, _rest = said.partition("Any other model")
    assert "qwen3.5-4b" in listed
    assert not {"bamba-9b", "qwen3-8b", "kimi-linear-48b-a3b"} & {*listed.split()}
