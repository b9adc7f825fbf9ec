"""The messages of fatal errors about memory and block sizes; see `MESSAGES` in `find`."""

from workbench.core.arithmetic import GIB
from workbench.interop.logs.message import Compare, Values, fatal

NUM_BLOCKS = Compare(
    "num_blocks", of="cache.num_blocks", unit="blocks", rounded=True, is_target=True
)
BLOCK = Compare("block_size", unit="tokens")
NEEDED = Compare(
    "needed_gib",
    of=lambda plan: plan.cache and plan.cache.needed_bytes / GIB,
    rules=("block_size", "num_blocks"),
    unit="GiB",
    digits=2,
    tolerance=0.011,
    is_target=True,
)


HASH_MEANS = (
    "A group's block is not a multiple of the prefix hash unit, by default the greatest common "
    "divisor of all groups."
)
HASH_ADVICE = (
    "Omit --prefix-match-unit (before 0.33: --hash-block-size), or use a divisor of all sizes."
)


def _hash_unit(values: Values, scenario: Values) -> str:
    if not scenario.get("enable_prefix_caching"):
        return (
            "--enable-prefix-caching aligns the groups; tab `Offload and transfer` lists sizes "
            "that work."
        )
    size = values["group_block_size"]
    return (
        f"Prefix caching is on already, so the hash unit was set or a group of {size} tokens is "
        f"smaller than it: set --prefix-match-unit (before 0.33: --hash-block-size) to a divisor "
        f"of {size}, or omit it; else use a connector without hashes of this group."
    )


