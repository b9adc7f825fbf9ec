"""Layers of 0.23 whose values are narrower than their keys: the model itself names their backend.

Sources: `MiMoV2Attention` and the constructor of `FlashAttentionImpl`.
"""

from workbench.core.backends import LayerQuery
from workbench.core.versions.v0_23.conditions import newer_flash_attention

FLASH = "FLASH_ATTN_DIFFKV"


def flash_alone(query: LayerQuery) -> tuple[str, ...]:
    """Return the backends, the one that is set first: any explicit one is ignored."""
    return () if query.platform == "cpu" else (FLASH,)


def needs_newer_flash(query: LayerQuery) -> str | None:
    """Return why layers with sinks cannot be built: FlashAttention 2 and that of ROCm have none."""
    # EngineArgs.create_engine_config sets version 2 for all layers with TurboQuant
    newer = newer_flash_attention(query) and not query.turboquant and query.platform != "rocm"
    if newer or not query.attention.has_sinks:
        return None
    return "Sinks are only supported in FlashAttention 3"
