"""The mask of a batch over blocks of a plan, and which blocks are visited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from workbench.core.errors import ScenarioError, check_name
from workbench.core.flex.batch import (
    CAUSAL,
    STALE_GROUP,
    OrderInversion,
    mask_rule,
    order_inversion,
    paged_batch,
    parse_prefixes,
    stale_batch,
)
from workbench.core.flex.build import BlockLists, Visits, direct_build, generic_build, visits
from workbench.core.flex.mask import MaskRule, PagedBatch
from workbench.core.flex.plan import required_flex_plan
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest

MASK_IS_REFUSED = "mask_is_refused"
AS_PLANNED, GENERIC, PRUNED = BUILDS = (
    "as the plan builds it", "every pair evaluated", "direct, pruned as in 0.33"
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class MaskPicture:
    """A batch, the rule of its mask, and the block lists that a kernel visits."""

    batch: PagedBatch
    rule: MaskRule
    lists: BlockLists

    @cached_property
    def visits(self) -> Visits:
        """Return what the kernel does with the lists."""
        return visits(self.batch, self.rule, self.lists)

    def order(self, request: int) -> OrderInversion:
        """Return the order of a request's pages, alone and in this batch."""
        return order_inversion(self.batch, request, self.lists.q_block_size)

    def reordered(self, rows: Sequence[int]) -> MaskPicture:
        """Return the direct build of the same requests with the rows in another order."""
        before, size = self.batch, self.lists.q_block_size
        batch = replace(
            before,
            rows=tuple(before.rows[row] for row in rows),
            query_lens=tuple(before.query_lens[row] for row in rows),
            seq_lens=tuple(before.seq_lens[row] for row in rows),
        )
        return MaskPicture(batch, self.rule, direct_build(batch, self.rule, size))

    def figure(self, theme: str = "auto") -> Any:
        """Return the plotly figure over the physical blocks, with what is visited."""
        from workbench.views.flex.mask_figure import physical_mask

        return physical_mask(self.batch, self.visits, theme)

    def logical_figure(self, theme: str = "auto") -> Any:
        """Return the plotly figure of the mask as the model means it: positions of each request."""
        from workbench.views.flex.mask_figure import logical_mask

        return logical_mask(self.batch, self.rule, theme)

    def order_figure(self, theme: str = "auto") -> Any:
        """Return the plotly figure of the order in which each group visits its blocks."""
        from workbench.views.flex.mask_figure import visit_order

        return visit_order(self.batch, self.visits, theme)

    def __repr__(self) -> str:
        found = self.visits
        return f"{found.visited:,} block visits, {found.wasted:,} without any visible key"

    def _repr_html_(self) -> str:
        from workbench.views.flex.text import visits_html

        return visits_html(self.visits, self.lists.dropped)


def mask_picture(
    plan: Plan,
    requests: Sequence[BatchRequest],
    mask: str = CAUSAL,
    mask_tokens: int = 64,
    *,
    prefixes: str = "",
    stale: bool = False,
    build: str = AS_PLANNED,
) -> MaskPicture:
    """Build the mask of a batch over blocks of the plan.

    mask: one of KINDS, mask_tokens: its size. prefixes: per request, such as "0-63; 0-9,20-29".
    stale: rows keep blocks of earlier requests after their own. build: one of BUILDS. Errors:
    ScenarioError for a plan without flex attention or whose mask block is refused, and for a batch
    that is too large to draw.
    """
    check_name("Build", build, BUILDS, "build")
    flex = required_flex_plan(plan)
    if flex.refusals:
        raise ScenarioError(
            MASK_IS_REFUSED,
            f"The mask cannot be built: {flex.refusals[0].message}",
            field=flex.refusals[0].field,
        )
    rule = mask_rule(mask, mask_tokens)
    if prefixes:
        rule = replace(rule, prefixes=parse_prefixes(prefixes, len(requests)))
    batch = paged_batch(requests, flex.cache_block_size, stale=stale)
    q, kv = flex.mask.q_block_size, flex.mask.kv_block_size
    if build == PRUNED or (flex.is_direct and build == AS_PLANNED):
        pruned = build == PRUNED or plan.rules.flex_prunes_pages
        lists = direct_build(batch, rule, q, pruned=pruned)
    else:
        lists = generic_build(batch, rule, q, kv)
    return MaskPicture(batch, rule, lists)


def stale_picture() -> MaskPicture:
    """Return the example batch in which a neighbour's stale column changes a request's order.

    >>> wb.stale_picture()
    10 block visits, 0 without any visible key
    """
    batch, rule = stale_batch(), MaskRule()
    return MaskPicture(batch, rule, direct_build(batch, rule, STALE_GROUP))
