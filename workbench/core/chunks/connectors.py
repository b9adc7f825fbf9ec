"""What keeps or moves blocks outside of an engine: one record per connector, with its source.

vLLM's own connectors were read in the wheels of 0.23 and 0.33, below
`vllm/distributed/kv_transfer/kv_connector/v1/`; LMCache in the wheel of 0.5.6. What a connector
does with a cache that no source states is not answered here.
"""

from dataclasses import dataclass
from typing import Final

from workbench.core.kv_connectors import NIXL
from workbench.core.registry import Registry

ANY: Final = "any number of tokens"
MULTIPLE: Final = "a multiple of every group's block"
EQUAL: Final = "a multiple of the block, which all groups must share"
OWN: Final = "fixed: the blocks of the groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """One `kv_connector` of `--kv-transfer-config`."""

    name: str
    purpose: str
    sizes: str
    """What a chunk may be: ANY, MULTIPLE, EQUAL or OWN."""
    source: str
    """Where the rules were read, with the version."""
    option: str | None = None
    """What sets the chunk, None where nothing does."""
    default_tokens: int | None = None
    """The chunk if it is not set, None for the groups' blocks."""
    state_modes: tuple[str, ...] = ()
    """Values of mamba_cache_mode that it takes, empty where it has no rule of its own."""
    whole_ids: bool = True
    """A stored block holds the bytes of one block id over all tensors, whichever group it is of."""
    stores: bool = True
    """It keeps blocks; else it moves them from engine to engine."""
    one_size: bool = False
    """All engines of a store have the same chunk size, which the server sets."""
    key: tuple[str, ...] = ()
    """What the key of a chunk has besides the model and the tokens; engines of one model that agree
    in it find each other's chunks. Empty where engines share nothing."""
    separate: str = ""
    """How engines are kept apart whose keys are the same."""


CONNECTORS: Registry[Connector] = Registry("connector", "connector")
LMCACHE, LMCACHE_INSIDE = "LMCacheMPConnector", "LMCacheConnectorV1"
MOONCAKE = "MooncakeStoreConnector"
OFFLOADING, SIMPLE = "OffloadingConnector", "SimpleCPUOffloadConnector"

for _one in (
    Connector(
        name=LMCACHE,
        purpose="an LMCache server, which several engines can share",
        sizes=MULTIPLE,
        option="--chunk-size of the LMCache server",
        default_tokens=256,
        state_modes=("align", "all"),
        whole_ids=False,
        one_size=True,
        key=("ranks",),
        separate="Give each a server of its own, or another model path.",
        # vLLM's own class of this name, used without the package or with LMCACHE_USE_UPSTREAM_MP,
        # takes one group only.
        source="LMCache 0.5.6: LMCacheMPConnector.__init__, validate_kv_cache_groups, "
        "_validate_block_chunk_size_config, ObjectKey; vLLM takes it from the package "
        "(_resolve_lmcache_mp_connector)",
    ),
    Connector(
        name=LMCACHE_INSIDE,
        purpose="LMCache inside the engine",
        sizes=ANY,
        option="chunk_size of LMCache (LMCACHE_CHUNK_SIZE)",
        default_tokens=256,
        whole_ids=False,
        key=("ranks", "kv_cache_dtype"),
        separate="Give each a store of its own, or another model path.",
        source="LMCache 0.5.6: ReqMeta.from_request_tracker (a slot per token), LMCacheMetadata, "
        "CacheEngineKey, save_unfull_chunk = False; LMCacheConnectorV1 of vLLM has no SupportsHMA",
    ),
    Connector(
        name=MOONCAKE,
        purpose="a Mooncake store, which several engines can share",
        sizes=OWN,
        state_modes=("align",),
        # The number of ranks is not in the key (KeyMetadata), only the rank.
        key=("hash block",),
        separate="Set cache_prefix in kv_connector_extra_config (0.33), or another model path.",
        source="vLLM: MooncakeStoreConnector._validate_kv_cache_config, KeyMetadata, "
        "ChunkedTokenDatabase and MooncakeStoreCoordinator",
    ),
    Connector(
        name=OFFLOADING,
        purpose="vLLM's own offload to host memory",
        sizes=EQUAL,
        option="block_size (or blocks_per_chunk) in kv_connector_extra_config",
        source="vLLM: OffloadingSpec (0.23), build_offloading_config (0.33)",
    ),
    Connector(
        name=SIMPLE,
        purpose="vLLM's simple offload to host memory",
        sizes=OWN,
        source="vLLM: SimpleCPUOffloadConnector, v1/simple_kv_offload/manager.py",
    ),
    Connector(
        name=NIXL,
        purpose="transfer from prefill to decode over NIXL",
        sizes=OWN,
        stores=False,
        source="vLLM: add_remote_agent and _validate_remote_agent_handshake of the NIXL worker",
    ),
):
    CONNECTORS.add(_one.name, _one)
