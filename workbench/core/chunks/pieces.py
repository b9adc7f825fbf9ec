"""What a connector keeps of every cache group: tokens and bytes of a block, and on which ranks."""

from dataclasses import dataclass

from workbench.core.chunks.connectors import LMCACHE, LMCACHE_INSIDE, MOONCAKE, Connector
from workbench.core.groups.cache_spec import MLA_KINDS, SLIDING_KINDS, SLIDING_MLA_SPEC, CacheSpec
from workbench.core.groups.grouping import Group
from workbench.core.plan import Plan

UNKEPT = "none"
"""The mamba_cache_mode without prefix caching: a state is kept while its request runs, in one
block as long as the longest request, so that nothing stored of it is ever found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One cache group, as a connector keeps it."""

    tokens: int
    """Of one block."""
    bytes_on_rank: int
    """Of one block, on one rank."""
    copies: int
    """Ranks whose bytes are kept: those with the same heads or latents are kept once."""
    is_state: bool
    tail_tokens: int | None = None
    """The end of a chunk that is kept (of a window, or the last state); None for all of it."""
    stage: int = 0
    """The pipeline stage whose ranks keep it."""

    def blocks(self, chunk_tokens: int) -> int:
        """Return the blocks that are kept of a chunk."""
        kept = chunk_tokens if self.tail_tokens is None else min(chunk_tokens, self.tail_tokens)
        return kept // self.tokens

    def chunk_bytes(self, chunk_tokens: int) -> int:
        """Return the bytes that one rank keeps of a chunk."""
        # Chunks below a block (LMCache inside the engine) are single tokens of it.
        if self.tail_tokens is None:
            return self.bytes_on_rank * chunk_tokens // self.tokens
        return self.bytes_on_rank * self.blocks(chunk_tokens)

    @property
    def longest_chunk(self) -> int | None:
        """Return the largest chunk whose tail is whole blocks; None without such a limit."""
        # _validate_block_chunk_size_config (LMCache 0.5.6).
        cut = self.tail_tokens is not None and self.tail_tokens % self.tokens
        return self.tail_tokens if cut else None


def pieces_of(plan: Plan, connector: Connector) -> tuple[Piece, ...]:
    """Return what the connector keeps of every group, stage by stage.

    Errors: ValueError without a cache.
    """
    cache = plan.built_cache()
    return tuple(
        Piece(
            tokens=group.spec.span_tokens,
            bytes_on_rank=stage.grouping.bytes_per_block
            if connector.whole_ids
            else _group_bytes(group),
            copies=_copies(plan, group, connector),
            is_state=group.spec.is_mamba,
            tail_tokens=_tail(group.spec) if connector.name == LMCACHE else None,
            stage=number,
        )
        for number, stage in enumerate(cache.every_stage)
        for group in stage.groups
        # A store finds ids by their hashes, which rings and windows computed again do not have.
        if group.is_found_again or not (connector.stores and connector.whole_ids)
    )


def _group_bytes(group: Group) -> int:
    """Return the bytes of one block of the group's layers: data of attention, pages of states."""
    # LMCache sees attention as tensors without their padding, and a state as its whole page
    # (_MambaPageViewEdit).
    return sum(
        spec.page_size_bytes if spec.is_mamba else spec.content_bytes for spec in group.layer_specs
    )


def _tail(spec: CacheSpec) -> int | None:
    """Return what the LMCache server keeps of a chunk (_resolve_per_layer_sw_sizes)."""
    if spec.is_mamba:
        return spec.block_size
    return spec.window_tokens if spec.kind in SLIDING_KINDS else None


def _copies(plan: Plan, group: Group, connector: Connector) -> int:
    ranks = plan.settings.tensor_parallel
    if connector.name in {LMCACHE, LMCACHE_INSIDE}:
        # mla_only and save_only_first_rank: every rank holds the same latents.
        groups = plan.built_cache().groups
        return 1 if all(_is_latent(one) for one in groups) else ranks
    return ranks // same_heads(plan, group) if connector.name == MOONCAKE else ranks


def same_heads(plan: Plan, group: Group) -> int:
    """Return how many ranks a Mooncake store takes for one, as they hold the same bytes."""
    # put_step (0.23, for all groups) and _spec_tp_replication_factor (0.33).
    ranks, attention = plan.settings.tensor_parallel, plan.model.attention
    if attention is None:
        return 1
    spreads = group.spec.is_mamba or plan.settings.decode_context_parallel > 1
    if spreads and not plan.rules.offload.store_shares_states:
        return 1
    if attention.use_mla and (plan.rules.offload.store_shares_states or _is_latent(group)):
        return ranks
    return max(1, ranks // attention.num_kv_heads)


def _is_latent(group: Group) -> bool:
    latent = MLA_KINDS | {SLIDING_MLA_SPEC}
    return all(spec.kind in latent for spec in group.different_specs)
