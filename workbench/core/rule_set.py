"""A rule set: what one vLLM version decides, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workbench.core.backends import Backend, LayerQuery
from workbench.core.registry import Registry
from workbench.core.run import Run

Stage = Callable[[Run], None]


@dataclass(frozen=True)
class RuleSet:
    """The rules of one version: tables, small functions, and the order of the stages.

    The order is part of the rules: before #37467 the very same alignment ran too early.
    selection_order: which backends a layer tries, first to last; choices_without_test: which may be
    asked for where the platform tests nothing else. draft_counting: SSM kinds and
    families whose state shapes grow with draft tokens ("mamba2:nemotron_h", "gdn:*").
    """

    name: str
    title: str
    cache_modes: tuple[str, ...]
    default_block_size: int
    cpu_block_size: int
    backends: Mapping[str, Backend]
    selection_order: Callable[[LayerQuery], tuple[str, ...]]
    choices_without_test: Callable[[LayerQuery], tuple[str, ...]]
    draft_counting: frozenset[str]
    stages: tuple[Stage, ...]

    def counts_drafts(self, kind: str, family: str) -> bool:
        """Whether draft tokens enlarge the conv state of this kind of layer."""
        return f"{kind}:*" in self.draft_counting or f"{kind}:{family}" in self.draft_counting


RULE_SETS: Registry[RuleSet] = Registry("rule set", "rules")
