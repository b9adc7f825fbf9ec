"""Ordinary decoders for comparison with hybrids: dense, MoE, sliding-window, MLA."""

from __future__ import annotations

from workbench.core.model import CHUNKED, FULL, SLIDING, Layer
from workbench.models.family import Family, register
from workbench.models.fields import Fields
from workbench.models.layer_lists import first_list, to_layers

WORDS: dict[object, str] = {kind: kind for kind in (FULL, SLIDING, CHUNKED)}
MLA_WORDS: dict[object, str] = {**WORDS, "deepseek_sparse_attention": FULL}
"""An indexer chooses tokens of a layer that caches all of them."""

ORDINARY = {
    "llama": ("LlamaForCausalLM", "LLaMAForCausalLM"),
    "mistral": ("MistralForCausalLM",),
    "mixtral": ("MixtralForCausalLM",),
    "qwen2": ("Qwen2ForCausalLM",),
    "qwen2_moe": ("Qwen2MoeForCausalLM",),
    "qwen3": ("Qwen3ForCausalLM",),
    "qwen3_moe": ("Qwen3MoeForCausalLM",),
    "phi3": ("Phi3ForCausalLM",),
    "gemma": ("GemmaForCausalLM",),
    "glm4": ("Glm4ForCausalLM",),
    "glm4_moe": ("Glm4MoeForCausalLM",),
    "olmo2": ("Olmo2ForCausalLM",),
    "olmo3": ("Olmo3ForCausalLM",),
    "granite": ("GraniteForCausalLM",),
    "granitemoe": ("GraniteMoeForCausalLM",),
    "smollm3": ("SmolLM3ForCausalLM",),
    "starcoder2": ("Starcoder2ForCausalLM",),
    "exaone4": ("Exaone4ForCausalLM",),
    "seed_oss": ("SeedOssForCausalLM",),
    "ernie4_5": ("Ernie4_5ForCausalLM",),
    "ernie4_5_moe": ("Ernie4_5_MoeForCausalLM",),
    "hunyuan_v1_dense": ("HunYuanDenseV1ForCausalLM",),
    "minimax_m2": ("MiniMaxM2ForCausalLM",),
}
MLA = {
    "deepseek_v2": ("DeepseekV2ForCausalLM",),
    # vLLM's wrappers of Kimi build DeepSeek-V3 under the older name, which is the same class.
    "deepseek_v3": ("DeepseekV3ForCausalLM", "DeepseekV2ForCausalLM"),
    "deepseek_v32": ("DeepseekV32ForCausalLM",),
    "kimi_k2": ("DeepseekV3ForCausalLM", "DeepseekV2ForCausalLM"),
    "glm4_moe_lite": ("Glm4MoeLiteForCausalLM",),
    "glm_moe_dsa": ("GlmMoeDsaForCausalLM",),
    "longcat_flash": ("LongcatFlashForCausalLM",),
    "pangu_ultra_moe": ("PanguUltraMoEForCausalLM",),
}
SLIDING_DECODERS = {
    "gemma2": ("Gemma2ForCausalLM",),
    "gpt_oss": ("GptOssForCausalLM",),
    "cohere2": ("Cohere2ForCausalLM",),
    "gemma3": ("Gemma3ForConditionalGeneration",),
    "gemma3_text": ("Gemma3ForCausalLM",),
}
ALTERNATING = {
    "gemma2": 2, "gpt_oss": 2, "cohere2": 4, "gemma3": 6, "gemma3_text": 6,
}  # fmt: skip
"""model_type -> every n-th layer is full attention, the others slide."""


def _listed_or(
    fields: Fields, period: int | None, words: dict[object, str] = WORDS
) -> tuple[Layer, ...]:
    kinds = first_list(fields, ("layer_types",), words)
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


def _mla_layers(fields: Fields) -> tuple[Layer, ...]:
    return _listed_or(fields, None, MLA_WORDS)


def _alternating_layers(fields: Fields) -> tuple[Layer, ...]:
    model_type = fields.model_type if fields.model_type in ALTERNATING else "gemma3"
    return _listed_or(fields, ALTERNATING[model_type])


register(
    Family("decoder", model_types=ORDINARY, layers=_ordinary_layers, is_hybrid=False),
    Family("mla_decoder", model_types=MLA, layers=_mla_layers, is_hybrid=False),
    Family(
        "sliding_decoder", model_types=SLIDING_DECODERS, layers=_alternating_layers, is_hybrid=False
    ),
)
