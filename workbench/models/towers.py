"""The heads of towers for images and sound, which ranks must divide."""

import re
from collections.abc import Mapping
from typing import Any

from workbench.core.architectures import versions_with
from workbench.core.ranks import Tower
from workbench.models.fields import Fields
from workbench.models.listed import listed_name
from workbench.models.quantization import quantization_method, stated_quantization

BY_TYPE = {
    **dict.fromkeys(("clip_vision_model", "siglip_vision_model"), 12),
    **dict.fromkeys(("Llama4", "Qwen3_5", "llama4_vision_model", "pixtral"), 16),
}
"""model_type of a tower, or what has one that its file does not describe -> heads by default."""
HEADS = (
    *("num_attention_heads", "num_heads", "vt_num_attention_heads", "encoder_attention_heads"),
    "heads",
)
"""What the descriptions of towers call their heads."""
WIDTHS = ("intermediate_size", "vt_intermediate_size", "encoder_ffn_dim")
SIZES = ("hidden_size", "vt_hidden_size", "embed_dim", "d_model", "width")
OMITTED = {"Qwen3_5": (1152, 4304)}
"""What a class has for a tower that its file omits: widths between blocks and inside of them."""
IMAGES, SOUND, OMNI = "vision_config", "audio_config", "thinker_config/"
PLACES = {
    **dict.fromkeys(("Bagel", "Molmo2", "Ovis2_5", "Ovis2_6", "Ovis2_6_Moe"), ("vit_config",)),
    **dict.fromkeys(("FunAudioChat", "GlmAsr", "MossTranscribeDiarize"), (SOUND,)),
    **dict.fromkeys(("UltravoxModel", "Voxtral"), (SOUND,)),
    **dict.fromkeys(("Qwen3ASR", "Qwen3ASRRealtimeGeneration"), (OMNI + SOUND,)),
    **dict.fromkeys(("Qwen2_5Omni", "Qwen2_5OmniModel"), (OMNI + IMAGES,)),
    **dict.fromkeys(("DeepseekOCR", "UnlimitedOCR"), (IMAGES + "/width/clip-l-14-224",)),
    "Qwen3OmniMoe": (OMNI + SOUND, OMNI + IMAGES),
    "Cheers": ("vision_representation_config",),
    "Emu3": ("vq_config",),
}
"""Beginnings of architectures -> where their towers are described, if not in `vision_config`."""
UNEVEN = "{size} is not divisible by {tp}"
FIXED = {
    **dict.fromkeys(("HfMoondream", "Moondream3"), Tower(16, words=UNEVEN, inputs=(1152, 4304))),
    "MoonshotKimia": Tower(20),
    "Phi4MM": Tower(16),
}
"""Those with a tower that no file describes."""
SPEECH = frozenset({"GraniteSpeech", "GraniteSpeechPlus"})
"""Those whose encoder for sound has an output that ranks share, and heads that they do not."""
ROTATED = "LlavaOnevision2"
"""The one that rotates heads along three axes."""
GLM5_NEXT = "Glm5NextForConditionalGeneration"
"""The one whose class without a tower may have the file of the whole."""
GATED = frozenset(
    {
        *("Exaone4_5_", "Glm4v", "Glm4vMoe", "GlmOcr", "HCXVisionV2", "OpenCUA", "Qwen2_5Omni"),
        *("Qwen2_5OmniModel", "Qwen2_5_VL"),
    }
)
"""Those whose MLP has a gate."""
PLAIN = frozenset({"KimiK25", "KimiK3"})
"""Others whose heads may divide where their MLP does not."""
DIVIDED = frozenset(
    {
        *GATED,
        *PLAIN,
        *PLACES,
        *("Cosmos3", "Qwen3VL", "Qwen3VLMoe", "Qwen3_5", "Qwen3_5Moe", GLM5_NEXT),
        *("Alpamayo2Super", "AyaVision", "BailingMoeV3VL", "Bee", "Blip2", "Cohere2Vision"),
        *("CohereCompass", "DotsOCR", "Eagle2_5_VL", "Ernie4_5_VLMoe", "GLM4V", "Gemma3"),
        *("Granite4Vision", "HCXVision", "InternS2Mobius", "InternS2Preview", "Isaac", "KananaV"),
        *("KimiVL", "Llava", "LlavaNext", "LlavaNextVideo", "LlavaOnevision", ROTATED, "Mantis"),
        *("MiniMaxM3Sparse", "Mistral3", "OpenPanguVL", "PaddleOCRVL", "PaliGemma", "Qwen2VL"),
        *("Qwen4Exp", "R", "Tarsier", "Tarsier2"),
    }
)
"""Those whose tower calls `divide`."""
ASSERTED = frozenset(
    {
        *("Aria", "Cosmos3Edge", "Idefics3", "Keye", "KeyeVL1_5", "Lfm2Vl", "Llama4", "MiniCPMO"),
        *("MiniCPMOcr", "MiniCPMV", "MiniCPMV4_6", "MiniCPMV4_7", "Molmo2", "Phi4ForCausalLMV"),
        *("MossTranscribeDiarize", "SmolVLM", "Step3VL", "UltravoxModel", "Voxtral"),
    }
)
"""Those whose tower asserts."""
STEP = frozenset({"Step3p7", "Step5", "StepVL"})
"""Those whose assertion speaks of its embedding."""
STEP_RATIO = 8960 / 1536
"""Elements inside of their MLP for each between blocks, where the file has no `mlp_ratio`."""
LEVELS = "deepstack_visual_indexes"
DEEP = frozenset({"Alpamayo2Super", "CohereCompass", "Cosmos3", "Qwen3VL", "Qwen3VLMoe"})
"""Those whose decoder adds what layers of the tower say, three where the file lists none."""
WORDS = {
    **dict.fromkeys(DIVIDED, UNEVEN),
    **dict.fromkeys(ASSERTED, ""),
    **dict.fromkeys(STEP, "embed_dim must be divisible by num_heads"),
}
"""What vLLM says to heads that ranks do not divide."""
LISTS = ("ignored_layers", "modules_to_not_convert", "ignore")
EXCLUDED = re.compile(r"vis|vit|vpm|apm|tower|image|audio|speech|siglip|clip|encoder")
"""Words in the names of layers that a checkpoint keeps plain, by which it means a tower."""
PLAIN_TOWERS = frozenset(
    {
        *("KananaV", "KimiK25", "KimiK3", "KimiVL", "Llama4", "Qwen2VL", ROTATED, "Step3VL"),
        *("Tarsier2", GLM5_NEXT, "UltravoxModel"),
    }
)
"""Those whose tower does not get the checkpoint's description, or has other layers."""
ONLINE_TOWERS = frozenset({"KimiK25", "KimiK3"})
"""Those of them that `--quantization` quantizes (`_maybe_ignore_quant_config`)."""
SIGLIP = frozenset({"paddleocr_vl_vision", "pixel_shuffle_siglip2", "siglip_vision_model"})
MULTIPLE, IDEFICS = 64, "MiniCPM"
"""What the sizes of a quantized MLP are multiples of in towers of `SIGLIP`; not in those of classes
with names that begin so, which have Idefics' layers."""
OF_ANY_SIZE = frozenset({"bitsandbytes", "torchao"})
"""Methods that take layers of any size."""
ENDINGS = MULTIMODAL, TEXT = "ForConditionalGeneration", "ForCausalLM"


