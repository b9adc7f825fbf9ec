"""The largest image, or video, that a tower gets while vLLM profiles it.

What is alive at the peak was counted while vLLM's towers ran on torch's meta device
(`tests/data/tower_peaks.jsonl`): in a layer's attention, between the two products of its MLP, or
after the second one, whichever is most.
"""

from collections.abc import Callable

from workbench.core.images import Image
from workbench.core.weights import Part
from workbench.models.weights.joined_vision import (
    OF_ENCODERS,
    OF_INTERNVL,
    OF_LLAMA4,
    OF_PIXTRAL,
    QWEN,
    QWEN3,
    Vit,
    inside,
    sizes_of,
    vit,
)
from workbench.models.weights.more_vision import MERGER, norms_queries
from workbench.models.weights.parts import Config

JOINT = {name: f"visual.merger.{name}" for name in MERGER}
"""Layers that join patches -> as Qwen3-VL's class calls them."""
JOINS = (JOINT["linear_fc2"], MERGER["linear_fc2"])
LARGEST, FOURFOLD = 16_384, 4
"""Tokens of the largest image (of 12,845,056 or 16,777,216 pixels, as their
preprocessor_config.json files say), each of four patches."""
QWEN3_VL = (
    *("qwen3_vl", "qwen3_vl_moe", "colqwen3", "ops_colqwen3"),
    "qwen3_vl_nemotron_embed",
)
"""model_types of Qwen3-VL, and of models that retrieve with its layers."""
FRAMES = {
    **dict.fromkeys(("qwen3_5", "qwen3_5_moe", "qwen4_exp", *QWEN3_VL), 1),
    "qwen2_5_vl": 7,
}
"""model_type -> the images that its longest video is: of Qwen2.5-VL 14 (_MAX_FRAMES_PER_VIDEO),
two of which are one; a video of Qwen3-VL is as large as an image at most (0.23 and 0.33)."""
FRAMES_OF_GEMMA4, TOKENS_OF_FRAME, AROUND_FRAME = 32, 70, 8
"""Of its longest video: images, tokens of each, and those around it (`gemma4_mm.py`)."""
WITH_VIDEOS = frozenset({"gpt_oss", "qwen2", "qwen3", "qwen3_moe"})
"""Texts of InternVL that have a token for videos (`ctx_video_token` of `internvl.py`)."""
AS_MANY_AS_FIT = 10**9
TILES = 17
"""Of an image of Llama 4: 16 (`max_patches` of its preprocessor_config.json), and the whole."""


def largest_image(config: Config, tower: list[Part] | None) -> Image | None:
    """Return what the profiling run shows a tower; None where config.json does not say it."""
    reader = READERS.get(str(config.fields.top.get("model_type")))
    image = reader(config, tower) if tower and reader else None
    return None if image is None or min(image[:3]) < 1 else image  # a file may say anything


def _qwen(config: Config, tower: list[Part]) -> Image:
    """Return the image of a tower that turns queries and keys, twice, by angles.

    Angles are there twice, in windows four times; a tower with gates keeps one more state.
    """
    patch, last = tower[0], [one for one in tower if one.name in JOINS]
    angles = next(one.inputs for one in tower if one.name == "cos_sin_cache")
    [(width, _)], [(outputs, _)] = patch.outputs, last[0].outputs
    first = next(one for one in tower if one.name.endswith((QWEN[2], QWEN3[2])))
    inner, is_gated = first.outputs[0][0], len(first.outputs) > 1
    every = patch.inputs + (4 if is_gated else 2) * angles
    gated = (every + 5 * width, 3 * inner)
    plain = (every + 4 * width, 8 * width), (every + 5 * width, inner)
    return Image(
        tokens=LARGEST,
        patches=LARGEST * FOURFOLD,
        pixels=patch.inputs,
        peaks=(gated,) if is_gated else plain,
        outputs=outputs,
        levels=len(last) - 1,
        frames=FRAMES[config.fields.top["model_type"]],
    )


def _siglip(tower: Vit, outputs: int, rows: int, tokens: int) -> Image:
    """Return an image of towers whose layers are those of SigLIP or CLIP.

    rows: of a tile or an image, with that of its class where there is one.
    """
    pixels, width = tower.pixels, tower.width
    return Image(
        tokens=tokens,
        patches=rows,
        pixels=pixels,
        peaks=((pixels + 4 * width, 2 * tower.inner), (pixels + 5 * width, tower.inner)),
        outputs=outputs,
    )


