"""Weights of towers for images that a projector of a few layers joins to the text.

Source: `clip.py`, `siglip.py`, `qwen2_vl.py` and the classes of whole models in
`model_executor/models`, 0.23 and 0.33.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from workbench.core.formats import Format
from workbench.core.weights import WHOLE, Part
from workbench.models.towers import takes_sizes
from workbench.models.weights.parts import Config, Sizes, column, row, whole
from workbench.models.weights.taken import taken_layers, used_layers

CLIP, SIGLIP = "clip_vision_model", "siglip_vision_model"
PROJECTOR = "multi_modal_projector"
OF_ENCODER = ("self_attn.qkv_proj", "self_attn.out_proj", "mlp.fc1", "mlp.fc2")
INTERNVL = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
QWEN3 = (*INTERNVL[:2], "mlp.linear_fc1", "mlp.linear_fc2")
BLOCKS, QWEN = "visual.blocks", ("attn.qkv", "attn.proj", "mlp.gate_up_proj", "mlp.down_proj")
GATED: dict[str, Any] = {"gated": True, "norm_bias": False}
"""Of layers as Qwen2.5-VL's."""
Tower = Callable[[Config, Sizes], list[Part]]


def inside(config: Config, key: str) -> Mapping[str, Any]:
    """Return an object of the whole file, or of what thinks in a model that also speaks."""
    holders = (config.fields.top, config.fields.top.get("thinker_config"))
    found = (one[key] for one in holders if isinstance(one, Mapping) and key in one)
    return next((one for one in found if isinstance(one, Mapping)), {})


def sizes_of(config: Config, key: str) -> Sizes:
    """Return what reads integers of an object in the file."""
    found = inside(config, key)

    def size(name: str, default: int) -> int:
        value = found.get(name, default)
        if isinstance(value, list) and len(set(value)) == 1:
            [value] = set(value)  # the same in every direction
        if isinstance(value, bool) or not isinstance(value, int):
            raise config.fields.wrong(f"{key}/{name}", value, "an integer")
        return value

    return size


