"""Decoders for comparison with hybrids: dense, MoE, sliding-window, MLA, searched blocks.

In an architecture of the Llama-Nemotron kind every block has its own number of KV heads, or no
attention and then no cache. Source: `nemotron_nas.py` of 0.23.
"""

from collections.abc import Mapping
from dataclasses import replace

from workbench.core.model import CHUNKED, FULL, SLIDING, Attention, Layer
from workbench.models.attention import read_attention
from workbench.models.family import register
from workbench.models.fields import Fields
from workbench.models.layer_lists import Words, listed

BLOCKS = "block_configs"
WORDS: Words = {kind: kind for kind in (FULL, SLIDING, CHUNKED)}
MLA_WORDS: Words = {**WORDS, "deepseek_sparse_attention": FULL}
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
ALTERNATING = {"gemma2": 2, "gpt_oss": 2, "cohere2": 4, "gemma3": 6, "gemma3_text": 6}
"""model_type -> every n-th layer is full attention, the others slide."""


def _one_kind(fields: Fields) -> list[str]:
    count = fields.layer_count()
    slides = fields.has("sliding_window") and fields.raw("use_sliding_window") is not False
    return [SLIDING if slides else FULL] * count


def _alternating(fields: Fields) -> list[str]:
    count = fields.layer_count()
    period = ALTERNATING.get(fields.model_type, ALTERNATING["gemma3"])
    period = fields.integer("sliding_window_pattern", period)
    return [SLIDING if (index + 1) % period else FULL for index in range(count)]


def _block_kv_heads(fields: Fields) -> tuple[int | None, ...]:
    """Return the KV heads of every searched block, None for one without attention."""
    blocks = fields.raw(BLOCKS)
    if blocks is None:
        raise fields.missing(BLOCKS, "the KV heads of every block")
    if not isinstance(blocks, list) or not blocks:
        raise fields.wrong(BLOCKS, blocks, "a list of blocks")
    if len(blocks) != (count := fields.layer_count()):
        raise fields.contradiction(BLOCKS, f"{len(blocks)} entries for num_hidden_layers = {count}")
    return tuple(_of_block(fields, number, block) for number, block in enumerate(blocks))


def _of_block(fields: Fields, number: int, block: object) -> int | None:
    attention = block.get("attention") if isinstance(block, Mapping) else None
    if not isinstance(attention, Mapping):
        raise fields.contradiction(BLOCKS, f"block {number} does not declare its attention")
    if attention.get("no_op") is True:
        return None
    heads, group = fields.integer("num_attention_heads"), attention.get("n_heads_in_group")
    if isinstance(group, bool) or not isinstance(group, int) or not 1 <= group <= heads:
        raise fields.contradiction(
            BLOCKS, f"n_heads_in_group of block {number} must be from 1 to {heads}"
        )
    # The configuration convertor of 0.23: query heads by the heads that share one KV head.
    return heads // group


def _searched_layers(fields: Fields) -> tuple[Layer, ...]:
    found = _block_kv_heads(fields)
    first = next((heads for heads in found if heads is not None), None)
    return tuple(
        Layer(number, FULL, None if heads == first else heads)
        for number, heads in enumerate(found)
        if heads is not None
    )


def _searched_attention(fields: Fields) -> Attention:
    found = [heads for heads in _block_kv_heads(fields) if heads is not None]
    attention = read_attention(fields)
    if not found:
        return attention
    fields.note("num_kv_heads", found[0], f"{BLOCKS}, the first block with attention")
    return replace(attention, num_kv_heads=found[0])


register("decoder", ORDINARY, listed({"layer_types": WORDS}, _one_kind), is_hybrid=False)
register("mla_decoder", MLA, listed({"layer_types": MLA_WORDS}, _one_kind), is_hybrid=False)
register(
    "sliding_decoder",
    SLIDING_DECODERS,
    listed({"layer_types": WORDS}, _alternating),
    is_hybrid=False,
)
register(
    "searched_decoder",
    {"nemotron-nas": ("DeciLMForCausalLM",)},
    _searched_layers,
    attention=_searched_attention,
    is_hybrid=False,
)
