"""What vLLM's layers are merged of, by model_type: `packed_modules_mapping` of its classes."""

from collections.abc import Mapping
from types import MappingProxyType

from workbench.core.weights import EARLIER, LATER
from workbench.models.weights.parts import Config
from workbench.models.weights.positions import of_library
from workbench.models.weights.stored import MERGED

Merged = Mapping[str, tuple[str, ...]]
USUAL = {key: MERGED[key] for key in ("qkv_proj", "gate_up_proj", "fused_qkv_a_proj")}
DELTA = {"in_proj_qkvz": ("in_proj_qkv", "in_proj_z"), "in_proj_ba": ("in_proj_b", "in_proj_a")}
"""Of Qwen3.5's gated delta nets; Qwen3-Next has both merged in its checkpoint."""
KIMI_DELTA = {key: MERGED[key] for key in ("in_proj_qkvgfab",)}
GATED = {key: MERGED[key] for key in ("w13",)}
INDEXED = {"qkv_proj": (*MERGED["qkv_proj"], "indexer.index_qk_proj")}
OWN: Mapping[str, Merged] = {
    **dict.fromkeys(("lfm2", "lfm2_moe"), GATED),
    **dict.fromkeys(("qwen3_5_text", "qwen3_5_moe_text"), DELTA),
    "internlm2": {"gate_up_proj": ("w1", "w3")},
    "olmo_hybrid": {"in_proj_qkvz": (*MERGED["qkv_proj"], "g_proj")},
    "qwen4_exp_text": {**DELTA, **INDEXED},
}
"""model_type -> what differs from, or adds to, that of most classes."""
OF_RELEASES: Mapping[str, Mapping[str, Merged]] = {
    EARLIER: {"bamba": {"gate_up_proj": ("up_proj", "down_proj")}},
    LATER: dict.fromkeys(("alice_ai", "kimi_linear"), KIMI_DELTA),
}
"""The same of one release alone."""
ALWAYS_UNMAPPED = frozenset({"gptj", "orion", "stablelm", "step3_text"})
UNMAPPED = {
    EARLIER: ALWAYS_UNMAPPED | {"kimi_linear", "starcoder2"},
    LATER: ALWAYS_UNMAPPED,
}
"""model_types whose classes do not say what their layers are merged of."""
NONE: Merged = MappingProxyType({})


def merged_parts(config: Config) -> dict[str, Merged]:
    """Return kinds of parts -> what layers are merged of in the releases that have these."""
    earlier, later = of_library(config)
    found = {EARLIER: NONE if earlier else _of(config.kind, EARLIER)}
    # the library's classes are merged as most are from 0.33 on (`recursive_replace`)
    return {**found, LATER: USUAL if later else _of(config.kind, LATER)}


def _of(kind: str, release: str) -> Merged:
    if kind in UNMAPPED[release]:
        return NONE
    return {**USUAL, **OWN.get(kind, NONE), **OF_RELEASES[release].get(kind, NONE)}
