"""Weights of the towers for images, by the model_type of the whole file.

A size that config.json omits is that of the configuration class.
"""

from collections.abc import Callable, Mapping

from workbench.core.weights import Part
from workbench.models.weights.abstracted_vision import ABSTRACTED
from workbench.models.weights.clip_vision import CLIPPED
from workbench.models.weights.document_vision import DOCUMENTS
from workbench.models.weights.gemma_vision import GEMMA
from workbench.models.weights.images import JOINT, QWEN3_VL
from workbench.models.weights.joined_vision import (
    JOINED,
    OF_ENCODERS,
    OF_LLAMA4,
    Tower,
    as_siglip,
    blocks,
    inside,
    sizes_of,
    vit,
)
from workbench.models.weights.later_vision import LATER
from workbench.models.weights.library_towers import OF_LIBRARIES
from workbench.models.weights.minimax_m3 import minimax_m3_tower
from workbench.models.weights.moondream import moondream_tower
from workbench.models.weights.more_vision import (
    MERGER,
    exaone,
    internvl,
    llava,
    mistral_pixtral,
    muse_glimmer,
    pixtral,
    qwen2_5,
    qwen3,
    skywork,
)
from workbench.models.weights.parts import Config, Sizes, cut, row, whole
from workbench.models.weights.qformers import QFORMERS
from workbench.models.weights.rarer_vision import RARE
from workbench.models.weights.recent_vision import MOONVIT, RECENT, takes_description
from workbench.models.weights.resampled_vision import RESAMPLED
from workbench.models.weights.sound import SOUND, qwen2_omni, qwen3_omni
from workbench.models.weights.wrapped_vision import WRAPPED

MERGED_PATCHES = 4
WITHOUT_TOWER = frozenset({"Glm5NextForCausalLM"})
"""Classes that build none of what a file has for images."""
SEES = frozenset(
    {
        *("vision_config", "audio_config", "visual", "img_processor", "kimia_adaptor_input_dim"),
        *("vision_backbone", "audio_encoder_conf"),
    }
)
"""Fields of a tower in files whose text has no object of its own."""


def vision(config: Config) -> list[Part] | None:
    """Return the tower's parts, none for a model of text; None where they are not described."""
    kind = config.fields.top.get("model_type")
    if config.model.architecture in WITHOUT_TOWER:
        return []
    tower = TOWERS.get(config.model.architecture) or TOWERS.get(str(kind))
    if tower is None or not isinstance(kind, str):
        is_alone = config.fields.text is config.fields.top
        return [] if is_alone and SEES.isdisjoint(config.fields.top) else None
    return tower(config, sizes_of(config, "vision_config"))


def _qwen(_config: Config, size: Sizes) -> list[Part]:
    width, out = size("hidden_size", 1152), size("out_hidden_size", 3584)
    wide = width * size("spatial_merge_size", 2) ** 2
    return qwen3(size, _merger(width, wide, out), is_linear=False)


def _qwen_deep(config: Config, size: Sizes) -> list[Part]:
    """Return a tower that passes the states of some layers on, each through a merger of its own."""
    listed = inside(config, "vision_config").get("deepstack_visual_indexes", (8, 16, 24))
    wide = size("hidden_size", 1152) * size("spatial_merge_size", 2) ** 2
    return [*_qwen(config, size), *len(listed) * _merger(wide, wide, size("out_hidden_size", 3584))]


def _merger(normed: int, wide: int, out: int) -> list[Part]:
    return [
        whole("norm", normed, bias=True),
        cut("linear_fc1", wide, inputs=wide, bias=True),
        row("linear_fc2", wide, out, bias=True, is_linear=False),
    ]


def _named(parts: list[Part], joint: Mapping[str, str] = MERGER) -> list[Part]:
    """Return a tower of Qwen's with the names by which checkpoints of Omni exclude its layers."""
    named = (one._replace(name=joint.get(one.name, one.name)) for one in parts)
    return [one._replace(is_linear=one.name.startswith("visual.")) for one in named]


