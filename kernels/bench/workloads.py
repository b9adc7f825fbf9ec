"""The workloads of the block-table step, as data. Sizes in manager blocks, tokens and requests."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workbench.kernels.bench.results import Piece
from workbench.kernels.block_table.groups import TableGroup


@dataclass(frozen=True, slots=True)
class Part:
    """`requests` identical requests of a batch.

    held: manager blocks that a row has before the step, one number per group; new: those that the
    step appends; tokens: what the step computes of a request, its last ones.
    """

    requests: int
    held: tuple[int, ...]
    new: tuple[int, ...]
    tokens: int = 1


@dataclass(frozen=True, slots=True)
class Workload:
    """One step of a batch over tables with these maxima.

    `num_blocks` is the pool. The batch is as large as its parts; its rows are any of
    `max_requests`, in any order.
    """

    name: str
    title: str
    groups: tuple[TableGroup, ...]
    parts: tuple[Part, ...]
    num_blocks: int
    max_requests: int = 256
    max_tokens: int = 8192
    pieces: tuple[Piece, ...] = ("step",)
    """What is timed of the step."""

    def __post_init__(self) -> None:
        """Refuse a batch that does not fit in its own tables."""
        for part in self.parts:
            for g, group in enumerate(self.groups):
                if part.held[g] + part.new[g] > group.max_blocks:
                    raise ValueError(f"{self.name}: {part} has more blocks than group {g} holds")
        if self.requests > self.max_requests or self.tokens > self.max_tokens:
            raise ValueError(f"{self.name}: the batch is larger than its maxima")

    @property
    def requests(self) -> int:
        """Return the requests of the batch; the same number of rows is gathered."""
        return sum(part.requests for part in self.parts)

    @property
    def tokens(self) -> int:
        """Return the tokens of the batch, without padding."""
        return sum(part.requests * part.tokens for part in self.parts)

    @property
    def writes(self) -> int:
        """Return the number of rows that the step appends to, over all groups."""
        return sum(part.requests * sum(n > 0 for n in part.new) for part in self.parts)

    @property
    def new_ids(self) -> int:
        """Return the number of manager blocks that the step appends, over all groups."""
        return sum(part.requests * sum(part.new) for part in self.parts)

    def moved_bytes(self, piece: str = "step") -> int:
        """Count the bytes that a step must read and write: ids compact, tables expanded.

        apply: 16 bytes and 4 per id a write read, 4 per id written. gather: 4 per live manager
        block read, 4 per kernel block written. slots, for each group and token: position 8, table
        entry 4, slot 8; padding 8.
        """
        groups = range(len(self.groups))
        # An id is read where it was staged and written to its row: 4 bytes each.
        apply = 16 * self.writes + 8 * self.new_ids
        gather = sum(4 * self.live_blocks(g) + 4 * self.live_kernel_blocks(g) for g in groups)
        padding = self.max_tokens - self.tokens
        slots = len(self.groups) * (20 * self.tokens + 8 * padding)
        return {"step": apply + gather + slots, "gather": gather, "slots": slots}[piece]

    def live_blocks(self, group: int) -> int:
        """Return the manager blocks that the batch has in one group after the step."""
        return sum(part.requests * (part.held[group] + part.new[group]) for part in self.parts)

    def live_kernel_blocks(self, group: int) -> int:
        """Return the same in kernel blocks: what a gather has to write."""
        return self.live_blocks(group) * self.groups[group].ratio

    def reduced(self) -> "Workload":
        """Return the same shape for Triton's interpreter; group sizes and ratios stay."""
        groups = tuple(replace(g, max_blocks=min(g.max_blocks, _FEW_BLOCKS)) for g in self.groups)
        parts = []
        for part in self.parts:
            new = tuple(min(n, _FEW_BLOCKS) for n in part.new)
            sizes = zip(part.held, groups, new, strict=True)
            # room for what the step appends comes first
            held = tuple(min(h, group.max_blocks - n) for h, group, n in sizes)
            few, tokens = min(part.requests, _FEW_REQUESTS), min(part.tokens, _FEW_TOKENS)
            parts.append(Part(few, held, new, tokens))
        small = replace(self, groups=groups, parts=tuple(parts), num_blocks=1000)
        return replace(
            small,
            max_requests=min(self.max_requests, small.requests + 2),
            max_tokens=min(self.max_tokens, small.tokens + 61),
        )


_FEW_BLOCKS, _FEW_REQUESTS, _FEW_TOKENS = 7, 3, 37


def _workload(entry: dict[str, Any]) -> Workload:
    """Return an entry of workloads.json; its `note` is for readers."""
    groups = tuple(TableGroup(**group) for group in entry["groups"])
    parts = tuple(Part(**{k: _tuple(v) for k, v in part.items()}) for part in entry["parts"])
    more = {k: _tuple(v) for k, v in entry.items() if k not in {"groups", "parts", "note"}}
    return Workload(groups=groups, parts=parts, **more)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_FILE = Path(__file__).with_name("workloads.json")
*_SCORED, LONG_ROWS = map(_workload, json.loads(_FILE.read_text(encoding="utf-8")))
"""The last one is a gather alone, limited by bandwidth."""
WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in _SCORED}
"""Name -> workload; the score is the geometric mean over all of them."""


def tokens_of(workload: Workload, part: Part) -> int:
    """Return the most tokens that a request of this part can have after the step."""
    blocks = [h + n for h, n in zip(part.held, part.new, strict=True)]
    sizes = [group.block_size for group in workload.groups]
    return min(map(math.prod, zip(blocks, sizes, strict=True)))
