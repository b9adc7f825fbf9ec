"""How vLLM 0.33 groups layers: one allocation, unequal pages padded or packed side by side.

Source: `vllm/v1/core/kv_cache_planning.py`, `vllm/v1/kv_cache_layout.py`, and
`supported_kv_cache_layouts` of the backends.
"""

from __future__ import annotations

from workbench.core.groups.cache_spec import GroupRules

ANY_LAYOUT = ("LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC")
"""What is preferred where no backend says anything: layer, block, head, token, content."""

GROUPS = GroupRules(
    pads_pages=True,
    merges_buckets=True,
    one_allocation=True,
    compares_mla=True,
    promotes_block_size=True,
    windows_choose_blocks=True,
    skips_mla_layers=True,
    shares_indexers=True,
    splits_hidden_blocks=True,
    counts_null_block=True,
    joins_printed_lines=True,
    batches_in_flight=2,
    checkpoint_blocks={"mamba2": 1, "gdn:flashinfer": 1},
    layouts=ANY_LAYOUT,
    promotion_refused="Failed to promote local KV cache specs to one unified type.",
)