def _hyperclova(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of HyperCLOVA X SEED: that of Qwen2.5-VL, and a layer after it."""
    out = size("out_hidden_size", 3584)
    tower = _named(qwen2_5(config, size))
    return [*tower, whole("mm_projector", config.hidden, inputs=out, bias=True)]


def _siglip(config: Config, size: Sizes) -> list[Part]:
    tower = vit(size, *OF_ENCODERS)
    width, layers = tower.width, tower.layers("vision_tower.vision_model.encoder.layers")
    return [
        *tower.embedded(),
        # 64-bit integers
        whole("position_ids", tower.places, inputs=2, dtype="float32"),
        *as_siglip(config, layers, width, tower.inner),
        whole("post_layernorm", width, bias=True),
        whole("mm_input_projection", width, inputs=config.hidden),
        whole("mm_soft_emb_norm", width),
    ]


def _moonvit(config: Config, size: Sizes) -> list[Part]:
    width, times = size("vt_hidden_size", 1152), size("init_pos_emb_time", 4)
    places = size("init_pos_emb_height", 64) * size("init_pos_emb_width", 64)
    layers, inner = size("vt_num_hidden_layers", 27), size("vt_intermediate_size", 4304)
    wide, heads = width * MERGED_PATCHES, size("vt_num_attention_heads", 16)
    more = {"bias": True, "is_linear": takes_description(config)}
    return [
        whole("patch_embed", width, inputs=3 * size("patch_size", 14) ** 2, bias=True),
        whole("pos_emb", places, inputs=width),
        whole("time_weight", times, inputs=width, dtype="float32"),
        *blocks(layers, width, inner, heads, "vision_tower.encoder.blocks", MOONVIT, **more),
        *(whole("norm", width, bias=True) for _ in range(2)),
        whole("mm_projector.linear_1", wide, inputs=wide, **more),
        whole("mm_projector.linear_2", config.hidden, inputs=wide, **more),
    ]


def _llama4(config: Config, size: Sizes) -> list[Part]:
    tower = vit(size, *OF_LLAMA4)
    width, places = tower.width, tower.places + 1
    after, out = size("projector_output_dim", 4096), size("vision_output_dim", 7680)
    hidden = size("projector_input_dim", 4096)
    bias = bool(inside(config, "vision_config").get("multi_modal_projector_bias"))
    return [
        whole("class_embedding", width),
        whole("positional_embedding", places, inputs=width),
        cut("patch_embedding", width, inputs=3 * tower.patch**2),
        *2 * [whole("layernorm", width, bias=True)],
        *tower.layers("vision_model.model.layers", is_linear=False),
        cut("adapter.fc1", hidden, inputs=tower.inner, bias=bias),
        row("adapter.fc2", hidden, after, bias=bias, is_linear=False),
        cut("multi_modal_projector", config.hidden, inputs=out),
        # Angles as complex numbers.
        whole("rotary", places, inputs=2 * (width // tower.heads // 2), dtype="float32"),
    ]


def _siglip2(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of LFM2-VL, whose projector every rank has whole."""
    tower, top = vit(size, 768, 3072, 12, 12, 16), config.fields.top
    wide = tower.width * int(top.get("downsample_factor", 2)) ** 2
    inner, bias = int(top.get("projector_hidden_size", 2560)), bool(top.get("projector_bias", True))
    normed = [whole("layer_norm", wide, bias=True)] * bool(top.get("projector_use_layernorm", True))
    return [
        *tower.embedded(size("num_patches", 256)),
        *tower.layers("vision_tower.vision_model.encoder.layers"),
        whole("post_layernorm", tower.width, bias=True),
        *normed,
        whole("linear_1", inner, inputs=wide, bias=bias),
        whole("linear_2", config.hidden, inputs=inner, bias=bias),
    ]


def as_named(tower: Tower, joint: Mapping[str, str] = MERGER) -> Tower:
    """Return a tower of Qwen's, whose layers checkpoints exclude by name."""
    return lambda config, size: _named(tower(config, size), joint)


TOWERS: dict[str, Callable[[Config, Sizes], list[Part]]] = {
    **JOINED,
    **RECENT,
    **ABSTRACTED,
    **DOCUMENTS,
    **SOUND,
    **RESAMPLED,
    **GEMMA,
    **QFORMERS,
    **RARE,
    **CLIPPED,
    **WRAPPED,
    **LATER,
    **OF_LIBRARIES,
    **dict.fromkeys(
        ("intern_s2_preview", "qwen3_5", "qwen3_5_moe", "qwen4_exp"), as_named(_qwen, JOINT)
    ),
    **dict.fromkeys(
        ("alpamayo2_super", "cohere_compass", *QWEN3_VL),
        as_named(_qwen_deep, JOINT),
    ),
    "gemma3": _siglip,
    "moondream3": moondream_tower,
    **dict.fromkeys(("internvl_chat", "h2ovl_chat"), internvl),
    "qianfan_ocr": lambda config, size: [
        one._replace(is_linear=False) for one in internvl(config, size)
    ],
    "skywork_chat": skywork,
    "muse_glimmer": muse_glimmer,
    "llama4": _llama4,
    "kimi_k25": _moonvit,
    "minimax_m3_vl": minimax_m3_tower,
    **dict.fromkeys(("lfm2_vl", "lfm2-vl"), _siglip2),
    "llava": llava,
    **dict.fromkeys(("mistral3", "lighton_ocr"), pixtral),
    "PixtralForConditionalGeneration": mistral_pixtral,
    **dict.fromkeys(("qwen2_5_vl", "opencua"), as_named(qwen2_5)),
    "vlm": _hyperclova,
    "exaone4_5": as_named(exaone),
    "qwen2_5_omni": lambda config, size: [*_named(qwen2_5(config, size)), *qwen2_omni(config)],
    "qwen3_omni_moe": lambda config, size: [*_named(_qwen_deep(config, size)), *qwen3_omni(config)],
}
