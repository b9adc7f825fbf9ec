"""Weights of towers for images with convolutions or merged patches after their layers.

Source: `step3_vl.py`, `step_vl.py`, `bailing_moe_v3_vl.py`, `bee.py`, `isaac.py`, `glm4v.py`,
`nano_nemotron_vl.py` and `radio.py` in `model_executor/models`, 0.23 and 0.33, and Hunyuan-VL of
the Transformers library.
"""

from collections.abc import Mapping
from functools import partial

from workbench.core.weights import LATER as LATER_ONLY
from workbench.core.weights import Part
from workbench.models.weights.conformer import convolution, phi4mm
from workbench.models.weights.joined_vision import (
    INTERNVL,
    SO400M,
    Tower,
    blocks,
    encoder,
    inside,
    vit,
)
from workbench.models.weights.more_vision import qwen3
from workbench.models.weights.parts import Config, Sizes, column, row, whole
from workbench.models.weights.stored import Unknown

GLM4V = ("attention.query_key_value", "attention.dense", "mlp.fc1", "mlp.fc2")
ISAAC_INNER, MINICPM_JOINED = 4, 4
"""Times the width: inside of what joins Isaac's patches; patches that MiniCPM joins."""
RADIO = {
    "vit_small_patch16_224": (384, 12, 6, 1536),
    "vit_base_patch16_224": (768, 12, 12, 3072),
    "vit_large_patch16_224": (1024, 24, 16, 4096),
    "vit_huge_patch16_224": (1280, 32, 16, 5120),
}
"""Name of a tower -> width, layers, heads and width inside of its MLP (VIT_TIMM_DIM_BY_NAME)."""
BEE_INNER = 4
"""Elements of Bee's projector, for every one of the text."""


