"""The heads of towers for images and sound, which ranks must divide."""

from collections.abc import Mapping

from workbench.core.ranks import Tower
from workbench.models.fields import Fields
from workbench.models.listed import listed_name

BY_TYPE = {"clip_vision_model": 12, "pixtral": 16, "siglip_vision_model": 12}
"""model_type of a tower -> its heads by default."""
GENERAL = {
    **dict.fromkeys(("Bagel", "Ovis2_5", "Ovis2_6"), ("vit_config", "num_attention_heads")),
    **dict.fromkeys(("Ernie4_5_VLMoe", "Exaone4_5_", "GlmOcr"), ("vision_config", "num_heads")),
    **dict.fromkeys(("Glm4v", "Glm4vMoe"), ("vision_config", "num_heads")),
    **dict.fromkeys(("Qwen2VL", "Qwen2_5_VL"), ("vision_config", "num_heads")),
    **dict.fromkeys(("KimiK25", "KimiK3"), ("vision_config", "vt_num_attention_heads")),
    "Emu3": ("vq_config", "num_attention_heads"),
    "UltravoxModel": ("audio_config", "encoder_attention_heads"),
}
WHISPER = {"MoonshotKimia": 20}
"""Beginnings of architectures with the tower of a certain Whisper -> its heads."""
SPEECH = frozenset({"GraniteSpeech", "GraniteSpeechPlus"})
"""Those whose encoder for sound has an output that ranks share, and heads that they do not."""
ROTATED = "LlavaOnevision2"
"""The one that rotates heads along three axes."""
GATED = frozenset({"Exaone4_5_", "Glm4v", "Glm4vMoe", "GlmOcr", "Qwen2_5_VL"})
"""Those whose MLP has a gate."""
WIDTHS = {
    **dict.fromkeys(GATED, "intermediate_size"),
    **dict.fromkeys(("KimiK25", "KimiK3"), "vt_intermediate_size"),
}
"""Towers whose heads may divide where their MLP does not -> the field with its elements."""
USUAL = ("vision_config", "num_attention_heads")
DIVIDED = frozenset(
    {
        *GENERAL,
        *("Bee", "Cohere2Vision", "DotsOCR", "Gemma3", "Granite4Vision", "KimiVL", "Llava"),
        *("LlavaNext", "LlavaNextVideo", "LlavaOnevision", ROTATED, "MiniMaxM3Sparse"),
        *("Mistral3", "PaddleOCRVL", "PaliGemma"),
    }
)
"""Beginnings of architectures whose tower calls `divide`."""
ASSERTED = frozenset(
    {
        *("Aria", "Cosmos3Edge", "Idefics3", "Isaac", "Keye", "KeyeVL1_5", "Lfm2Vl", "MiniCPMO"),
        *("MiniCPMV", "MiniCPMV4_6", "MiniCPMV4_7", "SmolVLM", "Step3VL", "UltravoxModel"),
    }
)
"""Those whose tower asserts."""
ENDINGS = ("ForConditionalGeneration", "ForCausalLM")


def read_tower(fields: Fields) -> Tower | None:
    """Return the heads of the tower, None where its class or its heads are not known."""
    # The attention of each tower, 0.23 and 0.33.
    name = listed_name(fields.top, "") or ""
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    if name in WHISPER:
        return Tower(WHISPER[name], has_words=False)
    if name in SPEECH:
        return _speech(fields)
    if name not in DIVIDED | ASSERTED:
        return None
    part, key = GENERAL.get(name, USUAL)
    place = fields.top.get(part)
    if not isinstance(place, Mapping):
        return None
    heads = place.get(key, BY_TYPE.get(str(place.get("model_type"))))
    width = place.get(WIDTHS.get(name, ""))
    if type(heads) is not int or heads < 1:
        return None
    hidden = place.get("hidden_size") if name == ROTATED else None
    return Tower(
        heads,
        has_words=name not in ASSERTED,
        width=width if type(width) is int else 0,
        has_gate=name in GATED,
        rotated_size=hidden // heads if type(hidden) is int else 0,
    )


def _speech(fields: Fields) -> Tower | None:
    """Return the width of what the encoder says of each moment."""
    # GraniteSpeechCTCEncoder.__init__, 0.23 and 0.33
    place = fields.top.get("encoder_config")
    width = place.get("output_dim") if isinstance(place, Mapping) else None
    return Tower(heads=0, width=width, widens="output") if type(width) is int else None
