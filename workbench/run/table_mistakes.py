"""Block-table mistakes made on purpose, on the groups of a plan; for panels and notebooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from workbench.core.errors import ScenarioError, unknown_name_message
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest
from workbench.kernels.block_table.damage import (
    Damage,
    Scene,
    filled_scene,
    gather_with_one_stride,
    generator_handed_over_twice,
    slots_with_manager_size,
)
from workbench.run.table_blocks import table_groups

MAX_TOKENS = 30_000
"""Every token of a scene is looked at one by one."""


def _generator_twice(scene: Scene) -> Damage:
    return generator_handed_over_twice(scene.groups, scene.tokens[0])


MISTAKES: Mapping[str, Callable[[Scene], Damage]] = {
    "slots with the manager size": slots_with_manager_size,
    "one group's stride for all": gather_with_one_stride,
    "a generator handed over twice": _generator_twice,
}
"""Name -> what makes it."""


def make_mistake(plan: Plan, batch: Sequence[BatchRequest], name: str) -> Damage:
    """Run the kernels rightly and wrongly on this batch, and compare every token.

    Errors: ScenarioError for an unknown name, or a batch of more than MAX_TOKENS tokens.
    """
    if name not in MISTAKES:
        raise ScenarioError(
            "unknown_name", unknown_name_message("Mistake", name, MISTAKES), field="mistake"
        )
    tokens = [request.sequence_tokens for request in batch]
    if sum(tokens) > MAX_TOKENS:
        raise ScenarioError(
            "batch_too_long",
            f"{sum(tokens):,} tokens are too many to look at one by one; at most {MAX_TOKENS:,}. "
            "Write a smaller batch, for example 3q1s2000.",
            field="batch",
        )
    return MISTAKES[name](filled_scene([shape for _group, shape in table_groups(plan)], tokens))
