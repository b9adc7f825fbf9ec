"""Whether a model has one vocabulary for its input and its head."""

from workbench.core.model import Model
from workbench.models.fields import Fields
from workbench.models.weights import ends
from workbench.models.weights.decoders import TIED
from workbench.models.weights.kinds import SAME_CLASS

TIE = "tie_word_embeddings"
TIED_BY_WRAPPER = frozenset(
    {
        *("internvl_chat", "mistral3", "skywork_chat", "h2ovl_chat", "NVLM_D", "eagle_2_5_vl"),
        *("interns1", "opencua", "ovis2_5", "ovis2_6", "Bee", "R", "vlm", "step_robotics"),
        *("kanana-1.5-v", "llava_onevision2", "voxtral_params", "voxtral_realtime_params"),
        "pixtral_params",
    }
)
"""model_types of whole files whose class ties the vocabularies, which that of the text does not."""
TIED_BY_TEXT = frozenset(
    {
        "diffusion_gemma",
        *("intern_s2_preview", "minicpmv4_6", "minicpmv4_7", "qwen3_5", "qwen3_5_moe"),
    }
)
"""model_types of whole files whose class of vLLM asks the text's part alone."""
OF_TEXT = frozenset({"qwen3_moe"})
"""Text model_types whose class reads `hf_text_config`, which `VllmConfig.with_hf_config` does not
give the value of the whole file."""
EITHER = frozenset({"fast_vlm", "llava", "llava_next_video", "llava_onevision", "video_llama_3"})
"""model_types of whole files whose configuration class is tied where the text's part is."""
EITHER_LATER = frozenset(
    {"glm4v", "glm4v_moe", "glm_ocr", "hunyuan_vl", "paddleocr_vl", "qwen2_5_vl", "qwen2_vl"}
)
"""Those whose class does so in the transformers of 0.33, but not in that of 0.23."""
BY_CLASS = {
    **dict.fromkeys(("alpamayo2_super", "cosmos3_edge", "exaone4_5"), (False, False)),
    **dict.fromkeys(("idefics3", "isaac", "llama4", "llava_next", "qwen3_vl"), (False, False)),
    **dict.fromkeys(("qwen3_vl_moe", "smolvlm"), (False, False)),
    **dict.fromkeys(("granite_speech", "granite_speech_plus"), (True, True)),
    "granite4_vision": (None, False),
}
"""model_type of whole files that do not say -> what their class has to earlier and later releases,
whatever the text's part says. Published checkpoints have their heads accordingly."""


def says_tied(fields: Fields, model: Model) -> tuple[bool, bool]:
    """Return whether a file says so to earlier and to later releases.

    A class may assert that it does (`class_checks`).
    """
    kind = fields.model_type or model.model_type
    if SAME_CLASS.get(kind, kind) in ends.HEAD_APART:
        return False, False
    # VllmConfig.with_hf_config gives the text the value of the whole file, or of its class: parts
    # have that of their own class, which transformers 5 writes.
    whole_kind, inner = fields.top.get("model_type"), fields.raw(TIE)
    asks_text = whole_kind in TIED_BY_TEXT or kind in OF_TEXT
    whole = None if asks_text else fields.top.get(TIE)
    by_class = None if kind in OF_TEXT else BY_CLASS.get(str(whole_kind))
    classes = (by_class or (None, None)) if whole is None else (whole, whole)
    earlier, later = (
        bool(next(one for one in (of_class, inner, kind in TIED) if one is not None))
        for of_class in classes
    )
    in_part = bool(inner)
    return (
        earlier or (whole_kind in EITHER and in_part),
        later or (whole_kind in EITHER | EITHER_LATER and in_part),
    )
