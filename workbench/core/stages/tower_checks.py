"""What the encoders of images and sound refuse when their layers are built."""

from workbench.core.ranks import Tower
from workbench.core.weights import COLUMN, TOWER
from workbench.core.working_plan import WorkingPlan

SPLIT_TOWERS = frozenset({"qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe"})
"""Models whose tower is always split; others have it whole where its heads do not divide."""
AXES_PAIRS = 16
"""Pairs of a head that are rotated together, where there are axes of time, height and width."""


def tower_split(run: WorkingPlan) -> None:
    """Refuse heads of a tower that do not split evenly: it is built first.

    Source: `Qwen2_5_VisionAttention.__init__` and that of each other tower, 0.23 and 0.33.
    """
    tp, tower = run.settings.tensor_parallel, run.model.tower or _weighed_tower(run)
    is_whole = run.model.architecture in run.rules.towers_left_whole
    if tower is None or not (tower.heads % tp or tower.width % tp):
        return
    cut_heads = tower.heads % tp > 0
    if cut_heads and is_whole:
        return
    has_words = tower.has_words if cut_heads else not tower.has_gate
    elements = f"elements of the {tower.widens}"
    size, what = (tower.heads, "heads") if cut_heads else (tower.width, elements)
    valid = [n for n in range(tp - 1, 0, -1) if not (tower.heads % n or tower.width % n)]
    raise run.refusal(
        "tower_not_divisible",
        operands={"size": size, "tensor_parallel": tp},
        candidates=[{"tensor_parallel": n} for n in valid],
        vllm_text=f"{size} is not divisible by {tp}" if has_words else "",
        what=what,
        valid=valid,
    )


def tower_rotation(run: WorkingPlan) -> None:
    """Refuse heads of a tower that no thirds of time, height and width cover."""
    # LlavaOnevision2VisionRotaryEmbedding.__init__, 0.33: 4, 6 and 6 of 16 pairs
    size = 0 if run.model.tower is None else run.model.tower.rotated_size
    if size % (2 * AXES_PAIRS) == 0:
        return
    half = "head_dim//2 must be divisible by 16"
    whole = "head_dim must be divisible by 16 (4:6:6)" if size % 2 == 0 else "head_dim must be even"
    run.problem(
        "tower_heads_not_rotated",
        operands={"head_size": size, "multiple": 2 * AXES_PAIRS},
        vllm_text=whole if size % AXES_PAIRS else half,
    )


def _weighed_tower(run: WorkingPlan) -> Tower | None:
    """Return the tower as its weights show it: the first of their heads that ranks cut."""
    if run.model.whole_model_type not in SPLIT_TOWERS:
        return None
    weights, tp = run.model.unread_weights.of(), run.settings.tensor_parallel
    pairs = zip(weights.parts, weights.places, strict=True)
    cut = (one for (one, _), at in pairs if TOWER in at and one.shard == COLUMN)
    part = next((one for one in cut if one.outputs[0][0] % tp), None)
    return None if part is None else Tower(part.outputs[0][0])
