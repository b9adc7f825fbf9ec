"""Pipeline stages: which layers each has, and the groups of the whole model on one of them.

Source: `get_pp_indices` in distributed/utils.py, and `_project_kv_cache_groups_to_worker`; the
same in 0.23 and 0.33.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from workbench.core.groups.grouping import Group, Grouping
from workbench.core.groups.layer_classes import layer_number

if TYPE_CHECKING:
    from workbench.core.plan import Plan

ALL = 2**31
"""Above every number of a layer: the drafter and the hidden states are after the last stage's."""


class Stage(NamedTuple):
    """One pipeline stage: each of its ranks has these layers."""

    layers: range
    """Their numbers; the last stage's range is open, for what drafts."""
    own: Plan | None = None
    """What its ranks decide by themselves, None where that is what the whole model gives."""

    def __hash__(self) -> int:
        # A plan has no hash, and a phase remembers by the stages that it reads.
        return hash(self.layers)


def cuts_of(plan: Plan) -> tuple[range, ...]:
    """Return the layers of each stage of the plan's model."""
    settings = plan.settings
    layers, given = plan.model.num_hidden_layers, settings.pipeline_layers or ()
    # others are refused: see `stage_layers`
    is_used = (len(given), sum(given)) == (settings.pipeline_parallel, layers)
    return layers_of_stages(layers, settings.pipeline_parallel, given if is_used else ())


def layers_of_stages(layers: int, stages: int, given: tuple[int, ...] = ()) -> tuple[range, ...]:
    """Return the layers of each stage; with more stages than layers some have none.

    given: how many each has, instead of shares that are as equal as possible.
    """
    sizes = list(given or [layers // stages] * stages)
    # Later stages take the remainder, the last one none, and with more than two stages the first
    # one last of all (get_pp_indices).
    # These two have the last norm and the embeddings, so they are spared as long as possible.
    for number in range(2, 2 if given else layers % stages + 2):
        sizes[-number] += 1
    ends = list(accumulate(sizes))
    return tuple(range(end - size, end) for end, size in zip(ends, sizes, strict=True))


@lru_cache(maxsize=1024)
def projected(grouping: Grouping, layers: range) -> Grouping:
    """Return the same groups with the layers of one stage alone; a group may keep none."""
    # Remembered: plans that differ in what a request takes have the same groups on every stage.
    groups = [_projected(group, layers) for group in grouping.groups]
    # A stage has as many tensors as its own largest group has layers there, so padding is counted
    # anew.
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
