"""Ordinary decoders that people compare hybrids with: dense, MoE, sliding-window, MLA."""

from __future__ import annotations

from workbench.core.model import CHUNKED, FULL, SLIDING, Layer
from workbench.models.family import Family, register
from workbench.models.fields import Fields
from workbench.models.layer_lists import first_list, to_layers

WORDS: dict[object, str] = {kind: kind for kind in (FULL, SLIDING, CHUNKED)}

ORDINARY = (
    "llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "phi3", "gemma",
    "glm4", "glm4_moe", "olmo2", "olmo3", "granite", "granitemoe", "smollm3", "starcoder2",
    "exaone4", "seed_oss", "ernie4_5", "ernie4_5_moe", "hunyuan_v1_dense", "minimax_m2",
)  # fmt: skip
MLA = (
    "deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm4_moe_lite", "glm_moe_dsa",
    "longcat_flash", "pangu_ultra_moe",
)  # fmt: skip
ALTERNATING = {
    "gemma2": 2, "gpt_oss": 2, "cohere2": 4, "gemma3": 6, "gemma3_text": 6,
}  # fmt: skip
"""model_type -> every n-th layer is full attention, the others slide."""


def _listed_or(fields: Fields, period: int | None) -> tuple[Layer, ...]:
    kinds = first_list(fields, ("layer_types",), WORDS)
    if kinds is not None:
        return to_layers(kinds)
    count = fields.layer_count()
    if period is None:
        return to_layers([_single_kind(fields)] * count)
    period = fields.integer("sliding_window_pattern", period)
    return to_layers([SLIDING if (index + 1) % period else FULL for index in range(count)])


def _single_kind(fields: Fields) -> str:
    slides = fields.has("sliding_window") and fields.raw("use_sliding_window") is not False
    return SLIDING if slides else FULL


def _ordinary_layers(fields: Fields) -> tuple[Layer, ...]:
    return _listed_or(fields, None)


def _alternating_layers(fields: Fields) -> tuple[Layer, ...]:
    model_type = fields.model_type if fields.model_type in ALTERNATING else "gemma3"
    return _listed_or(fields, ALTERNATING[model_type])


register(
    Family("decoder", ORDINARY, _ordinary_layers, is_hybrid=False),
    Family("mla_decoder", MLA, _ordinary_layers, is_hybrid=False),
    Family("sliding_decoder", tuple(ALTERNATING), _alternating_layers, is_hybrid=False),
)
