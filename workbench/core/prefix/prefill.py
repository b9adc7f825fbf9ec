"""How one prompt is cut into scheduler steps, and which of its states are kept.

Source: `Scheduler._mamba_block_aligned_split` in `vllm/v1/core/sched/scheduler.py` and
`MambaManager` in `vllm/v1/core/single_type_kv_cache_manager.py` of 0.23; for 0.33 see `sparse`.
"""

from dataclasses import dataclass
from itertools import chain, pairwise

from workbench.core.arithmetic import cdiv
from workbench.core.prefix.sparse import Parts, Sparse, even_steps, sparse_steps

ALIGN = "align"
ALL = "all"


@dataclass(frozen=True, slots=True)
class Prefill:
    """One prompt alone in the engine, from its cached part to its last token. All in tokens.

    Positions are ascending ranges: a prompt may take millions of steps. Decoding goes on to keep
    states at block boundaries; that is not modelled here.
    """

    prompt_tokens: int
    cached_tokens: int
    is_scheduled: bool
    """False when no step is ever taken (vllm#34445: align mode, budget below the block)."""
    stops: tuple[range, ...]
    """Positions at which a step ends; empty when none is taken."""
    kept: tuple[range, ...]
    """Positions whose state is found again by another request."""
    tails: tuple[int, ...] = ()
    """Positions before which sparsely kept windows are found again (0.33)."""

    @property
    def step_count(self) -> int:
        """Return how many steps there are."""
        return sum(len(part) for part in self.stops)

    @property
    def step_ends(self) -> tuple[int, ...]:
        """Return the position after every step."""
        return tuple(chain.from_iterable(self.stops))

    @property
    def steps(self) -> tuple[int, ...]:
        """Return the tokens of every step; their sum is what of the prompt is not cached."""
        return tuple(end - start for start, end in pairwise((self.cached_tokens, *self.step_ends)))

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Return every position whose state is kept."""
        return tuple(chain.from_iterable(self.kept))

    def kept_between(self, start: int, stop: int) -> tuple[range, ...]:
        """Return the checkpoints after `start` and up to `stop`, as ascending ranges."""
        parts = (part[_count_to(part, start) : _count_to(part, stop)] for part in self.kept)
        return tuple(part for part in parts if part)

    def checkpoint_below(self, limit: int, multiple_of: int = 1) -> int:
        """Return the last checkpoint at or below `limit` that is such a multiple; 0 without one."""
        for part in reversed(self.kept):
            for position in reversed(part[: _count_to(part, limit)]):
                if position % multiple_of == 0:
                    return position
        return 0


def prefill(
    prompt_tokens: int,
    budget_tokens: int,
    *,
    mode: str = "none",
    block_size: int | None = None,
    drafts: bool = False,
    cached_tokens: int = 0,
    sparse: Sparse | None = None,
) -> Prefill:
    """Return the steps of a prompt when every step has `budget_tokens` and no other request.

    block_size: tokens of a mamba block, None without state-space layers; align mode ends its
    steps at multiples of it, one block earlier with EAGLE-like `drafts` (eagle, eagle3, mtp,
    dflash). sparse: align mode as 0.33 has it, which keeps few states. Errors: ValueError for a
    budget or block below 1, or more cached than there is.
    """
    if min(budget_tokens, budget_tokens if block_size is None else block_size) < 1:
        raise ValueError(
            "budget_tokens and block_size must be at least 1; got "
            f"{budget_tokens} and {block_size}."
        )
    if not 0 <= cached_tokens <= prompt_tokens:
        raise ValueError(
            f"cached_tokens must be from 0 to prompt_tokens ({prompt_tokens}); got {cached_tokens}."
        )
    if mode == ALIGN and block_size is not None and sparse is not None:
        parts, kept = sparse_steps(prompt_tokens, budget_tokens, block_size, cached_tokens, sparse)
        return Prefill(
            prompt_tokens=prompt_tokens,
            cached_tokens=cached_tokens,
            is_scheduled=True,
            stops=parts,
            kept=kept,
        )
    if mode == ALIGN and block_size is not None:
        stops = _aligned_stops(prompt_tokens, budget_tokens, block_size, drafts, cached_tokens)
    else:
        stops = even_steps(cached_tokens, prompt_tokens, budget_tokens)
    stops = tuple(part for part in stops if part)
    return Prefill(
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        is_scheduled=bool(stops) or cached_tokens == prompt_tokens,
        stops=stops,
        kept=_kept(stops, mode, block_size, cached_tokens),
    )


def last_cache_position(prompt_tokens: int, block_size: int, drafts: bool) -> int:
    """Return the position at which align mode makes a step end: the last full block."""
    last = prompt_tokens - prompt_tokens % block_size
    # With drafts one block less, since attention then drops the last block that it matches.
    return max(last - block_size, 0) if drafts else last


def _aligned_stops(prompt: int, budget: int, block: int, drafts: bool, start: int) -> Parts:
    """Return full strides up to the last cache position, then that position, then the rest."""
    last = last_cache_position(prompt, block, drafts)
    if start >= last:
        return even_steps(start, prompt, budget)
    # A state is kept only where a step ends at a block, so steps are rounded down to whole blocks;
    # a budget below one block would schedule nothing (Scheduler._mamba_block_aligned_split, 0.23).
    stride = budget // block * block
    beyond_budget = max(0, last - budget - start)
    if beyond_budget and not stride:
        return ()
    reached = start + cdiv(beyond_budget, stride) * stride if beyond_budget else start
    regular = range(start + stride, reached + 1, stride or 1)
    final = range(last, last + 1) if reached < last else range(0)
    return (regular, final, *even_steps(last, prompt, budget))


def _kept(stops: Parts, mode: str, block: int | None, start: int) -> Parts:
    if block is None or not stops:
        return ()
    aligned: list[range] = []
    if mode == ALL:
        # Mode all writes the state of every block, wherever the steps end.
        aligned = [range((start // block + 1) * block, stops[-1][-1] + 1, block)]
    elif mode == ALIGN:
        # Mode align copies a state only where a step ends, so blocks that a step passes have none.
        aligned = [_multiples(part, block) for part in stops]
    return tuple(part for part in aligned if part)


def _multiples(part: range, block: int) -> range:
    """Return the members of a range of stops that are multiples of the block."""
    if part.step % block == 0:
        return part if part.start % block == 0 else range(0)
    found = [position for position in part if position % block == 0]
    if not found:
        return range(0)
    return range(found[0], found[-1] + 1, found[1] - found[0] if len(found) > 1 else block)


def _count_to(part: range, limit: int) -> int:
    """Return how many members of an ascending range are at or below `limit`."""
    return min(len(part), max(0, cdiv(limit + 1 - part.start, part.step)))
