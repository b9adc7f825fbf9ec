"""MultiConnector: several KV connectors, of which an engine has to suit all."""

from collections.abc import Mapping
from typing import Any

from workbench.core.kv_connectors import KvConnector
from workbench.core.versions import RULE_SETS

FLAG, MULTI = "--kv-transfer-config", "MultiConnector"
NAME, EXTRA, CHILDREN = "kv_connector", "kv_connector_extra_config", "connectors"


def like_one_child(values: Mapping[str, Any], release: str) -> str | None:
    """Return the child that requests of an engine what all of them do; None where none does.

    Source: `supports_hma_config` of the factory, and `MultiConnector.get_required_kvcache_layout`,
    which refuses children that request two layouts; 0.23 and 0.33.
    """
    if values.get(NAME) != MULTI:
        return None
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
