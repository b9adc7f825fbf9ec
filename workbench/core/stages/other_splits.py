"""Other ranks and engines that a refusal may propose."""

from collections.abc import Callable
from typing import Any

from workbench.core.ranks import Split, split_of
from workbench.core.working_plan import WorkingPlan

LARGEST_TRIED = 64


def other_splits(run: WorkingPlan, holds: Callable[[Split], bool]) -> list[dict[str, Any]]:
    """Return changes after which `holds`: whole experts, fewer engines, fewer ranks."""
    model, settings = run.model, run.settings
    changes: list[dict[str, Any]] = []
    if model.num_experts and not settings.enable_expert_parallel:
        changes.append({"enable_expert_parallel": True})
    for name in ("data_parallel", "tensor_parallel"):
        heads = model.total_num_attention_heads if name == "tensor_parallel" else 0
        fewer = range(min(getattr(settings, name) - 1, LARGEST_TRIED), 0, -1)
        changes += [{name: n} for n in fewer if heads % n == 0]
    return [one for one in changes if holds(split_of(run, **one))]


def written(changes: list[dict[str, Any]]) -> str:
    """Return changes as a person writes them: `tensor_parallel = 4`."""
    return ", ".join(f"{name} = {value}" for one in changes for name, value in one.items())
