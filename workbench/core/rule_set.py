"""A rule set: what one vLLM version decides, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from workbench.core.architectures import ModelRegistry
from workbench.core.backends import Backend, LayerQuery
from workbench.core.batch_defaults import TIERS_0_23, BatchTier
from workbench.core.groups.rules import GroupRules
from workbench.core.layouts.rules import LayoutRules
from workbench.core.model import Attention
from workbench.core.offload.rules import OffloadRules
from workbench.core.prefix.rules import PrefillRules
from workbench.core.registry import Registry
from workbench.core.run import Run
from workbench.core.speculation import SpeculationRules

Stage = Callable[[Run], None]
TokenBytes = Callable[[Attention, int, str, str, str | None], tuple[int, str]]
"""(attention, KV heads per rank, KV dtype, model dtype, backend) -> (bytes of a token, formula)."""


@dataclass(frozen=True)
class RuleSet:
    """The rules of one version: tables, small functions, and the order of the stages.

    The order is part of the rules: before #37467 the very same alignment ran too early.
    selection_order: which backends a layer tries, first to last; choices_without_test: which
    may be requested where the platform tests nothing else. draft_counting: SSM kinds and
    families whose state shapes grow with draft tokens ("mamba2:nemotron_h", "gdn:*").
    batch_tiers: default token budgets and numbers of sequences by device, largest memory first.
    token_bytes: what the alignment counts for one token; layer_token_bytes: what the layer's
    page has of it. companions: backends of caches alongside the attention, built before it.
    all_backends: phase 1 queries all of them and the result suits all of them, instead of the
    first. reads_cache_mode: whether an explicit mode reaches models without states.
    mla_granule: smallest alignment granularity of MLA models; prefill_checkpoint_tokens: what
    align mode keeps states at where FlashInfer runs the prefill of gated delta nets.
    kda_dtypes: of the recurrent state of Kimi delta attention, the default first. groups: how
    layers are grouped. layouts: how caches are laid out and tables filled. offload: how blocks
    are hashed and offloaded. prefill: which states of a prompt are kept and found again.
    names_stored_dtype: the log names the packed format of a sparse backend and the backend.
    speculation: which methods draft tokens, and what they keep. linear_state_as_mla: linear
    attention combined with MLA has states of the heads that MLA rotates. sm10x_kv_cache_dtypes:
    architecture -> KV dtype instead of auto on capability 10.x. yarn_stretches: the longest
    request is yarn's original length times its factor, instead of the length as config.json has
    it. packed_layers_mix_on: platforms on which the plain layers of a packed cache get a
    backend of their own that reads the same layout, whatever is set explicitly.
    flex_prunes_pages: the direct build of flex attention omits pages past a request's own and,
    under causal, later ones; flex_small_needs_pages: mask blocks below 128 with pages only.
    cpu_checks_kv_cache_dtype: whether the CPU backend is tested for it, too. model_registry:
    the model classes that the version has. traits: what of this version no scenario changes and
    the other fields do not show, in words (see `core.upgrade_words.traits_of`). version: the
    one that sources name.
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
    version: str
    kv_cache_dtypes: tuple[str, ...]
    token_bytes: TokenBytes
    layer_token_bytes: TokenBytes
    companions: Callable[[Attention], tuple[str, ...]]
    groups: GroupRules
    layouts: LayoutRules
    offload: OffloadRules
    prefill: PrefillRules
    model_registry: ModelRegistry
    speculation: SpeculationRules
    batch_tiers: tuple[BatchTier, ...] = TIERS_0_23
    packed_layers_mix_on: frozenset[str] = frozenset()
    all_backends: bool = False
    hybrid_prefix_caching: bool = False
    linear_state_as_mla: bool = False
    sm10x_kv_cache_dtypes: Mapping[str, str] = field(default_factory=dict)
    yarn_stretches: bool = True
    flex_prunes_pages: bool = False
    flex_small_needs_pages: bool = False
    reads_cache_mode: bool = True
    mla_granule: int = 1
    prefill_checkpoint_tokens: int = 1
    kda_dtypes: tuple[str, ...] = ("float32",)
    cpu_checks_kv_cache_dtype: bool = False
    names_stored_dtype: bool = False
    traits: Mapping[str, str] = field(default_factory=dict)

    def counts_drafts(self, kind: str, family: str) -> bool:
        """Return whether draft tokens enlarge the conv state of this kind of layer."""
        return f"{kind}:*" in self.draft_counting or f"{kind}:{family}" in self.draft_counting


RULE_SETS: Registry[RuleSet] = Registry("rule set", "rules")