def takes_sizes(fields: Fields, *sizes: object) -> bool:
    """Return whether a checkpoint's method quantizes layers of these sizes in towers that ask.

    Source: `quantizable` of siglip.py and gemma4_mm.py, 0.23 and 0.33.
    """
    is_even = all(type(size) is int and size % MULTIPLE == 0 for size in sizes)
    return is_even or quantization_method(fields) in OF_ANY_SIZE


def read_towers(fields: Fields) -> tuple[Tower, ...]:
    """Return the towers whose class and heads are known, as they are built."""
    # The attention of each tower, 0.23 and 0.33.
    name = listed_name(fields.top, "") or ""
    if name.endswith(TEXT) and versions_with(name.removesuffix(TEXT) + MULTIMODAL):
        return ()  # the text model of a class with towers
    for ending in ENDINGS if name != GLM5_NEXT else ():
        name = name.removesuffix(ending)
    if name in FIXED:
        return (FIXED[name],)
    if name in SPEECH:
        return _speech(fields)
    if name not in WORDS:
        return ()
    found = (_described(fields, name, place) for place in PLACES.get(name, (IMAGES,)))
    return tuple(tower for tower in found if tower is not None)


def _described(fields: Fields, name: str, path: str) -> Tower | None:
    place: Any = fields.top
    for key in path.split("/"):
        place = place.get(key) if isinstance(place, Mapping) else None
    if not isinstance(place, Mapping):
        place = {}
    heads = _first(place, HEADS) or BY_TYPE.get(str(place.get("model_type", name)))
    size, inner = _first(place, SIZES), _first(place, WIDTHS)
    if not place and name in OMITTED:
        size, inner = OMITTED[name]
    if type(heads) is not int or heads < 1:
        return None
    hidden = place.get("hidden_size") if name == ROTATED else None
    if place.get("model_type") in SIGLIP and not name.startswith(IDEFICS):
        inner = inner if takes_sizes(fields, size, inner) else None
    if name in STEP and type(size) is int:
        inner = int(size * place.get("mlp_ratio", STEP_RATIO))
    is_plain = (name in PLAIN_TOWERS - ONLINE_TOWERS) or path == OMNI + SOUND
    inputs = (0, 0) if is_plain else _sizes(size, inner)
    return Tower(
        heads,
        words=WORDS[name],
        width=inner if name in GATED | PLAIN | STEP and type(inner) is int else 0,
        inputs=inputs,
        quantized=(0, 0) if name in PLAIN_TOWERS or _keeps_plain(fields) else inputs,
        has_gate=name in GATED,
        rotated_size=hidden // heads if type(hidden) is int else 0,
        levels=len(place.get(LEVELS, range(3))) if name in DEEP else 0,
    )


def _keeps_plain(fields: Fields) -> bool:
    """Return whether a checkpoint stores its towers in the model's dtype, as its lists say."""
    stated = stated_quantization(fields)
    lists = [] if stated is None else [stated[key] for key in LISTS if stated.get(key)]
    return stated is None or EXCLUDED.search(str(lists)) is not None


def _sizes(*sizes: object) -> tuple[int, int]:
    hidden, inner = (size if type(size) is int else 0 for size in sizes)
    return hidden, inner


def _first(place: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((place[key] for key in names if place.get(key) is not None), None)


def _speech(fields: Fields) -> tuple[Tower, ...]:
    """Return the width of what the encoder says of each moment."""
    # GraniteSpeechCTCEncoder.__init__, 0.23 and 0.33
    place = fields.top.get("encoder_config")
    width = place.get("output_dim") if isinstance(place, Mapping) else None
    if type(width) is not int:
        return ()
    return (Tower(heads=0, width=width, widens="output", inputs=(width, 0)),)