def _step3(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Step 3, and the convolutions that join its patches."""
    tower = vit(size, 1792, 3072, 16, 63, 14, 728)
    width, places, out = tower.width, tower.places + 1, size("output_hidden_size", 4096)
    bias = bool(config.fields.top.get("projector_bias", True))
    return [
        whole("class_embedding", width),
        *tower.embedded(places),
        whole("position_ids", places, inputs=2, dtype="float32"),
        *tower.layers("vision_model.transformer.layers", is_linear=False),
        convolution("vit_downsampler", out, width, 2, bias=True),
        convolution("vit_downsampler2", 2 * out, out, 3, bias=True),
        whole("vit_large_projector", config.hidden, inputs=2 * out, bias=bias),
    ]


STEP5 = "step5_vl"
PERCEPTION = {"width": 1536, "layers": 47, "heads": 16, "mlp_ratio": 8960 / 1536, "patch_size": 14}
PERCEPTION |= {"image_size": 728, "use_abs_posemb": True, "use_rope2d": True, "use_ln_pre": True}
PERCEPTION |= {"ls_init_value": 0.1}
"""Sizes of the tower of Step 5 where a file has none (`PerceptionEncoderConfig`)."""


def _step(config: Config, _size: Sizes) -> list[Part]:
    """Return the tower of Step-VL: a perception encoder with scales."""
    is_step5 = config.fields.top.get("model_type") == STEP5
    found = {**(PERCEPTION if is_step5 else {}), **inside(config, "vision_config")}
    if found.get("use_cls_token") or found.get("use_ln_post") or not found.get("use_rope2d"):
        raise Unknown("such a perception encoder is not described")
    width, heads, layers = (int(found[key]) for key in ("width", "heads", "layers"))
    places, patch = (int(found["image_size"]) // int(found["patch_size"])) ** 2, found["patch_size"]
    inner, scales = int(width * found["mlp_ratio"]), 2 * (found.get("ls_init_value") is not None)
    angles = whole("freqs_cache", places, inputs=width // heads, dtype="float32")
    return [
        *[whole("positional_embedding", places, inputs=width)] * bool(found["use_abs_posemb"]),
        whole("conv1", width, inputs=3 * patch**2),
        *[whole("ln_pre", width, bias=True)] * bool(found["use_ln_pre"]),
        *blocks(layers, width, inner, heads, "vision_model.transformer.resblocks"),
        *layers * [*scales * [whole("scale", width)], angles],
        convolution("vit_downsampler1", 2 * width, width, 3, bias=True),
        convolution("vit_downsampler2", 4 * width, 2 * width, 3, bias=True),
        column(
            "vit_large_projector",
            config.hidden,
            inputs=4 * width,
            bias=bool(config.fields.top.get("projector_bias", not is_step5)),
        ),
    ]


def _hunyuan(_config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Hunyuan-VL, which every rank has whole."""
    tower, linear = vit(size, *SO400M[:4], 16), partial(whole, bias=True, is_linear=True)
    width, edge, out = tower.width, size("spatial_merge_size", 2), size("out_hidden_size", 4096)
    layer = [
        *2 * [whole("norm", width, bias=True)],
        *4 * [linear("proj", width, inputs=width)],
        linear("fc1", tower.inner, inputs=width),
        linear("fc2", width, inputs=tower.inner),
    ]
    return [
        *tower.embedded((size("max_image_size", 2048) // tower.patch) ** 2 + 1),
        *tower.depth * layer,
        whole("newline", 4 * width),
        *4 * [whole("token", out)],  # begin, end, separator and the norm after them
        convolution("proj_conv", 2 * width, width, edge, bias=True),
        whole("proj_out", 4 * width, inputs=2 * width, bias=True),
        linear("mlp", out, inputs=4 * width),
        whole("before_rms", width),
    ]


def _normed(config: Config, size: Sizes, inner: int) -> list[Part]:
    """Return SigLIP and a projector of `inner` elements after a norm, which every rank has.

    The class makes it anew after that of LLaVA-OneVision, on every pipeline stage.
    """
    width, bias = size("hidden_size", 1152), True
    return [
        *encoder(config, size, has_norm=False),
        whole("own_projector.pre_norm", width, bias=True),
        whole("own_projector.linear_1", inner, inputs=width, bias=bias),
        whole("own_projector.linear_2", config.hidden, inputs=inner, bias=bias),
        whole("image_newline", config.hidden),
    ]


def _bee(config: Config, size: Sizes) -> list[Part]:
    return _normed(config, size, BEE_INNER * config.hidden)


def _r(config: Config, size: Sizes) -> list[Part]:
    return _normed(config, size, config.hidden)


def _ling(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Ling 3: that of Qwen3-VL, whose patches a projector joins."""
    width = size("hidden_size", 1152)
    wide = width * size("spatial_merge_size", 2) ** 2
    joint = [
        whole("merger.norm", width, bias=True),
        column("linear_proj.linear_fc1", config.hidden, inputs=wide, bias=True),
        row("linear_proj.linear_fc2", config.hidden, config.hidden, bias=True),
    ]
    return qwen3(size, joint)


def _glm4v(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of GLM-4V of 9B, whose patches a convolution joins."""
    width = size("hidden_size", 1792)
    heads = size("num_heads", 16)
    inner = size("intermediate_size", 15_360)
    hidden, wide = config.hidden, config.size("ffn_hidden_size")
    pixels = size("in_channels", 3) * size("patch_size", 14) ** 2
    place, names = "transformer.vision.transformer.layers", GLM4V
    joint = "transformer.vision.linear_proj"
    return [
        *2 * [whole("boi", hidden)],
        whole("cls_embedding", width),
        whole("proj", width, inputs=pixels, bias=True),
        whole("position_embedding", size("num_positions", 6401), inputs=width),
        *blocks(size("num_hidden_layers", 63), width, inner, heads, place, names),
        convolution("conv", hidden, width, 2, bias=True),
        whole(f"{joint}.linear_proj", hidden, inputs=hidden, is_linear=True),
        whole("norm1", hidden, bias=True),
        column(f"{joint}.merged_proj", wide, wide, inputs=hidden),
        row(f"{joint}.dense_4h_to_h", wide, hidden),
    ]


def _isaac(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Isaac, which shuffles patches and then joins them."""
    tower, side = vit(size, 768, 3072, 12, 12, 16), size("pixel_shuffle_scale_factor", 1)
    wide = tower.width * side**2
    return [
        *tower.embedded(size("num_patches", 256)),
        *tower.layers("vision_embedding.transformer.encoder.layers"),
        whole("post_layernorm", tower.width, bias=True),
        column("vision_embedding.linear_fc1", ISAAC_INNER * wide, inputs=wide),
        row("vision_embedding.linear_fc2", ISAAC_INNER * wide, config.hidden),
    ]


def _minicpm(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of MiniCPM-V 4.6, which joins patches in and after its layers."""
    tower, times = vit(size, *SO400M[:5], 980), int(config.fields.top.get("merger_times", 1))
    width, inner, wide = tower.width, tower.inner, tower.width * MINICPM_JOINED
    outs = [*(times - 1) * [width], config.hidden]
    joint = (
        one._replace(name=one.name.replace(".0.", ".")) for one in tower.layers("vit_merger")[2:4]
    )
    return [
        *tower.embedded(),
        *tower.layers("vpm.encoder.layers"),
        whole("post_layernorm", width, bias=True),
        *joint,
        whole("layer_norm1", width, bias=True),
        whole("pre_norm", wide, bias=True),
        whole("linear_1", MINICPM_JOINED * inner, inputs=wide, bias=True),
        whole("linear_2", width, inputs=MINICPM_JOINED * inner, bias=True),
        *times
        * [whole("pre_norm", wide, bias=True), whole("linear_1", wide, inputs=wide, bias=True)],
        *(whole("linear_2", out, inputs=wide, bias=True) for out in outs),
    ]


def _radio(config: Config, _size: Sizes) -> list[Part]:
    """Return the tower of Nemotron's models that see, whose sizes a name says."""
    found, top = inside(config, "vision_config"), config.fields.top
    if top.get("sound_config") or found["args"]["model"] not in RADIO:
        raise Unknown("the tower for sound of this model, or such a RADIO, is not described")
    args, patch = found["args"], int(found.get("patch_size", 16))
    width, layers, heads, inner = RADIO[args["model"]]
    names = {one["name"] for one in args["teachers"]}
    tokens = len(names) if args.get("cls_token_per_teacher", True) else 1
    multiple = args.get("register_multiple")
    registers = multiple - tokens % multiple if multiple else 0
    wide, joined = width * int(1 / top["downsample_ratio"]) ** 2, int(top["projector_hidden_size"])
    times = int(found.get("video_temporal_patch_size") or 1)
    place, pixels = "vision_model.model.encoder.layers", 3 * patch**2
    summaries = sum(one.get("use_summary", True) for one in args["teachers"])
    final = bool(config.raw("num_nextn_predict_layers"))
    return [
        whole("pos_embed", (args.get("cpe_max_size", 2048) // patch) ** 2, inputs=width),
        whole("embedder", width, inputs=pixels),
        *[whole("video_embedder", width, inputs=times * pixels)] * (times > 1),
        whole("cls_token", tokens + registers, inputs=width),
        *layers * 2 * [whole("scale", width)],
        *blocks(layers, width, inner, heads, place, INTERNVL, is_linear=False),
        # 64-bit integers
        whole("summary_idxs", summaries, inputs=2, dtype="float32"),
        *[whole("vision_final_layernorm", width, bias=True, kind=LATER_ONLY)] * final,
        whole("mlp1.0", wide),
        whole("mlp1.1", joined, inputs=wide),
        whole("mlp1.3", config.hidden, inputs=joined),
    ]


LATER: Mapping[str, Tower] = {
    "isaac": _isaac,
    **dict.fromkeys(("minicpmv4_6", "minicpmv4_7"), _minicpm),
    **dict.fromkeys(
        (
            *("NemotronH_Nano_VL_V2", "NemotronH_Nano_Omni_Reasoning_V3"),
            *("NemotronH_Omni_Reasoning_V3", "NemotronH_Super_Omni_Reasoning_V3"),
        ),
        _radio,
    ),
    "step3_vl": _step3,
    **dict.fromkeys(("step_robotics", "step3p7", STEP5), _step),
    "hunyuan_vl": _hunyuan,
    "Bee": _bee,
    "R": _r,
    "bailing_moe_v3_vl": _ling,
    "GLM4VForCausalLM": _glm4v,
    "phi4mm": phi4mm,
}
"""model_type of the whole file, or the class that several of them share -> its tower."""