def blocks(
    count: int,
    width: int,
    inner: int,
    heads: int,
    place: str,
    names: Sequence[str] = OF_ENCODER,
    *,
    each: int = 0,
    gated: bool = False,
    bias: bool = True,
    norm_bias: bool = True,
    **more: Any,
) -> list[Part]:
    """Return layers of two norms, attention of all heads and an MLP.

    place, names: of the first layer and of its four linear ones, as vLLM calls them: checkpoints
    exclude them by these names. each: elements of a head, where they are not as wide together as
    the layer. bias, more: of the linear layers.
    """
    head, (qkv, out, first, second) = (
        (heads, each or width // heads),
        (f"{place}.0.{n}" for n in names),
    )
    more = {"bias": bias, **more}
    return count * [
        *2 * [whole("norm", width, bias=norm_bias)],
        column(qkv, head, head, head, inputs=width, **more),
        row(out, head[0] * head[1] if each else width, width, **more),
        column(first, *(inner,) * (1 + gated), inputs=width, **more),
        row(second, inner, width, **more),
    ]


class Vit(NamedTuple):
    """Sizes of a tower whose configuration has the names that CLIP and SigLIP have."""

    width: int
    inner: int
    heads: int
    depth: int
    patch: int
    image: int
    channels: int

    @property
    def places(self) -> int:
        """Return the patches of an image."""
        return (self.image // self.patch) ** 2

    @property
    def pixels(self) -> int:
        """Return the numbers of a patch."""
        return self.channels * self.patch**2

    def embedded(self, places: int | None = None, **more: Any) -> list[Part]:
        """Return what patches become, and a vector for each of so many places."""
        return [
            whole("patch_embedding", self.width, inputs=self.pixels, **{"bias": True, **more}),
            whole("position_embedding", places or self.places, inputs=self.width),
        ]

    def layers(self, place: str, names: Sequence[str] = OF_ENCODER, **more: Any) -> list[Part]:
        """Return its layers, as `blocks` does."""
        return blocks(self.depth, self.width, self.inner, self.heads, place, names, **more)


SIZES = (
    *("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers"),
    *("patch_size", "image_size", "num_channels"),
)
SO400M = (1152, 4304, 16, 27, 14, 384, 3)  # of SigLIP's best-known tower
OF_ENCODERS = (768, 3072, 12, 12, 16, 224)
OF_INTERNVL = (3200, 12_800, 25, 48, 14, 224)
OF_LLAMA4 = (768, 5632, 16, 34, 14, 448)
OF_PIXTRAL = (1024, 4096, 16, 24, 16, 1024)
"""Sizes that configuration classes have, in the order of `Vit`."""


def vit(size: Sizes, *defaults: int) -> Vit:
    """Return the sizes of a tower. defaults: of its configuration class, the last ones SigLIP's."""
    return Vit._make(map(size, SIZES, (*defaults, *SO400M[len(defaults) :])))


def as_siglip(config: Config, layers: list[Part], width: int, inner: int) -> list[Part]:
    """Return layers whose MLPs most methods quantize only if their sizes are even."""
    takes_all = takes_sizes(config.fields, width, inner)
    return [
        one._replace(is_linear=one.is_linear and (takes_all or ".mlp." not in one.name))
        for one in layers
    ]


def encoder(
    config: Config, size: Sizes, *, has_ids: bool = True, has_norm: bool = True, **more: str
) -> list[Part]:
    """Return CLIP or SigLIP, up to the layer that the projector reads."""
    kind = config.fields.top["vision_config"].get("model_type")
    tower, place = vit(size, *OF_ENCODERS), "vision_tower.vision_model.encoder.layers"
    used = tower._replace(depth=used_layers(config, tower.depth, **more))
    ids = whole("position_ids", tower.places, inputs=2, dtype="float32")
    if kind == CLIP:
        found = clip(used, place, has_ids=has_ids)
    else:
        layers = as_siglip(config, used.layers(place), tower.width, tower.inner)
        found = [*tower.embedded(), *[ids] * has_ids, *layers]
    is_normed = has_norm and used.depth == tower.depth
    return [*found, *[whole("post_layernorm", tower.width, bias=True)] * is_normed]


def clip(tower: Vit, place: str, *, has_ids: bool = False) -> list[Part]:
    """Return CLIP: a vector for the whole image next to those of patches, and layers after a norm.

    place: of the first layer, as in `blocks`.
    """
    places = tower.places + 1
    ids = whole("position_ids", places, inputs=2, dtype="float32")  # 64-bit integers
    return [
        whole("class_embedding", tower.width),
        *tower.embedded(places, bias=False),
        *[ids] * has_ids,
        whole("pre_layrnorm", tower.width, bias=True),
        *tower.layers(place),
    ]


def _llava(config: Config, size: Sizes) -> list[Part]:
    """Return the tower and the two layers of LLaVA."""
    top, hidden = config.fields.top, config.hidden
    taken = taken_layers(config)
    inputs = size("hidden_size", 768) * (len(taken) if isinstance(taken, list) else 1)
    bias = bool(top.get("multimodal_projector_bias", True))
    return [
        *encoder(config, size, has_norm=False),
        column(f"{PROJECTOR}.linear_1", hidden, inputs=inputs, bias=bias),
        row(f"{PROJECTOR}.linear_2", hidden, hidden, bias=bias),
    ]


def _llava_next(config: Config, size: Sizes) -> list[Part]:
    return [*_llava(config, size), whole("image_newline", config.hidden)]


def _llava_onevision(config: Config, size: Sizes) -> list[Part]:
    """Return those of LLaVA-OneVision, whose projector every rank has whole."""
    *tower, first, second, newline = _llava_next(config, size)
    joint = (one._replace(shard=WHOLE, is_linear=False) for one in (first, second))
    return [*tower, *joint, newline]


def _paligemma(config: Config, size: Sizes) -> list[Part]:
    inputs, out = size("hidden_size", 1152), size("projection_dim", config.hidden)
    return [*encoder(config, size), whole(f"{PROJECTOR}.linear", out, inputs=inputs, bias=True)]


def _idefics3(config: Config, size: Sizes) -> list[Part]:
    """Return a tower of Idefics', whose MLPs may have any size, and a projector of one layer."""
    factor = config.fields.top.get("scale_factor", 2)
    tower, inputs = vit(size, *OF_ENCODERS), size("hidden_size", 1152) * factor**2
    return [
        *tower.embedded(),
        *tower.layers("model.vision_model.encoder.layers"),
        whole("post_layernorm", tower.width, bias=True),
        whole(
            "model.connector.modality_projection.proj", config.hidden, inputs=inputs, is_linear=True
        ),
    ]


def _cohere2(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Command A Vision, and a projector with a gate that stays plain."""
    top, hidden = config.fields.top, config.hidden
    wide = size("hidden_size", 1152) * int(top.get("downsample_factor", 2)) ** 2
    inner = int(top.get("alignment_intermediate_size", 36_864))
    return [
        *encoder(config, size),
        column(f"{PROJECTOR}.linear_1", inner, inputs=wide, bias=True, is_linear=False),
        row(f"{PROJECTOR}.linear_2", inner // 2, hidden, bias=True, is_linear=False),
    ]


def _internvl(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of InternVL in the names of the Transformers library, never quantized."""
    found, top = inside(config, "vision_config"), config.fields.top
    sides = [found.get("image_size", 448), found.get("patch_size", 14)]
    image, patch = (one[0] if isinstance(one, list) else one for one in sides)
    width, inner = size("hidden_size", 1024), size("intermediate_size", 4096)
    bias, norms = bool(found.get("attention_bias")), 2 * bool(found.get("use_qk_norm"))
    wide = width * int(1 / top.get("downsample_ratio", 0.5)) ** 2
    layer = [
        *2 * [whole("layernorm", width, bias=found.get("norm_type", "layer_norm") == "layer_norm")],
        *2 * [whole("lambda", width)],
        *norms * [whole("qk_norm", width)],
        *3 * [whole("proj", width, inputs=width, bias=bias)],
        whole("projection_layer", width, inputs=width, bias=True),
        column("fc1", inner, inputs=width, bias=True, is_linear=False),
        row("fc2", inner, width, bias=True, is_linear=False),
    ]
    return [
        whole("cls_token", width),
        whole("position_embeddings", (image // patch) ** 2 + 1, inputs=width),
        whole("patch_embeddings", width, inputs=3 * patch**2, bias=True),
        *used_layers(config, size("num_hidden_layers", 24)) * layer,
        whole("layer_norm", wide, bias=True),
        whole("linear_1", config.hidden, inputs=wide, bias=True),
        whole("linear_2", config.hidden, inputs=config.hidden, bias=True),
    ]


def qwen2(_config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Qwen2-VL, whose `hidden_size` is that of the text."""
    width, heads = size("embed_dim", 1280), size("num_heads", 16)
    patch = size("in_channels", 3) * size("temporal_patch_size", 2) * size("patch_size", 14) ** 2
    wide = width * size("spatial_merge_size", 2) ** 2
    inner, layers = width * size("mlp_ratio", 4), size("depth", 32)
    merged = ((heads, 3 * (width // heads)),)  # one output to its ColumnParallelLinear
    return [
        whole("patch_embed", width, inputs=patch),
        *(
            one._replace(outputs=merged) if len(one.outputs) > 1 else one
            for one in blocks(layers, width, inner, heads, BLOCKS, INTERNVL)
        ),
        whole("ln_q", width, bias=True),
        column("visual.merger.mlp.0", wide, inputs=wide, bias=True),
        row("visual.merger.mlp.2", wide, size("hidden_size", 3584), bias=True),
        whole("cos_sin_cache", 8192, inputs=width // heads // 2),
    ]


def _tarsier(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of LLaVA, and two numbers of tokens that Tarsier keeps, in 64 bits."""
    return [*_llava(config, size), whole("image_newline.numbers", 2, stored=Format(64))]


JOINED: dict[str, Tower] = {
    "TarsierForConditionalGeneration": _tarsier,
    "llava": _llava,
    "llava_next": _llava_next,
    "llava_onevision": _llava_onevision,
    **dict.fromkeys(("paligemma", "colpali"), _paligemma),
    **dict.fromkeys(("idefics3", "smolvlm"), _idefics3),
    **dict.fromkeys(("qwen2_vl", "tarsier2"), qwen2),
    "llava_next_video": lambda config, size: _llava_onevision(config, size)[:-1],
    "cohere2_vision": _cohere2,
    **dict.fromkeys(("internvl", "interns1"), _internvl),
}
