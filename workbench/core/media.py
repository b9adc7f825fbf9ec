"""Images, videos and sound: how many a request may have, and what follows from none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from workbench.core.model import Attention
    from workbench.core.plan import Plan
    from workbench.scenario.fields import Settings

UNLIMITED = 999
"""Items of a kind that a request may have by default (`get_limit_per_prompt`, 0.23 and 0.33)."""
IMAGE, VIDEO, AUDIO = "image", "video", "audio"
LIMITS = {
    IMAGE: "images_per_prompt",
    VIDEO: "videos_per_prompt",
    AUDIO: "audios_per_prompt",
}
"""vLLM's name of a kind of items -> the scenario field that limits it; others have no field."""
ENCODER_MODES = DIVIDED, WHOLE = ("weights", "data")
"""What `--mm-encoder-tp-mode` makes of a tower: ranks share its weights, or its images."""


@dataclass(frozen=True)
class MediaRules:
    """What one version makes of models that take more than text, or adapters."""

    prefix_lost: frozenset[str] = frozenset()
    """Models that see images whole, with layers built of a text that does not say so."""
    text_is_causal: bool = False
    """Images are seen whole only where a request may have what the model takes besides text."""
    towers_left_whole: frozenset[str] = frozenset()
    """Modules whose first tower is on every rank where its heads do not divide."""
    keeps_towers: frozenset[str] = frozenset()
    """Modules whose class builds its towers for text alone, too."""
    keeps_levels: bool = False
    """Text alone, too, has room for what layers of a tower say."""
    masks_pairs: bool = False
    """Pixtral's patches of all images attend under one dense mask (`pixtral.py`)."""
    words_of_adapters: str = " does not support LoRA yet."
    """What vLLM says to adapters of a class without them."""
    asserts_no_adapters: frozenset[str] = frozenset()
    """Modules of those that assert it instead."""


def limit_of(settings: Settings, kind: str) -> int:
    """Return the most items of one kind that a request may have."""
    if settings.language_model_only:
        return 0
    explicit: int | None = getattr(settings, LIMITS[kind]) if kind in LIMITS else None
    return UNLIMITED if explicit is None else explicit


def takes_none(settings: Settings, kinds: Collection[str]) -> bool:
    """Return whether a request may have no item of these kinds, of which there is one or more."""
    return bool(kinds) and not any(limit_of(settings, kind) for kind in kinds)


def sees_whole(plan: Plan, attention: Attention | None) -> bool:
    """Return whether tokens of an image see each other, as the configuration of a model says it."""
    # ModelConfig._supports_multimodal_for_mm_prefix, 0.33
    if attention is None or not attention.seen_whole:
        return False
    is_off = plan.rules.media.text_is_causal and takes_none(plan.settings, attention.seen_whole)
    return not is_off


def keeps_towers(plan: Plan) -> bool:
    """Return whether the towers are built: placeholders take no memory (`_mark_tower_model`)."""
    name, rules = plan.model.architecture, plan.rules
    if rules.model_registry.served.get(name) in rules.media.keeps_towers:
        return True
    return takes_items(plan)


def takes_items(plan: Plan) -> bool:
    """Return whether a request may have items of the kinds that the model's towers are for."""
    kinds = plan.rules.model_registry.towers.get(plan.model.architecture, LIMITS)
    return not takes_none(plan.settings, kinds)


def has_whole_towers(plan: Plan) -> bool:
    """Return whether every rank has the towers whole; a class without that divides them still."""
    # ModelConfig.__post_init__ of 0.23 and 0.33 warns then, and goes back to `weights`
    able = plan.model.architecture in plan.rules.model_registry.towers_by_data
    return plan.settings.mm_encoder_tp_mode == WHOLE and able
