"""Tables of cosines and sines, which vLLM's models keep next to their parameters."""

from collections.abc import Mapping
from typing import Any

from workbench.core.weights import MROPE, OLMO, TABLE, Part
from workbench.models.config_defaults import ORIGINAL
from workbench.models.weights.hybrids import WITHOUT_POSITIONS
from workbench.models.weights.parts import Config, whole

LOCAL = frozenset({"gemma3", "gemma3_text", "olmo3"})
"""model_types whose sliding layers turn by angles of their own."""


ONLY_LONGER = frozenset({"default", "linear", "llama3", "ntk", "proportional", "mrope"})
"""Kinds of scaling whose angles do not depend on the longest position."""
FLASHINFER_SIZES = frozenset({64, 128, 256, 512})


def positions(config: Config) -> list[Part]:
    """Return the tables of rotary embeddings: one for all layers with the same parameters."""
    attention = config.model.attention
    if attention is None or not _rotates(config):
        return []
    size = (attention.qk_rope_head_dim if attention.use_mla else None) or attention.head_size
    settings = config.raw("rope_parameters") or config.raw("rope_scaling") or {}
    nested = [one for one in settings.values() if isinstance(one, Mapping)]
    tables = [_table(config, size, rope) for rope in nested or [settings]]
    if not nested and config.model.model_type in LOCAL and not _same_angles(config, settings):
        tables.append(_table(config, size, {}))
    # The indexer pairs other elements, and so has a table of its own.
    if attention.indexer and not config.flag("indexer_rope_interleave"):
        tables *= 2
    return tables


def _same_angles(config: Config, settings: Mapping[str, Any]) -> bool:
    """Return whether sliding layers turn as the others do: one table serves both."""
    if settings or config.model.model_type == "olmo3":
        return False
    local = config.raw("rope_local_base_freq", 10_000)
    return bool(config.raw("rope_theta", 1_000_000) == local)


def _rotates(config: Config) -> bool:
    kind = config.model.model_type
    if kind == "granitemoehybrid":
        return config.flag("position_embedding_type=rope")
    return kind not in WITHOUT_POSITIONS and (kind != "zamba2" or config.flag("use_mem_rope"))


def _table(config: Config, size: int, rope: Mapping[str, Any]) -> Part:
    longest = config.size("max_position_embeddings", default=8192)
    scaling = rope.get("rope_type", rope.get("type", "default"))
    original = rope.get(ORIGINAL) or config.raw(ORIGINAL, longest)
    factor = rope.get("factor") or 1
    dtype = None
    if scaling in {"yarn", "deepseek_yarn"}:
        longest = int(original * factor)
        # The kernel of FlashInfer, which has these sizes, reads what is not rounded.
        is_precise = config.attention.use_mla and size in FLASHINFER_SIZES
        dtype = "float32" if is_precise or config.model.model_type == "gpt_oss" else None
    elif scaling == "linear":
        longest = int(longest * factor)
    elif scaling == "longrope":
        longest += int(original)
    share = rope.get("partial_rotary_factor", config.raw("partial_rotary_factor", 1.0))
    width = config.raw("rotary_dim") or config.raw("attn_rotary_emb") or int(size * share)
    kind = config.model.model_type if config.model.model_type == OLMO else ""
    kind = MROPE if "mrope_section" in rope else kind
    # One table serves all layers with the same angles.
    angles = {"rope_theta": config.raw("rope_theta"), **rope}
    numbers = {key: float(one) for key, one in angles.items() if isinstance(one, int | float)}
    words = sorted(f"{key}={one}" for key, one in {**angles, **numbers}.items() if one is not None)
    name = " ".join([TABLE if scaling in ONLY_LONGER else f"scaled {TABLE}", *words])
    return whole(name, longest, inputs=width, dtype=dtype, kind=kind)
