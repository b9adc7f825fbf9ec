"""How vLLM 0.33 hashes blocks and offloads them.

Source: `resolve_kv_cache_block_sizes` and `BlockHashListWithBlockSize` in
`vllm/v1/core/kv_cache_utils.py`, `build_offloading_config` in
`vllm/distributed/kv_transfer/kv_connector/v1/offloading/config.py`, 0.33.
"""

from __future__ import annotations

from workbench.core.offload.rules import LAST, OffloadRules

OFFLOAD = OffloadRules(
    hash_option="prefix_match_unit",
    large_block_hash=LAST,
    context_parallel_with_groups=True,
    checks_single_group=True,
    takes_blocks_per_chunk=True,
    one_copy_of_latents=True,
    host_block_alignment_bytes=4096,
    transfers_mixed_blocks=True,
    unit_words=("tokens_per_block", "tokens_per_hash"),
)
