"""What a drafter costs the cache: tokens of capacity, another block, and places that stay empty."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from workbench.core.groups.cache_spec import GroupingError
from workbench.core.groups.decision import group_layers
from workbench.core.groups.grouping import Grouping
from workbench.core.groups.layer_backend import is_drafted
from workbench.core.groups.layer_specs import layer_specs
from workbench.core.groups.of_plan import cache_layout, has_hybrid_manager
from workbench.core.plan import Plan
from workbench.core.resolve import resolve

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings

MOST_LAYERS = 32
"""Numbers of drafter layers that are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterCost:
    """A plan compared with the same one that drafts nothing."""

    layers: int
    """Of the drafter, with a cache."""
    block_size: int
    """Of the attention, in tokens, with the drafter."""
    block_size_without: int
    tokens: int | None
    """What the pool holds, as vLLM prints it; None while the memory is unknown."""
    tokens_without: int | None
    num_blocks: int | None
    num_blocks_without: int | None
    empty_bytes: int
    """Places without a layer, of one block of every group."""
    empty_bytes_without: int
    layers_without_padding: tuple[int, ...]
    """Numbers of drafter layers that leave no more places empty than there are without any."""

    @property
    def tokens_lost(self) -> int | None:
        """Return the tokens of capacity that the drafter takes."""
        if self.tokens is None or self.tokens_without is None:
            return None
        return self.tokens_without - self.tokens

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return the comparison in words."""
        plural = "" if self.layers == 1 else "s"
        found = [f"The drafter keeps {self.layers} layer{plural} in the cache."]
        if (lost := self.tokens_lost) is not None and self.tokens_without:
            share = 100 * lost / self.tokens_without
            found.append(
                f"Drafting costs {lost:,} of {self.tokens_without:,} tokens ({share:.1f} %): the "
                f"pool has {self.num_blocks:,} blocks, {self.num_blocks_without:,} without it."
            )
        if self.block_size != self.block_size_without:
            found.append(
                f"The block is {self.block_size} tokens instead of {self.block_size_without}."
            )
        if self.empty_bytes > self.empty_bytes_without:
            more = self.empty_bytes - self.empty_bytes_without
            found.append(f"Empty slots take {more:,} bytes of a block of every group.")
            found.append(f"A drafter of {self._fitting()} would leave no more slots empty.")
        return tuple(found)

    def _fitting(self) -> str:
        numbers = " or ".join(map(str, self.layers_without_padding[:4]))
        return f"{numbers or f'no number up to {MOST_LAYERS} of'} layers"

    def __repr__(self) -> str:
        return " ".join(self.sentences)


def drafter_cost(plan: Plan) -> DrafterCost | None:
    """Return what the drafter costs; None where nothing drafts with layers of its own."""
    if plan.drafter is None or plan.cache is None:
        return None
    alone = resolve(plan.model, _without_drafts(plan.settings), trace=False)
    cache, before = plan.cache, alone.built_cache()
    empty = _empty_bytes(before.grouping)
    return DrafterCost(
        layers=len(plan.drafter.layers),
        block_size=plan.block_size,
        block_size_without=alone.block_size,
        tokens=cache.printed_tokens,
        tokens_without=before.printed_tokens,
        num_blocks=cache.num_blocks,
        num_blocks_without=before.num_blocks,
        empty_bytes=_empty_bytes(cache.grouping),
        empty_bytes_without=empty,
        layers_without_padding=_fitting_numbers(plan, empty),
    )


def _without_drafts(settings: Settings) -> Settings:
    """Return the settings of the same engine that drafts nothing."""
    unset: dict[str, Any] = {
        one.name: one.default
        for one in fields(settings)
        if "field" in one.metadata and one.metadata["field"].of_drafter
    }
    return replace(settings, num_speculative_tokens=0, **unset)


def _empty_bytes(grouping: Grouping) -> int:
    """Return the bytes of one block of every group that no layer has."""
    used = sum(group.layers_bytes for group in grouping.groups)
    return grouping.bytes_per_block * len(grouping.groups) - used


def _fitting_numbers(plan: Plan, most: int) -> tuple[int, ...]:
    specs = layer_specs(plan)
    named = specs.by_name()
    own = {name: spec for name, spec in named.items() if not is_drafted(plan, name)}
    drafted = [spec for name, spec in named.items() if is_drafted(plan, name)]
    layout, manager = cache_layout(plan, specs), has_hybrid_manager(plan)
    found = []
    for count in range(1, MOST_LAYERS + 1):
        # A drafter of another length is taken to repeat the layers of this one.
        more = {f"draft.{at}": spec for at, spec in enumerate(islice(cycle(drafted), count))}
        try:
            grouping = group_layers(
                own | more, plan.rules.groups, layout=layout, hybrid_manager=manager
            )
        except GroupingError:
            continue
        if _empty_bytes(grouping) <= most:
            found.append(count)
    return tuple(found)