def _internvl(config: Config, _tower: list[Part]) -> Image | None:
    """Return tiles of an image and the whole, and a video as long as a request.

    None for InternViT 6B, whose queries and keys are normed together.
    """
    top = config.fields.top
    if norms_queries(inside(config, "vision_config")):
        return None
    tower = vit(sizes_of(config, "vision_config"), *OF_INTERNVL)
    tiles = int(top.get("max_dynamic_patch", 12)) if top.get("dynamic_image_size", True) else 1
    tiles += tiles > 1 and bool(top.get("use_thumbnail", True))
    each = int(tower.places * float(top.get("downsample_ratio", 0.5)) ** 2)
    one = _siglip(tower, config.hidden, tower.places + 1, each)._replace(piece=tower.places + 1)
    image = one._replace(tokens=tiles * each, patches=tiles * one.patches)
    video = one._replace(frames=AS_MANY_AS_FIT, before=image.tokens)
    sees_videos = inside(config, "llm_config").get("model_type") in WITH_VIDEOS
    return image._replace(video=video if sees_videos else None)


def _gemma3(config: Config, _tower: list[Part]) -> Image:
    tower = vit(sizes_of(config, "vision_config"), *OF_ENCODERS)
    tokens = int(config.fields.top.get("mm_tokens_per_image", 256))
    return _siglip(tower, config.hidden, tower.places, tokens)


def _gemma4(config: Config, _tower: list[Part]) -> Image:
    """Return the image, and the video, of transformers' tower, which every rank has whole."""
    size = sizes_of(config, "vision_config")
    width, inner = size("hidden_size", 768), size("intermediate_size", 3072)
    pixels, pooled = 3 * size("patch_size", 16) ** 2, size("pooling_kernel_size", 3) ** 2
    # what `_encoder_chunk` reckons with: two places as numbers of 64 bits, twice
    place_bytes = 2 * 2 * 8 * size("position_embedding_size", 10_240)

    def seen(count: int, tokens: int, around: int = 0) -> Image:
        piece = tokens * pooled
        # of a patch two positions, its row of the mask, a head's sines and cosines
        more = 8 + piece // 2 + 2 * size("head_dim", 64)
        return Image(
            tokens=count * (tokens + around),
            patches=count * piece,
            pixels=pixels,
            peaks=((pixels + 4 * width + 3 * inner + more, 0),),
            outputs=config.hidden,
            piece=piece,
            piece_bytes=piece * place_bytes,
            waiting=pixels + width,
        )

    video = seen(FRAMES_OF_GEMMA4, TOKENS_OF_FRAME, AROUND_FRAME)
    return seen(1, size("default_output_length", 280))._replace(video=video)


def _mistral3(config: Config, _tower: list[Part]) -> Image:
    size = sizes_of(config, "vision_config")
    tower, joined = vit(size, *OF_PIXTRAL), int(config.fields.top.get("spatial_merge_size", 2))
    across = (tower.image - 1) // (tower.patch * joined) + 1
    pixels, width = tower.pixels, tower.width
    # of a patch a head's sines and cosines, and two positions of 64 bits
    turned = 2 * size("head_dim", width // tower.heads) + 8
    return Image(
        tokens=across**2,
        patches=(across * joined) ** 2,
        pixels=pixels,
        peaks=((pixels + 6 * width + turned, 3 * tower.inner),),
        outputs=config.hidden,
        masks_pairs=True,
    )


def _llama4(config: Config, _tower: list[Part]) -> Image:
    """Return the image of a tower that turns queries and keys as complex numbers, in float32."""
    tower = vit(sizes_of(config, "vision_config"), *OF_LLAMA4)
    found = inside(config, "vision_config")
    pixels, width = tower.pixels, tower.width
    return Image(
        tokens=TILES * int(tower.places * float(found.get("pixel_shuffle_ratio", 0.5)) ** 2),
        patches=TILES * (tower.places + 1),
        piece=tower.places + 1,
        pixels=pixels,
        peaks=((pixels + 3 * width, 13 * width), (pixels + 5 * width, tower.inner)),
        outputs=config.hidden,
    )


READERS: dict[str, Callable[[Config, list[Part]], Image | None]] = {
    **dict.fromkeys(FRAMES, _qwen),
    "gemma3": _gemma3,
    "gemma4": _gemma4,
    "internvl_chat": _internvl,
    "llama4": _llama4,
    "mistral3": _mistral3,
}
"""model_type -> its reader."""
