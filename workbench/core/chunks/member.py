"""One engine of a store: what a chunk holds of it, what a prompt stores, what comes back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import lcm
from typing import TYPE_CHECKING

from workbench.core.chunks.connectors import ANY, OFFLOADING, OWN, Connector
from workbench.core.chunks.pieces import UNKEPT, Piece
from workbench.core.chunks.rules import ENOUGH_BYTES
from workbench.core.offload.plan import OffloadRequest, offload
from workbench.core.plan import Plan
from workbench.core.prefix.hits import caching_of
from workbench.core.problems import Problem, has_error

if TYPE_CHECKING:
    from workbench.core.offload.plan import Offload

PREFIX_CHUNKS = 64
"""Chunks of a prompt among which the shortest prefix with a hit is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkCost:
    """What one engine keeps of a prompt in chunks of one size. Bytes are over all ranks."""

    chunk_tokens: int
    chunk_bytes: int
    chunk_bytes_on_rank: int
    chunks: int
    """Whole chunks of the prompt; its last tokens are in none."""
    tail_tokens: int
    stored_bytes: int
    """At most: what a window no longer needs may be omitted."""
    loadable_tokens: int
    """What the same prompt gets back later."""
    hit_percent: int
    """Prompts of about this length that get anything back: a state must be kept where a chunk
    ends."""
    smallest_prefix_tokens: int | None
    """The shortest shared prefix with a hit, None where max_model_len allows none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One engine with the connector: its plan as the connector leaves it."""

    label: str
    connector: Connector
    plan: Plan = field(repr=False)
    problems: tuple[Problem, ...]
    """What the connector refuses whatever the chunk is, and what it keeps wrongly."""
    pieces: tuple[Piece, ...]
    """Of every group; empty where nothing can be kept."""

    @property
    def is_legal(self) -> bool:
        """Return whether the engine starts with the connector."""
        return bool(self.pieces) and not has_error(self.problems)

    @property
    def keeps_states(self) -> bool:
        """Return whether states are kept at the ends of blocks, as prefix caching does."""
        has_states = any(piece.is_state for piece in self.pieces)
        return not has_states or self.plan.mamba_cache_mode != UNKEPT

    @property
    def unit_tokens(self) -> int | None:
        """Return what every legal chunk is a multiple of; None where nothing can be kept."""
        if not self.pieces or (self.connector.stores and not self.keeps_states):
            return None
        return 1 if self.connector.sizes == ANY else lcm(*(one.tokens for one in self.pieces))

    @property
    def sets_no_size(self) -> bool:
        """Return whether the connector stores the engine's own blocks, and nothing else."""
        # OffloadingConnectorScheduler: a size of its own needs groups of one block size.
        blocks = {piece.tokens for piece in self.pieces}
        several = self.connector.name == OFFLOADING and len(blocks) > 1
        return self.connector.sizes == OWN or several

    @property
    def longest_chunk(self) -> int | None:
        """Return the largest legal chunk, None without a limit."""
        limits = (piece.longest_chunk for piece in self.pieces)
        own = self.unit_tokens if self.sets_no_size else None
        return min((one for one in (own, *limits) if one is not None), default=None)

    def cost(self, chunk_tokens: int, prompt_tokens: int) -> ChunkCost:
        """Return what a prompt costs in chunks of this size, which must be legal."""
        chunks = prompt_tokens // chunk_tokens
        stages: Counter[int] = Counter()
        for piece in self.pieces:
            stages[piece.stage] += piece.chunk_bytes(chunk_tokens)
        on_rank = max(stages.values(), default=0)
        found = self._offload(chunk_tokens)
        whole = sum(piece.chunk_bytes(chunk_tokens) * piece.copies for piece in self.pieces)
        if found is not None:
            one = found.factor or 1
            first = [piece for piece in self.pieces if not piece.stage]
            blocks = sum(chunk_tokens // (piece.tokens * one) for piece in first)
            whole = (found.bytes_per_cpu_block or 0) * blocks
        return ChunkCost(
            chunk_tokens=chunk_tokens,
            chunk_bytes=whole,
            chunk_bytes_on_rank=on_rank,
            chunks=chunks,
            tail_tokens=prompt_tokens - chunks * chunk_tokens,
            stored_bytes=self._stored_bytes(chunk_tokens, prompt_tokens, found),
            loadable_tokens=self._loadable(chunk_tokens, prompt_tokens),
            hit_percent=self._hit_percent(chunk_tokens, prompt_tokens),
            smallest_prefix_tokens=self._smallest_prefix(chunk_tokens),
        )

    def _offload(self, chunk_tokens: int) -> Offload | None:
        """Return the offload of vLLM with this chunk; None with another connector."""
        if self.connector.name != OFFLOADING:
            return None
        size = None if self.sets_no_size else chunk_tokens
        request = OffloadRequest(block_size=size, cpu_bytes_to_use=ENOUGH_BYTES)
        return offload(self.plan, request)

    def _stored_bytes(self, chunk_tokens: int, prompt_tokens: int, found: Offload | None) -> int:
        if found is not None:
            stored = found.stored_prompt(prompt_tokens)
            return stored.blocks * (found.bytes_per_cpu_block or 0)
        chunks, kept = prompt_tokens // chunk_tokens, caching_of(self.plan).prefill(prompt_tokens)
        total = 0
        for piece in self.pieces:
            if not piece.is_state or not self.connector.whole_ids:
                total += chunks * piece.chunk_bytes(chunk_tokens) * piece.copies
            else:
                # Only a state that a step has left can be stored.
                ends = sum(position % chunk_tokens == 0 for position in kept.checkpoints)
                total += ends * piece.bytes_on_rank * piece.copies
        return total

    def _loadable(self, chunk_tokens: int, prompt_tokens: int) -> int:
        whole = prompt_tokens // chunk_tokens * chunk_tokens
        if not any(piece.is_state for piece in self.pieces):
            return whole
        kept = caching_of(self.plan).prefill(prompt_tokens)
        return kept.checkpoint_below(whole, chunk_tokens)

    def _hit_percent(self, chunk_tokens: int, prompt_tokens: int) -> int:
        """Return in how many of the lengths, block by block over one chunk, a prompt hits."""
        blocks = [piece.tokens for piece in self.pieces if piece.is_state] or [chunk_tokens]
        lengths = range(prompt_tokens, max(0, prompt_tokens - chunk_tokens), -min(blocks))
        return 100 * sum(self._loadable(chunk_tokens, one) > 0 for one in lengths) // len(lengths)

    def _smallest_prefix(self, chunk_tokens: int) -> int | None:
        for chunks in range(1, PREFIX_CHUNKS + 1):
            # The last token of a prompt is always computed.
            prompt = chunks * chunk_tokens + 1
            if prompt >= self.plan.max_model_len:
                return None
            if found := self._loadable(chunk_tokens, prompt):
                return found
        return None
