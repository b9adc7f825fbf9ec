"""The KV connectors of 0.33, and how blocks are hashed and offloaded."""

from workbench.core.kv_connectors import KvConnector
from workbench.core.offload.rules import LAST, OffloadRules
from workbench.core.versions.v0_23 import connectors as v0_23

HEADS_FIRST = KvConnector(layout="LBHNC")
# As in 0.23, and `VllmConfig.__post_init__`. Omitted: MultiConnector, ExampleHiddenStatesConnector,
# and HiSparseConnector, which keeps blocks of sparse attention in host memory.
CONNECTORS = {
    **{name: one for name, one in v0_23.CONNECTORS.items() if name != "P2pNcclConnector"},
    "NixlConnector": KvConnector(layout="LBHNC", moves_whole_latents=True),
    **dict.fromkeys(("NixlPullConnector", "NixlPushConnector"), HEADS_FIRST),
    "OffloadingConnector": KvConnector(layout="LBHNC", orders_latents=True),
    "MooncakeConnector": HEADS_FIRST,
    "MoRIIOConnector": KvConnector(),
}
# `resolve_kv_cache_block_sizes` and `BlockHashListWithBlockSize` in v1/core/kv_cache_utils.py,
# `build_offloading_config` in distributed/kv_transfer/kv_connector/v1/offloading/config.py.
OFFLOAD = OffloadRules(
    connectors=CONNECTORS,
    hash_option="prefix_match_unit",
    large_block_hash=LAST,
    checks_single_group=True,
    takes_blocks_per_chunk=True,
    one_copy_of_latents=True,
    host_block_alignment_bytes=4096,
    transfers_mixed_blocks=True,
    transferred_states=frozenset({"mamba1", "mamba2", "gdn"}),
    reads_three_parts=False,
    checks_packed_heads=True,
    splits_heads_by_ranks=False,
    # use_eagle of SpeculativeConfig: drafts of these read the target's hidden states
    fingerprinted_methods=frozenset({"mtp", "eagle", "eagle3", "dflash", "dspark"}),
    store_shares_states=False,
    store_wants_align=True,
    unit_words=("tokens_per_block", "tokens_per_hash"),
)
