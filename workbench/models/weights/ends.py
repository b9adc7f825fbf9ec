"""Where vocabularies, head and last norm of a model are, and how they are stored."""

from workbench.core.weights import EARLIER, EVERY, LATER, Part
from workbench.models.weights.collected import Collected
from workbench.models.weights.minimax_m3 import M3
from workbench.models.weights.older import BERTS
from workbench.models.weights.parts import Config
from workbench.models.weights.positions import of_library
from workbench.models.weights.rotated_encoders import ROTATED

FLOAT_HEAD = frozenset({"minimax_text_01"})
"""model_types whose head is in float32."""
HEAD = "lm_head"
HEAD_NAMES = {
    **dict.fromkeys(("bamba", "falcon_h1", "falcon_mamba", "gpt_oss", "jamba", "mamba"), None),
    **dict.fromkeys(("mamba2", "minimax_text_01", "plamo2", "qwen3_next", "zamba2"), None),
    **dict.fromkeys(("afmoe", "exaone_moe", "molmo2_text", "qwen3_omni_moe_text"), ""),
    "internlm2": "output",
}
"""model_type -> the name by which its class asks how its head is quantized, "" for none; None: the
class hands it no quant_config."""
EVERY_END = frozenset(
    {
        *("bamba", "cohere", "cohere2", "minicpm", "olmoe", "stablelm", "falcon_mamba", "gemma"),
        *("gemma2", "gemma3", "gemma3_text", "gemma4", "gemma4_text", "muse_glimmer_text"),
        *("gpt_oss", "granitemoe", "granitemoehybrid", "jamba", "mamba", "mixtral", "nemotron_h"),
        *("olmo2", "olmo3", "olmo_hybrid", "qwen2_moe", "qwen3_moe", "qwen3_vl_moe_text"),
        *("baichuan", "bloom", "chatglm", "cohere2_moe", "dbrx", "falcon", "flex_olmo", "gpt2"),
        *("gpt_bigcode", "gpt_neox", "gptj", "granitemoeshared", "hy_v3", "internlm2", "minicpm3"),
        *("olmo", "opt", "orion", "phi", "phimoe", "plamo2", "plamo3", "qwen", "starcoder2"),
        *("granitemoe_swa", "mellum", "molmo", "mpt", "persimmon"),
        *("arctic", "cosmos3_edge_text", "git", "grok-1", "inkling_model", "k2_horizon"),
        *("cohere_compass_text", "molmo2_text", "moondream3"),
    }
)
"""model_types whose every pipeline stage has the vocabularies and the last norm."""
EVERY_EMBEDDING = frozenset({"lfm2", "lfm2_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"})
EVERY_HEAD = frozenset({"qwen3_next"})
"""model_types whose every stage has the one vocabulary or the other."""
EMBEDS_FOR_HEADS = frozenset(
    {
        *("deepseek_v4", "ernie4_5", "glm4", "llama", "llama4", "llama4_text", "mimo"),
        *("ministral3", "mistral", "phi3", "qwen2", "qwen2_5_vl", "qwen2_5_vl_text", "qwen3"),
        *("qwen3_vl_text", *M3),
    }
)
"""model_types whose last stage has the embedding where heads draft (0.33)."""
HEAD_APART = frozenset(
    {
        *("afmoe", "alice_ai", "aria_text", "AXK1", "bailing_hybrid", "deepseek", "deepseek_v2"),
        *("deepseek_v3", "moondream3"),
        *("deepseek_v32", "deepseek_v4", "deepseek_vl_v2", "kimi_k2", "glm4_moe", "glm4_moe_lite"),
        *("glm5_next_text", "glm_moe_dsa", "gpt_oss", "inkling_model", "jamba", "kimi_linear"),
        *("longcat_flash", "mimo_v2_flash", "minimax_m2", "minimax_text_01", "molmo"),
        *("muse_glimmer_text", "nemotron_h", "olmoe", "phimoe", "qwen3_next", "qwen4_exp_text"),
        *("step3_text", "step3p5", *M3),
    }
)
"""model_types whose class never reads `tie_word_embeddings`."""
HEADLESS = frozenset(
    {"cohere", "cohere2", "cohere2_moe", "cohere_compass_text", "gemma2", "gemma3n_text"}
)
"""model_types whose class has no head of its own."""
ALWAYS_TIED = HEADLESS | {"lfm2", "lfm2_moe", "zamba2"}
"""Those, and others whose head always has the weight of the embedding."""
APART_EARLIER = frozenset({"bamba", "dots1", "flex_olmo", "persimmon"})
"""Those whose class in 0.23 does not either; the library, which runs them in 0.33, does."""
WHOLE_EMBEDDING = frozenset({"inkling_model", "whisper"})
"""model_types of which every rank has the whole vocabulary."""
NORM_BIAS = frozenset(
    {
        *("nemotron", "stablelm", "starcoder2", "whisper"),
        *("bloom", "falcon", "gpt2", "gpt_neox", "opt", "orion", "phi", "phimoe"),
        *("gpt_bigcode", "gptj", "jais2", "moondream3", "persimmon", *BERTS),
        *ROTATED,
    }
)
"""model_types whose last norm has a bias."""
HEAD_BIAS = {"gptj": ("",), "moondream3": ("",), "phi": (EARLIER,), "phimoe": ("",)}
"""model_type whose head always has a bias -> the kinds of it."""
WITHOUT_NORM = frozenset({"hrm_text", "olmo", "qwen4_exp_text", "step5"})
"""model_types that have none, or one in another dtype."""
NORM_OF_OPT = "do_layer_norm_before"
"""Field of OPT, which has no last norm where its layers norm what they return."""


def at_end(
    config: Config, found: Collected, parts: list[Part], is_every: bool, *places: int
) -> None:
    """Count parts where they are used, or on every stage; the library has none elsewhere."""
    ends = [(EVERY,) if is_every and not library else places for library in of_library(config)]
    if ends[0] == ends[1]:
        found.add("", parts, *ends[0])
        return
    for kind, held in zip((EARLIER, LATER), ends, strict=True):
        own = [one._replace(kind=kind) for one in parts if one.kind in {"", kind}]
        found.add("", own, *held)
