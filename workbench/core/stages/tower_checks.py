"""What the encoders of images and sound refuse when their layers are built."""

from workbench.core.groups.pipeline import cuts_of
from workbench.core.media import has_whole_towers
from workbench.core.ranks import Tower
from workbench.core.working_plan import WorkingPlan

AXES_PAIRS = 16
"""Pairs of a head that are rotated together, where there are axes of time, height and width."""


def tower_split(run: WorkingPlan) -> None:
    """Refuse heads of a tower that do not split evenly: it is built first.

    Source: `Qwen2_5_VisionAttention.__init__` and that of each other tower, 0.23 and 0.33;
    `is_vit_use_data_parallel(num_heads)` and `Qwen3OmniMoeAudioAttention`, 0.33.
    """
    tp, served = run.settings.tensor_parallel, run.rules.model_registry.served
    if has_whole_towers(run):
        return
    is_whole = served.get(run.model.architecture) in run.rules.media.towers_left_whole
    for at, tower in enumerate(run.model.towers):
        if tower.heads % tp and not (is_whole and at == 0):
            _refuse(run, tower, tower.heads, "heads", tower.words)
        elif not tower.heads % tp and tower.width % tp:
            text = "" if tower.has_gate else f"{tower.width} is not divisible by {tp}"
            _refuse(run, tower, tower.width, f"elements of the {tower.widens}", text)


def _refuse(run: WorkingPlan, tower: Tower, size: int, what: str, words: str) -> None:
    tp = run.settings.tensor_parallel
    valid = [n for n in range(tp - 1, 0, -1) if not (tower.heads % n or tower.width % n)]
    raise run.refusal(
        "tower_not_divisible",
        operands={"size": size, "tensor_parallel": tp},
        candidates=[{"tensor_parallel": n} for n in valid],
        vllm_text=words.format(size=size, tp=tp),
        what=what,
        valid=valid,
    )


def tower_rotation(run: WorkingPlan) -> None:
    """Refuse heads of a tower that no thirds of time, height and width cover."""
    # LlavaOnevision2VisionRotaryEmbedding.__init__, 0.33: 4, 6 and 6 of 16 pairs
    size = max((tower.rotated_size for tower in run.model.towers), default=0)
    if size % (2 * AXES_PAIRS) == 0:
        return
    half = "head_dim//2 must be divisible by 16"
    whole = "head_dim must be divisible by 16 (4:6:6)" if size % 2 == 0 else "head_dim must be even"
    run.problem(
        "tower_heads_not_rotated",
        operands={"head_size": size, "multiple": 2 * AXES_PAIRS},
        vllm_text=whole if size % AXES_PAIRS else half,
    )


def tower_levels(run: WorkingPlan) -> None:
    """Refuse a second stage that begins with layers to which the tower adds its vectors."""
    # Qwen3VLForConditionalGeneration.__init__, 0.23 and 0.33
    levels, stages = max((one.levels for one in run.model.towers), default=0), run.settings
    cuts = cuts_of(run)
    if not any(part.start < levels for part in cuts[1:]):
        return
    run.problem(
        "tower_levels_over_stages",
        operands={"levels": levels, "pipeline_parallel": stages.pipeline_parallel},
        first=cuts[1].start,
    )
