"""Which chunk sizes are legal for all engines of a store, what they cost, and which to take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm
from typing import TYPE_CHECKING, NamedTuple

from workbench.core.chunks.connectors import Connector
from workbench.core.chunks.member import ChunkCost, Member
from workbench.core.problems import Problem, has_error

if TYPE_CHECKING:
    from workbench.core.chunks.fleet import Pair

LISTED = 8
"""How many legal sizes are listed."""
FACTORS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
"""Multiples of the smallest legal size that are compared."""


class Recommended(NamedTuple):
    """A chunk size to take, and why."""

    tokens: int
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class Chunks:
    """The answer of `plan.chunks()` and `wb.chunks([...])`. All sizes in tokens."""

    connector: Connector
    members: tuple[Member, ...]
    requested_tokens: int | None
    """The chunk size to check, None for a recommendation."""
    prompt_tokens: int
    """The prompt whose cost is shown."""

    @property
    def unit_tokens(self) -> int | None:
        """Return what a chunk must be a multiple of; None where an engine can keep nothing."""
        units = [member.unit_tokens for member in self.members]
        known = [one for one in units if one is not None]
        return lcm(*known) if len(known) == len(units) else None

    @property
    def longest_chunk(self) -> int | None:
        """Return the largest legal chunk, None without a limit."""
        limits = (member.longest_chunk for member in self.members)
        return min((one for one in limits if one is not None), default=None)

    def is_legal_size(self, tokens: int) -> bool:
        """Return whether every engine takes a chunk of so many tokens."""
        unit, limit = self.unit_tokens, self.longest_chunk
        if unit is None or tokens < 1 or tokens % unit:
            return False
        return limit is None or tokens <= limit

    @property
    def legal_sizes(self) -> tuple[int, ...]:
        """Return the smallest legal sizes, ascending; empty where there is none."""
        multiples = range(1, LISTED + 1)
        sizes = tuple((self.unit_tokens or 0) * number for number in multiples)
        return tuple(size for size in sizes if self.is_legal_size(size))

    def nearest(self, tokens: int) -> tuple[int, ...]:
        """Return the legal sizes next to a number of tokens: at or below, at or above."""
        unit = self.unit_tokens
        if unit is None:
            return ()
        top = tokens if self.longest_chunk is None else min(tokens, self.longest_chunk)
        below = top // unit * unit
        near = {below, below + unit if below < tokens else below}
        return tuple(sorted(size for size in near if self.is_legal_size(size)))

    @property
    def chunk_tokens(self) -> int | None:
        """Return the requested size if it is legal, else the first recommended one."""
        requested, found = self.requested_tokens, self.recommended
        if requested is not None and self.is_legal_size(requested):
            return requested
        return found[0].tokens if found else None

    @property
    def is_legal(self) -> bool:
        """Return whether every engine starts with the connector and the requested size."""
        return not has_error(self.problems)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return what stops the engines, then what is kept wrongly or never found."""
        from workbench.core.chunks.checks import shared_problems, size_problems

        alone = len(self.members) == 1
        own = tuple(
            problem if alone else replace(problem, message=f"{member.label}: {problem.message}")
            for member in self.members
            for problem in member.problems
        )
        return (*own, *size_problems(self), *shared_problems(self))

    def costs(self, tokens: int | None = None) -> tuple[ChunkCost, ...]:
        """Return what the prompt costs every engine, in chunks of `tokens`; empty if not legal."""
        size = self.chunk_tokens if tokens is None else tokens
        if size is None or not self.is_legal_size(size):
            return ()
        return tuple(
            member.cost(size, min(self.prompt_tokens, member.plan.max_model_len - 1))
            for member in self.members
            if member.is_legal
        )

    @property
    def compared(self) -> tuple[int, ...]:
        """Return the legal sizes up to the length of the prompt that are compared."""
        unit = self.unit_tokens or 0
        if not unit:
            return ()
        above = -(-(self.connector.default_tokens or unit) // unit) * unit
        sizes = {above, *(unit * factor for factor in FACTORS)}
        legal = sorted(size for size in sizes if self.is_legal_size(size))
        return tuple(size for size in legal if size <= max(self.prompt_tokens, unit))

    @property
    def recommended(self) -> tuple[Recommended, ...]:
        """Return sizes to take, best first, each with the reason."""
        from workbench.core.chunks.advice import recommended

        return recommended(self)

    def pairs(self) -> tuple[Pair, ...]:
        """Return every engine as prefill with every other as decode, in a transfer over NIXL."""
        from workbench.core.chunks.fleet import pairs_of

        return pairs_of(self.members)

    def __repr__(self) -> str:
        from workbench.views.chunks.html import chunks_text

        return chunks_text(self)

    def _repr_html_(self) -> str:
        from workbench.views.chunks.html import chunks_html

        return chunks_html(self)
