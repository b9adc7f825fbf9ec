"""What the class of a model raises of its config.json when vLLM builds it, by 0.23 and 0.33."""

from collections.abc import Callable, Mapping
from typing import Any

from workbench.core.architectures import (
    ANY_LANGUAGE_MODEL,
    MODEL_REGISTRIES,
    architecture_of,
    language_models,
)
from workbench.core.built import ANY_MODULE, PROPOSER, TRANSFORMERS
from workbench.models.fields import Fields
from workbench.models.listed import listed_name
from workbench.models.rope import COMPUTED, rope_kinds

CHATGLM = frozenset({"ChatGLMForConditionalGeneration", "ChatGLMModel"})
SEES_IMAGES = {**dict.fromkeys(CHATGLM, "vision_config"), "QWenLMHeadModel": "visual"}
"""Class of a text model -> what its file has where the checkpoint is of a model with images."""
MINICPM_V_2_0 = (2304, 64)
"""hidden_size and query_num of MiniCPM-V 1.0 and 2.0, whose files name no version."""
MPT_KINDS = ("multihead_attention", "multiquery_attention")
REFINED_WEB = frozenset({"RefinedWeb", "RefinedWebModel"})
"""Types of Falcon's first files, which say nothing of RoPE."""
ROPE_FIELDS = ("rope_theta", "rotary_emb_base", "rope_parameters")
"""Fields that `patch_rope_parameters` makes rope_parameters of."""
OF_IMAGES = "image_token_index"
NAME_IMAGES = frozenset(
    {
        *("aria", "aya_vision", "blip-2", "gemma3", "got_ocr2", "granite4_vision", "instructblip"),
        *("llama4", "llava", "llava_next", "llava_next_video", "llava_onevision", "minimax_m3_vl"),
        *("mistral3", "mllama", "openvla", "paligemma", "qwen2_5_omni", "video_llava", "vipllava"),
    }
)
"""Types of whole models whose configuration class has that field, whatever the file says."""


def build_errors(fields: Fields, architecture: str) -> dict[str, str]:
    """Return how the text begins that a class raises of this file when vLLM builds it.

    By the module that raises it: ANY_MODULE for whichever has the class, TRANSFORMERS for a class
    of that library, PROPOSER for what drafts next to it.
    """
    text = next(filter(None, (check(fields, architecture) for check in CHECKS)), "")
    found = {ANY_MODULE: text} if text else {}
    if architecture == "KimiLinearForCausalLM" and fields.raw("q_lora_rank") is not None:
        found["kimi_linear"] = ""  # KimiMLAAttention.__init__, 0.23: a bare assertion
    sparse = fields.raw("sparse_attention_config")
    if architecture.startswith("MiniMaxM3") and isinstance(sparse, Mapping):
        found |= _of_sparse_layers(fields, sparse)
    if any(architecture in one.towers for one in MODEL_REGISTRIES.values()):
        named = OF_IMAGES in fields.top or fields.top.get("model_type") in NAME_IMAGES
        found |= {} if named else {PROPOSER: f"object has no attribute '{OF_IMAGES}'"}
    return found


def _of_images(fields: Fields, architecture: str) -> str:
    # QWenLMHeadModel.__new__, ChatGLMForCausalLM.__init__
    is_seen = SEES_IMAGES.get(architecture) in fields.top
    text = "The configuration of this model indicates that it supports vision inputs"
    return text if is_seen else ""


def _of_chatglm(fields: Fields, architecture: str) -> str:
    name = "original_rope"  # GLMAttention.__init__; ChatGLM 1 has no such field
    is_missing = architecture in CHATGLM and name not in fields.top
    return f"'ChatGLMConfig' object has no attribute '{name}'" if is_missing else ""


def _of_falcon(fields: Fields, _architecture: str) -> str:
    # FalconAttention.__init__, 0.23
    has_none = not any(map(fields.top.get, ("alibi", *ROPE_FIELDS)))
    is_missing = fields.model_type in REFINED_WEB and has_none
    return "'RWConfig' object has no attribute 'rope_parameters'" if is_missing else ""


def _of_types(fields: Fields, _architecture: str) -> str:
    # configuration classes of transformers that check the types of their fields
    tuning, kind = "attn_temperature_tuning", "attn_type"
    if fields.model_type == "llama4_text" and type(fields.raw(tuning)) is int:
        return f"Validation error for field '{tuning}'"
    own = fields.raw("attn_config")
    is_mpt = fields.model_type == "mpt" and isinstance(own, Mapping)
    is_wrong = is_mpt and own.get(kind, MPT_KINDS[0]) not in MPT_KINDS
    return f"Validation error for field '{kind}'" if is_wrong else ""


def _of_text(fields: Fields, architecture: str) -> str:
    # init_vllm_registered_model: neither a text configuration nor the library names its class
    if not (fields.prefix and fields.model_type and not architecture_of(fields.model_type)):
        return ""
    is_open = ANY_LANGUAGE_MODEL in language_models(architecture)
    is_named = listed_name(fields.text, f"/{fields.prefix}") is not None
    return "No model architectures are specified" if is_open and not is_named else ""


def _of_minicpm(fields: Fields, architecture: str) -> str:
    # MiniCPMV.__new__
    if architecture != "MiniCPMV":
        return ""
    has = fields.top.get
    is_unnamed = "version" not in fields.top
    is_old = is_unnamed and (has("hidden_size"), has("query_num")) == MINICPM_V_2_0
    text = "type object 'MiniCPMV2_0' has no attribute 'packed_modules_mapping'"
    return text if is_old or str(has("version")) == "2.0" else ""


def _of_rope(fields: Fields, _architecture: str) -> str:
    # get_rope; classes of latent attention choose the kind themselves
    unknown = rope_kinds(fields) - COMPUTED
    is_taken = bool(unknown) and not fields.has("kv_lora_rank")
    return f"Unknown RoPE scaling type {min(unknown)}" if is_taken else ""


def _of_kimi_delta(fields: Fields, architecture: str) -> str:
    is_missing = architecture.startswith("BailingMoeV3") and not fields.raw("no_kda_lora")
    return "BailingMoeV3 KDA currently expects no_kda_lora=True" if is_missing else ""


Check = Callable[[Fields, str], str]
CHECKS: tuple[Check, ...] = (
    *(_of_images, _of_chatglm, _of_falcon, _of_types, _of_text, _of_minicpm, _of_rope),
    _of_kimi_delta,
)
"""What every release says; the first one counts."""


def _of_sparse_layers(fields: Fields, sparse: Mapping[str, Any]) -> dict[str, str]:
    """Return what MiniMax-M3's class says of its index heads, and the library's of its layers."""
    found, listed = {}, sparse.get("sparse_attention_freq") or ()
    heads, count = fields.raw("num_key_value_heads"), fields.raw("num_hidden_layers")
    if 1 in listed and sparse.get("sparse_num_index_heads", heads) != heads:
        # MinimaxM3QKVParallelLinearWithIndexer, 0.33
        text = "MinimaxM3QKVParallelLinearWithIndexer requires total_num_index_heads == total_num_"
        found["vllm.models.minimax_m3"] = f"{text}kv_heads"
    if listed and len(listed) != count and fields.raw("layer_types") is None:
        # MiniMaxM3VLTextConfig makes layer_types of it, PreTrainedConfig.validate_layer_type
        found[TRANSFORMERS] = "Class validation error for validator 'validate_layer_type'"
    return found
