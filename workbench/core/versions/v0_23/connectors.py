"""The KV connectors of 0.23, and how blocks are hashed and offloaded."""

from workbench.core.kv_connectors import KvConnector
from workbench.core.offload.rules import OffloadRules

ONE_GROUP = KvConnector(supports_hybrid=False)
HEADS_FIRST = KvConnector(layout="HND")
# `KVConnectorFactory`, and in each class `SupportsHMA` and `get_required_kvcache_layout`. Omitted:
# MultiConnector, which asks for what its children ask, and ExampleHiddenStatesConnector.
CONNECTORS = {
    "NixlConnector": HEADS_FIRST,
    "OffloadingConnector": KvConnector(layout="HND", orders_latents=True),
    "SimpleCPUOffloadConnector": KvConnector(),
    # that of the package lmcache; vLLM's own class of this name takes one group
    "LMCacheMPConnector": KvConnector(),
    "LMCacheConnectorV1": ONE_GROUP,
    "MooncakeConnector": HEADS_FIRST,
    "MooncakeStoreConnector": KvConnector(),
    "MoRIIOConnector": ONE_GROUP,
    "P2pNcclConnector": ONE_GROUP,
    "FlexKVConnectorV1": ONE_GROUP,
    "HF3FSKVConnector": ONE_GROUP,
    "DecodeBenchConnector": KvConnector(),
    "ExampleConnector": ONE_GROUP,
}
OFFLOAD = OffloadRules(connectors=CONNECTORS)
