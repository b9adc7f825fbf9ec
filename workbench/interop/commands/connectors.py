"""KV connectors that a command names by other words: `--kv-offloading-size`, MultiConnector."""

from collections.abc import Mapping
from typing import Any

from workbench.core.chunks.connectors import LMCACHE, OFFLOADING, SIMPLE
from workbench.core.kv_connectors import KvConnector
from workbench.core.versions import RULE_SETS

FLAG, MULTI = "--kv-transfer-config", "MultiConnector"
NAME, EXTRA, CHILDREN = "kv_connector", "kv_connector_extra_config", "connectors"
SIZE = "kv_offloading_size"
BACKEND = "kv_offloading_backend"
TAKE_SIMPLE = "VLLM_USE_SIMPLE_KV_OFFLOAD"
NATIVE = "native"
OF_BACKENDS = {NATIVE: OFFLOADING, "lmcache": LMCACHE}


def offloading_connector(values: Mapping[str, Any]) -> str | None:
    """Return the connector of these arguments and variables; None without a size.

    Source: `VllmConfig._post_init_kv_transfer_config`, 0.23 and 0.33.
    """
    if values.get(SIZE) is None:
        return None
    backend = str(values.get(BACKEND) or NATIVE)
    if backend == NATIVE and str(values.get(TAKE_SIMPLE, "")).casefold() in {"1", "true"}:
        return SIMPLE
    return OF_BACKENDS.get(backend)


def of_one_child(values: dict[str, Any], release: str) -> tuple[dict[str, Any], list[str]]:
    """Return settings of a connector, those of one child where it requests what all do; and notes.

    Source: `supports_hma_config` of the factory, and `MultiConnector.get_required_kvcache_layout`,
    which refuses children that request two layouts; 0.23 and 0.33.
    """
    child = _like_all(values, release) if values.get(NAME) == MULTI else None
    if child is None:
        return values, []
    note = f"{MULTI} is read as {child}, which requests as much of an engine."
    return {**values, NAME: child}, [note]


def _like_all(values: Mapping[str, Any], release: str) -> str | None:
    extra = values.get(EXTRA)
    children = extra.get(CHILDREN) if isinstance(extra, Mapping) else None
    names = [one.get(NAME) for one in children or () if isinstance(one, Mapping)]
    known = RULE_SETS[release].offload.connectors
    records = {name: known[name] for name in names if isinstance(name, str) and name in known}
    if not records or len(records) < len(set(map(str, names))):
        return None
    joined = _joined(list(records.values()))
    return next((name for name, one in records.items() if one == joined), None)


def _joined(records: list[KvConnector]) -> KvConnector | None:
    layouts = {one.layout for one in records} - {None}
    if len(layouts) > 1:
        return None
    return KvConnector(
        supports_hybrid=all(one.supports_hybrid for one in records),
        layout=next(iter(layouts), None),
        orders_latents=any(one.orders_latents for one in records),
        moves_whole_latents=any(one.moves_whole_latents for one in records),
    )
