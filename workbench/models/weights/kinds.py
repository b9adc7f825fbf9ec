"""What differs by class and by release: who builds a configuration, and parts that change."""

from collections.abc import Mapping, Sequence

from workbench.core.weights import EARLIER, EVERY, LATER, Part, Place
from workbench.models.weights.stored import PLAIN

SAME_CLASS: Mapping[str, str] = {
    **dict.fromkeys(("glm4v", "glm4v_text", "glm_ocr_text"), "glm4"),
    "deepseek_vl_v2": "deepseek_v2",
    "hunyuan_vl_text": "hunyuan_v1_dense",
    **dict.fromkeys(("diffusion_gemma_text", "gemma4_unified_text"), "gemma4_text"),
    "granite4_vision_text": "granite",
    **dict.fromkeys(("glm4v_moe_text", "Glm4vMoe_text"), "glm4_moe"),
    "qwen3_asr_text": "qwen3",
    "qwen3_omni_moe_text": "qwen3_moe",
    **dict.fromkeys(("dots_ocr", "kimi_audio"), "qwen2"),
    "paddleocr_vl_text": "ernie4_5",
    **dict.fromkeys(("phi3_v", "phi4-siglip"), "phi3"),
    **dict.fromkeys(("aquila", "internlm", "internlm3", "phi4mm", "teleflm"), "llama"),
    "llama_bidirec": "llama",
    **dict.fromkeys(("minicpmv 2.5", "minicpmv 4.0"), "llama"),
    **dict.fromkeys(("minicpmv 2.6", "minicpmo 2.6"), "qwen2"),
    **dict.fromkeys(("Keye", "KeyeVL1_5"), "qwen3"),
    **dict.fromkeys(("minicpmv 4.5", "minicpmo 4.5"), "qwen3"),
    **dict.fromkeys(("minimax_m1", "minimax"), "minimax_text_01"),
    "axk1": "AXK1",
    **dict.fromkeys(("mimo_v2", "mimo_v2_omni"), "mimo_v2_flash"),
    "nemotron_h_puzzle": "nemotron_h",
}
"""model_type, with a version where classes differ by it -> the one whose class in vLLM builds its
layers, vocabularies and norms."""
TRUE_BY_CLASS = {
    "attention_bias": frozenset(
        {
            *("glm", "glm4", "glm4v_moe_text", "glm_image_text", "gpt_neox", "gpt_oss"),
            *("jais2", "seed_oss"),
        }
    ),
    "mlp_bias": frozenset({"jais2"}),
}
"""Field -> model_types whose configuration class has it unless the file says otherwise."""


def by_release(earlier: Sequence[Part], later: Sequence[Part]) -> list[Part]:
    """Return what the oldest release builds and what the newest does, by kinds of parts.

    A part of both must be in each as often.
    """
    old, new = ([(part, EVERY) for part in parts] for parts in (earlier, later))
    return [part for part, _ in placed_by_release(old, new)]


def layer_by_release(earlier: Sequence[Part], later: Sequence[Part]) -> list[Part]:
    """Return the parts of a layer that releases build with other heads, or of another kind."""
    old, new = (
        [one for one in parts if one.kind != other]
        for parts, other in ((earlier, LATER), (later, EARLIER))
    )
    return by_release(old, new)


def placed_by_release(
    earlier: Sequence[tuple[Part, Place]], later: Sequence[tuple[Part, Place]]
) -> list[tuple[Part, Place]]:
    """Return what both releases have, each in its place, as `by_release` does."""
    return [
        *(one if one in later else (one[0]._replace(kind=EARLIER), one[1]) for one in earlier),
        *((one[0]._replace(kind=LATER), one[1]) for one in later if one not in earlier),
    ]


def unscaled(parts: Sequence[Part], end: str = PLAIN) -> list[Part]:
    """Return parts whose attention reads no scales of the cache from a checkpoint."""
    return [one._replace(name=one.name.removesuffix(end)) for one in parts]
