"""What a KV connector asks of the engine: `kv_connector` of vLLM's `--kv-transfer-config`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.core.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class KvConnector:
    """One connector as the engine sees it before any block moves."""

    supports_hybrid: bool = True
    """Whether it takes several cache groups (`SupportsHMA`); vLLM turns the hybrid manager off for
    one that does not."""
    layout: str | None = None
    """The order of the cache that it requests (`get_required_kvcache_layout`)."""
    orders_latents: bool = False
    """It requests that order of latent attention (MLA), too."""
    moves_whole_latents: bool = False
    """All ranks share the tokens of a block or none, and only those of latent attention (MLA)."""


NO_CONNECTOR = KvConnector()
NIXL = "NixlConnector"


def connector_of(plan: Plan) -> KvConnector:
    """Return the connector of a plan; one that asks for nothing where it has none."""
    return plan.rules.offload.connectors.get(plan.settings.kv_connector or "", NO_CONNECTOR)


def layout_for_transfer(plan: Plan) -> str | None:
    """Return the order of the cache that the NIXL connector requests."""
    return plan.rules.offload.connectors[NIXL].layout


def requested_layout(plan: Plan) -> str | None:
    """Return the order of the cache that is set explicitly, else the connector's."""
    connector = connector_of(plan)
    wish = connector.layout if connector.orders_latents or not plan.use_mla else None
    return plan.settings.kv_cache_layout or wish
