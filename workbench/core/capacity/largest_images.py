"""What a tower takes while vLLM profiles it with the largest images that fit a step.

Source: `MultiModalBudget` and `profile_run`, 0.23 and 0.33; the tensors are those that are alive at
the peak of towers that were built and run on torch's meta device in both.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from workbench.core.devices import device_memory_of
from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.media import (
    IMAGE,
    VIDEO,
    has_whole_towers,
    limit_of,
    takes_items,
    takes_none,
)
from workbench.core.runner import model_runner

if TYPE_CHECKING:
    from workbench.core.images import Image
    from workbench.core.plan import Plan


def _largest(plan: Plan) -> Image | None:
    """Return the largest image, or the video of as many as a request can have."""
    image = plan.model.weights.image
    if image is None or takes_none(plan.settings, (IMAGE, VIDEO)):
        return None
    takes_videos = limit_of(plan.settings, VIDEO)
    if image.video is not None and takes_videos:
        image = image.video
    most = image.frames if takes_videos else 1
    before = image.before if limit_of(plan.settings, IMAGE) else 0
    frames = max(1, min(most, (plan.max_model_len - before) // image.tokens))
    tokens, patches = frames * image.tokens, frames * image.patches
    return image._replace(frames=frames, tokens=tokens, patches=patches)


def count_images(plan: Plan) -> int:
    """Return how many of the largest images the profiling run has; 0 where that is not known."""
    image = _largest(plan)
    if image is None:
        return 0
    of_step = max(1, plan.max_num_batched_tokens // image.tokens)
    of_request = max(1, plan.max_model_len // image.tokens)
    if image.frames == 1:
        of_request = min(of_request, limit_of(plan.settings, IMAGE) or of_request)
    return min(of_step, plan.max_num_seqs * of_request)


def tower_bytes(plan: Plan) -> int:
    """Return the peak of the tower on one rank."""
    image, images = _largest(plan), count_images(plan)
    if image is None:
        return 0
    patches, ranks = images * image.patches, plan.settings.tensor_parallel
    own, numbers = patches, 0
    if has_whole_towers(plan):
        # Ranks divide the images, or their tiles, and copy their own pixels
        # (run_dp_sharded_vision_model and run_dp_sharded_mrope_vision_model).
        piece = image.piece or image.patches
        own, ranks = ceil(patches / piece / ranks) * piece, 1
        numbers = patches * image.pixels
    patch = max(whole + divided // ranks for whole, divided in image.peaks)
    if image.masks_pairs and plan.rules.media.masks_pairs:
        patch += own
    seen = min(own, _at_a_time(plan, image) or own)
    numbers += seen * patch + (own - seen) * image.waiting
    numbers += own * image.tokens * image.levels * image.outputs // image.patches
    return numbers * FLOAT_BYTES[plan.model_dtype]


def _at_a_time(plan: Plan, image: Image) -> int:
    """Return the patches that the tower sees at a time; 0 where nothing limits them."""
    # Gemma4ForConditionalGeneration._encoder_chunk, 0.23 and 0.33; half of the memory that is free
    # is less only where weights take four fifths of it.
    device = device_memory_of(plan.settings)
    if not image.piece_bytes or not device:
        return 0
    return max(1, device // 10 // image.piece_bytes) * image.piece


def kept_bytes(plan: Plan) -> int:
    """Return what is left of the images for the rest of the step: what the tower said of them."""
    image, images = _largest(plan), count_images(plan)
    if image is None:
        return 0
    # The V1 runner still has the pixels themselves.
    pixels = image.patches * image.pixels if model_runner(plan) == "v1" else 0
    numbers = pixels + image.tokens * (1 + image.levels) * image.outputs
    return images * numbers * FLOAT_BYTES[plan.model_dtype]


def level_bytes(plan: Plan) -> int:
    """Return the room for what layers of the tower say of each token of a step, on every rank."""
    # deepstack_input_embeds of qwen3_vl.py, which load with the weights
    image = plan.model.weights.image
    if image is None or not (plan.rules.media.keeps_levels or takes_items(plan)):
        return 0
    numbers = plan.max_num_batched_tokens * image.levels * image.outputs
    return numbers * FLOAT_BYTES[plan.model_dtype]