ERRORS = (
    fatal(
        "not_enough_memory",
        r"`To serve at least one request` with the model(?:s?'s)? max seq len "
        r"\((?P<max_model_len>\d+)\), \(?(?P<needed_gib>[\d.]+) GiB KV cache is needed, which is "
        r"larger than the available KV cache memory \((?P<available_gib>[\d.]+) GiB\)",
        "One request of full length does not fit into the cache, so vLLM does not start.",
        "Set --max-model-len to the estimated length, or free memory for the cache.",
        fields=lambda values: {"kv_cache_memory_bytes": round(values["available_gib"] * GIB)},
        compares=(NEEDED,),
        codes=("not_enough_memory",),
    ),
    fatal(
        "longer_than_cache",
        r"max seq len \((?P<max_model_len>\d+)\) `is larger than the maximum number of tokens` "
        r"that can be stored in KV cache \((?P<tokens>\d+)\)",
        "One request of full length does not fit into the cache (message of versions before 0.9).",
        "Set --max-model-len to at most the number of tokens, or add memory for the cache.",
        codes=("not_enough_memory",),
    ),
    fatal(
        "no_memory",
        r"`No available memory for the cache blocks`",
        "Weights and activations take all memory; none is left for the cache.",
        "Raise --gpu-memory-utilization, use more ranks, fewer tokens per step or a smaller model.",
        fields={"kv_cache_memory_bytes_by_rank": (0,)},
        codes=("no_memory_for_blocks",),
    ),
    fatal(
        "cannot_auto_fit",
        r"`Cannot auto-fit max_model_len`",
        "--max-model-len is -1, and not even one token fits.",
        "Free memory for the cache.",
        fields={"max_model_len": -1},
        is_explicit=True,
        codes=("cannot_auto_fit",),
    ),
    fatal(
        "too_many_sequences",
        r"max_num_seqs \((?P<max_num_seqs>\d+)\) `exceeds available Mamba cache blocks` "
        r"\((?P<num_blocks>\d+)\)",
        "Every running request keeps a state in a block of its own, and the pool has fewer blocks "
        "than max_num_seqs (vllm#49064).",
        "Set --max-num-seqs to at most the number of blocks, add memory, or use a smaller block.",
        compares=(NUM_BLOCKS,),
        codes=("max_num_seqs_above_blocks",),
    ),
    fatal(
        "block_exceeds_budget",
        r"`In Mamba cache align mode, block_size` \((?P<block_size>\d+)\) must be <= "
        r"max_num_batched_tokens \((?P<max_num_batched_tokens>\d+)\)",
        "A prefill step is rounded down to whole blocks; with a smaller budget that is 0 tokens, "
        "and the request would never run (vllm#36697).",
        "Set --max-num-batched-tokens to at least the block size, or turn prefix caching off.",
        fields={"enable_prefix_caching": True, "mamba_cache_mode": "align"},
        compares=(
            Compare(
                "block_size",
                rules=(
                    "mamba_page_size_bytes",
                    "attention_bytes_per_token",
                    "aligned_block_size",
                    "align_budget",
                ),
                unit="tokens",
                is_size=True,
            ),
        ),
        codes=("block_exceeds_token_budget",),
    ),
    fatal(
        "pages_not_divisible",
        r"page size (?:of the layer )?`is not divisible by the maximum page size`",
        "Two kinds of layers have pages of which neither is a multiple of the other, so they "
        "cannot share blocks.",
        "Look for a draft model, a pipeline partition or a KV dtype that differs between layers; "
        "before #37467 the alignment ran before the backend was known (vllm#38979).",
        codes=("pages_not_equal",),
        is_distinct=False,
    ),
    fatal(
        "pages_do_not_grow",
        r"`assert new_spec\.page_size_bytes == `max_page_size",
        "A layer with a smaller page got a larger block, but its page did not grow with it: a "
        "mamba page, or a page that was already padded, stays as large as it is.",
        "Use 0.33, which pads such pages; or omit the draft model, or the hidden states or the KV "
        "dtype that made pages of another size.",
        codes=("pages_not_equal",),
    ),
    fatal(
        "no_common_block",
        r"`No common block size for` (?P<block_size>\d+)[. ]",
        "No block size that the attention kernels support divides the manager block.",
        "Use a --block-size that the backend's sizes divide, or another backend.",
        compares=(BLOCK,),
        codes=("no_common_block_size",),
    ),
    fatal(
        "aligned_not_supported",
        r"`Aligned KV cache block size` (?P<block_size>\d+) is not supported by attention "
        r"backend\(s\): (?P<backends>[\w, ]+)",
        "0.33: the block grew to fit a mamba state, and the backend does not support the new size.",
        "Use another backend, or a --block-size that it supports.",
        compares=(BLOCK,),
        codes=("no_common_block_size",),
    ),
    fatal(
        "no_shared_block",
        r"The attention backends `share no supported KV cache block size`",
        "0.33: layers run on several backends, and no size suits all of them.",
        "Use one backend for all layers (--attention-backend).",
        codes=("no_shared_block_size",),
    ),
    fatal(
        "kernel_block_must_divide",
        r"kernel_block_size (?P<kernel_block_size>\d+) `must divide` "
        r"(?:\w+ )*?(?P<block_size>\d+)?",
        "The block table was built for a kernel block that does not fit into a manager block.",
        "Use a --block-size that the backend's sizes divide.",
        codes=("no_common_block_size",),
        is_distinct=False,
    ),
    fatal(
        "hash_block_not_divisible",
        r"(?:gpu_block_size|tokens_per_block)=(?P<group_block_size>\d+) `not divisible by` "
        r"(?:hash_block_size|tokens_per_hash)=(?P<hash_block_size>\d+)",
        "A group's block is not a multiple of the prefix hash unit, so offload cannot identify it.",
        _hash_unit,
        is_distinct=False,
    ),
    fatal(
        "hash_block_must_divide",
        r"`Each KV cache group's real block_size` must be divisible by hash_block_size\. "
        r"block_sizes=(?P<group_sizes>\[[\d, ]+\]), hash_block_size=(?P<hash_block_size>\d+)",
        HASH_MEANS,
        HASH_ADVICE,
    ),
    fatal(
        "hash_block_assertion",
        r"AssertionError: `block_size must be divisible by hash_block_size`",
        HASH_MEANS,
        HASH_ADVICE,
        is_distinct=False,
    ),
    fatal(
        "padded_page_too_small",
        r"self\.`page_size_padded >= `(?:real_page_size|page_size|self\.unpadded_page_size_bytes)",
        "A page is larger than what it was to be padded to: the block was aligned for other "
        "states, so a dtype or the number of drafts changed afterwards.",
        "Compare the states that each process reports, set --mamba-ssm-cache-dtype, or upgrade.",
        is_distinct=False,
    ),
    fatal(
        "invalid_hash_block",
        r"`Invalid `(?:hash_block_size|prefix_match_unit)=(?P<hash_block_size>\d+);",
        "The requested hash block (0.33: prefix_match_unit) does not divide every group's block.",
        "Use a divisor of all group block sizes; tab `Offload and transfer` lists them.",
        is_distinct=False,
    ),
    fatal(
        "context_parallel",
        r"Hybrid KV cache groups with multiple block sizes `do not support context parallelism`",
        "Context parallelism requires one block size for all groups.",
        "Set --decode-context-parallel-size 1.",
    ),
    fatal(
        "hybrid_manager_off",
        r"`Hybrid KV cache manager is disabled but failed` to convert",
        "Attention and states cannot become one kind, and a flag or a connector turned the hybrid "
        "manager off.",
        "Omit --disable-hybrid-kv-cache-manager; use a connector that supports hybrids.",
        codes=("not_one_type",),
    ),
)
"""Errors of memory and block sizes, in the order of a start."""
