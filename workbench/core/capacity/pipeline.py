"""Pipeline stages: every rank keeps the layers of its stage, and the poorest rank decides.

A what-if in addition to the plan: groups are made of the whole model, then each stage keeps its
layers of every group, so a block takes as many places as the stage's largest group has layers.
Source: `get_pp_indices`, `_project_kv_cache_groups_to_worker` and the end of
`get_kv_cache_configs`; the same in 0.23 and 0.33.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from workbench.core.capacity.blocks import held_back_bytes, needed_bytes
from workbench.core.errors import ScenarioError, check_integer
from workbench.core.groups.grouping import Group, Grouping
from workbench.core.groups.layer_classes import layer_number
from workbench.core.plan import Plan


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of one rank: its layers of every group, and the memory it has for them."""

    layers: range
    """Numbers of its layers in the model."""
    grouping: Grouping
    available_bytes: int | None
    room_blocks: int | None
    """Blocks that its memory has room for; None while that is unknown, and where no layer of the
    stage keeps a cache."""
    needed_bytes: int
    """What one request of full length needs."""
    checked_bytes: int | None
    """What `needed_bytes` must fit into."""

    @property
    def is_too_small(self) -> bool:
        """Return whether vLLM stops here: one request of full length does not fit."""
        return self.checked_bytes is not None and self.needed_bytes > self.checked_bytes


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages, and the blocks that all of them have: the fewest that any has room for."""

    stages: tuple[Stage, ...]
    num_blocks: int | None

    def imbalance_bytes(self, stage: int) -> int | None:
        """Return the stage memory that smaller stages leave unused; None while unknown."""
        found = self.stages[stage]
        if found.room_blocks is None or self.num_blocks is None:
            return None
        return (found.room_blocks - self.num_blocks) * found.grouping.bytes_per_block


def layers_of_stages(layers: int, stages: int) -> tuple[range, ...]:
    """Return the layers of each stage. Errors: ScenarioError for more stages than layers."""
    check_integer("stages", stages, 1, layers, "the layers of the model")
    sizes = [layers // stages] * stages
    # Later stages take the remainder, the last one none, and with more than two stages the first
    # one last of all (get_pp_indices).
    for number in range(2, layers % stages + 2):
        sizes[-number] += 1
    ends = list(accumulate(sizes))
    return tuple(range(end - size, end) for end, size in zip(ends, sizes, strict=True))


def projected(grouping: Grouping, layers: range) -> Grouping:
    """Return the same groups with the layers of one stage alone; a group may keep none."""
    groups = [_projected(group, layers) for group in grouping.groups]
    size = max((len(group.layers) for group in groups), default=0)
    if grouping.layout is None:
        groups = [
            group if group.own_specs else replace(group, padding_layers=size - len(group.layers))
            for group in groups
        ]
    return replace(grouping, groups=tuple(groups), group_size=size, notes=())


def _projected(group: Group, layers: range) -> Group:
    own = group.own_specs and [
        spec
        for name, spec in zip(group.layers, group.own_specs, strict=True)
        if layer_number(name) in layers
    ]
    kept = tuple(name for name in group.layers if layer_number(name) in layers)
    return replace(group, layers=kept, own_specs=tuple(own))


def pipeline(plan: Plan, stages: int, memory_bytes: Sequence[int] | None = None) -> Pipeline:
    """Return the pool of `plan` over so many stages.

    memory_bytes: for the cache on a rank of each stage; without it, that of the plan on all.
    Errors: ScenarioError for a number of stages or of sizes that cannot be; ValueError for a plan
    without a cache.
    """
    cache = plan.built_cache()
    parts = list(layers_of_stages(plan.model.num_hidden_layers, stages))
    # A drafter and the layer of hidden states are after the model, on the last stage.
    names = (name for group in cache.groups for name in group.layers)
    end = max((layer_number(name) + 1 for name in names), default=0)
    parts[-1] = range(parts[-1].start, max(parts[-1].stop, end))
    sizes = [cache.available_bytes] * stages if memory_bytes is None else list(memory_bytes)
    if len(sizes) != stages:
        raise ScenarioError(
            "out_of_range",
            f"{stages} stages have {stages} memory sizes; got {len(sizes)}.",
            field="memory_bytes",
        )
    found = tuple(
        _stage(plan, part, projected(cache.grouping, part), size)
        for part, size in zip(parts, sizes, strict=True)
    )
    rooms = [stage.room_blocks for stage in found if stage.room_blocks is not None]
    return Pipeline(found, min(rooms, default=None))


def _stage(plan: Plan, layers: range, grouping: Grouping, available: int | None) -> Stage:
    one, override = grouping.bytes_per_block, plan.settings.num_gpu_blocks_override
    if override is not None:
        available = override * one
    return Stage(
        layers=layers,
        grouping=grouping,
        available_bytes=available,
        room_blocks=None if available is None or not one else max(available, 0) // one,
        needed_bytes=needed_bytes(plan, grouping, plan.max_model_len),
        checked_bytes=None if available is None else available - held_back_bytes(plan, grouping),
    )
