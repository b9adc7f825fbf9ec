"""Block-table mistakes made on purpose, on the groups and the pool of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.core.errors import ScenarioError, check_name
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest
from workbench.labs.tables.blocks import Growth, HeldBlocks, check_lengths, table_groups

if TYPE_CHECKING:
    from workbench.kernels.block_table.landings import Damage, Landing, Scene

MAX_TOKENS = 30_000
"""Every token of a scene is looked at one by one."""

Requests = Sequence[BatchRequest]


CONSUMED_TWICE = "a generator consumed twice"
MISTAKES: Mapping[str, str] = {
    "slots computed with the manager block size": "slots_with_manager_size",
    "one stride used for all groups": "gather_with_one_stride",
    CONSUMED_TWICE: "generator_consumed_twice",
}
"""Name -> function of `workbench.kernels.block_table.damage` that makes it."""


@dataclass(frozen=True, slots=True, repr=False)
class TableMistake:
    """A mistake that was made, with what it did to every token of the batch."""

    damage: Damage

    @property
    def harmed(self) -> tuple[Landing, ...]:
        """Return the tokens that are not in their own slot."""
        return self.damage.harmed

    def __repr__(self) -> str:
        from workbench.views.tables.text import counted_text

        found = f"{len(self.harmed):,} of {len(self.damage.landings):,} tokens in another slot"
        return f"{self.damage.title}: {found} ({counted_text(self.damage)})"

    def _repr_html_(self) -> str:
        from workbench.views.tables.text import damage_html

        return damage_html(self.damage)


def make_mistake(plan: Plan, batch: Requests, name: str) -> TableMistake:
    """Run the correct and the wrong kernels on this batch, and compare every token.

    Errors: ScenarioError for an unknown name, or a batch of more than MAX_TOKENS tokens; as
    `TableSession.launch` for a batch that the plan's pool or its rows cannot hold.
    """
    check_name("failure demo", name, MISTAKES, "mistake")
    tokens = sum(request.sequence_tokens for request in batch)
    if tokens > MAX_TOKENS:
        raise ScenarioError(
            "batch_too_long",
            f"{tokens:,} tokens are too many to check one by one; the limit is {MAX_TOKENS:,}. "
            "Use a smaller batch, for example 3q1s2000.",
            field="batch",
        )
    from workbench.kernels.block_table import damage

    # it takes two requests with the same number of tokens
    scene = scene_of(plan, [batch[0], batch[0]] if name == CONSUMED_TWICE else batch)
    return TableMistake(getattr(damage, MISTAKES[name])(scene))


def scene_of(plan: Plan, batch: Requests) -> Scene:
    """Return the batch with the blocks that a session's start gives it, in the plan's pool.

    Errors: PoolIsEmptyError, TableSessionError.
    """
    from workbench.kernels.block_table.landings import Scene

    groups = table_groups(plan)
    held = HeldBlocks(plan, groups)
    wanted = [Growth.first(row, request) for row, request in enumerate(batch)]
    check_lengths(plan, wanted)
    held.check(wanted, None)
    for growth in wanted:
        held.grow(growth)
    return Scene(
        tuple(shape for _group, shape in groups),
        tuple(growth.tokens for growth in wanted),
        tuple(tuple(map(tuple, held.of[row])) for row in range(len(wanted))),
        held.pool.num_blocks,
        held.is_sample,
    )
