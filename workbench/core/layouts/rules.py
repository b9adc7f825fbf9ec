"""What differs between versions when a cache is laid out and its block tables are filled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.core.groups.cache_spec import HIDDEN_SPEC, MLA_KINDS, SLIDING_MLA_SPEC
from workbench.core.layouts.shapes import LAYOUT_NAMES, CacheLayout


@dataclass(frozen=True, eq=False)
class LayoutRules:
    """Views and tables of one vLLM version.

    names: what VLLM_KV_CACHE_LAYOUT may say; aliases: other names for them. caches: backend -> its
    view [block, head, token, content], where every layer has one; empty where every backend has a
    shape of its own (`Backend.cache`). rewrites_strides: whether hybrids may need the rewrite of
    #37236. tables_hold_manager_blocks: a block table has the ids that were handed out, and the
    attention group makes kernel blocks of them; else the table has kernel blocks.
    rounds_rows_by_gcd: rows are widened to whole multiples of 128 tokens whatever the block is, and
    rows of states never. v2_runner_checkpoints: the V2 runner takes align mode.
    """

    names: tuple[str, ...] = LAYOUT_NAMES
    aliases: Mapping[str, str] = field(default_factory=dict)
    caches: Mapping[str, CacheLayout] = field(default_factory=dict)
    rewrites_strides: bool = True
    tables_hold_manager_blocks: bool = False
    rounds_rows_by_gcd: bool = False
    v2_runner_checkpoints: bool = False

    def cache_of(self, kind: str, backend: str | None) -> CacheLayout | None:
        """Return what the view of a layer holds; None where every backend has a shape of its own.

        kind: of its spec; MLA and hidden states go by that, all other layers by their backend.
        """
        if not self.caches:
            return None
        if kind == HIDDEN_SPEC:
            return self.caches["hidden"]
        if kind in MLA_KINDS or kind == SLIDING_MLA_SPEC:
            return self.caches["mla"]
        return self.caches.get(backend or "", self.caches[""])
