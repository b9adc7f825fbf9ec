"""What prefix caching finds again: hits, the smallest prefix that counts, and why there are none.

Source: `HybridKVCacheCoordinator.find_longest_cache_hit`, `UnitaryKVCacheCoordinator` and
`KVCacheManager.get_computed_blocks` of vLLM 0.23 and 0.33. A pool without eviction is assumed, and
requests that come one after the other; tokens that earlier requests generated are not reused here.
In 0.23 sliding windows then find the same as full attention; with drafts and a window group of
smaller blocks than the full attention, it can find one alignment unit less than is reported here.
For 0.33 see `windows`.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

from workbench.core.capacity.blocks import checkpoint_blocks, hit_unit
from workbench.core.errors import check_integer
from workbench.core.groups.grouping import Grouping
from workbench.core.groups.layer_backend import is_drafted
from workbench.core.plan import Plan
from workbench.core.prefix.prefill import ALIGN, Prefill, prefill
from workbench.core.prefix.sparse import Sparse, replay_position
from workbench.core.prefix.windows import Window, window_match, windows_of
from workbench.core.runner import lookahead_tokens

LONGEST = "max_model_len"


@dataclass(frozen=True, slots=True)
class Caching:
    """What hits depend on; `caching_of` reads it from a plan. Sizes in tokens."""

    mode: str
    is_on: bool
    attention_blocks: tuple[int, ...]
    """The block sizes of the attention groups, empty without any."""
    state_block: int | None
    """The block size of the mamba groups, None without any."""
    alignment_tokens: int
    """Hits are multiples of this (the scheduler block)."""
    budget_tokens: int
    drafts: bool
    """An EAGLE-like method (eagle, eagle3, mtp, dflash) is in use, and attention drops a block for
    it."""
    max_model_len: int
    keeps_few: bool = False
    keeps_inside: bool = False
    """Which states of align mode are kept, as is `keeps_few`: see `Sparse`."""
    draft_blocks: tuple[int, ...] = ()
    """The blocks of the groups that drop one, empty for all (DeepSeek-V4 in 0.23)."""
    windows: tuple[Window, ...] = ()
    """Those of which few blocks are kept (0.33 with several groups)."""
    lookahead_tokens: int = 0
    """Tokens after a block that its hash covers too (0.33 with such a method)."""

    def prefill(
        self, prompt_tokens: int, cached_tokens: int = 0, junction_tokens: int = 0
    ) -> Prefill:
        """Return the steps and checkpoints of one prompt of this length.

        junction_tokens: what attention finds again beyond the cached tokens (0.33 keeps its state).
        """
        found = prefill(
            prompt_tokens,
            self.budget_tokens,
            mode=self.mode if self.is_on else "none",
            block_size=self.state_block,
            drafts=self.drafts,
            cached_tokens=cached_tokens,
            sparse=Sparse(self.keeps_inside, junction_tokens, self.lookahead_tokens)
            if self.keeps_few
            else None,
        )
        if not self.windows:
            return found
        # A block is known by its hash, which covers the tokens that the drafter reads after it.
        marks = (
            mark // self.alignment_tokens * self.alignment_tokens
            for mark in (junction_tokens, prompt_tokens - 1)
        )
        tails = {mark for mark in marks if 0 < mark <= prompt_tokens - self.lookahead_tokens}
        return replace(found, tails=tuple(sorted(tails)))


@dataclass(frozen=True, slots=True)
class Hit:
    """What a request reuses of an earlier one. All in tokens.

    attention_tokens: what the attention groups would give, None without attention;
    state_tokens: the last usable checkpoint of state-space layers and sparsely kept windows, None
    without either. cached_tokens: what
    all groups together give, and what vLLM counts as computed.
    """

    prompt_tokens: int
    shared_tokens: int
    attention_tokens: int | None
    state_tokens: int | None
    cached_tokens: int

    @property
    def attention_lost_tokens(self) -> int:
        """Return the tokens with matching keys and values that no checkpoint allows to skip."""
        return max(0, (self.attention_tokens or 0) - self.cached_tokens)

    @property
    def attention_missing_tokens(self) -> int:
        """Return the tokens counted as computed whose keys and values were not found."""
        if self.attention_tokens is None:
            return 0
        # With drafts attention drops its last matched block, but a checkpoint one block further is
        # still taken (MambaManager.find_longest_cache_hit ignores the drop): 0.23 reads garbage.
        return max(0, self.cached_tokens - self.attention_tokens)


def caching_of(plan: Plan) -> Caching:
    """Return what hits depend on. Errors: ValueError when the plan has no cache."""
    grouping = plan.grouping or plan.built_cache().grouping
    specs, rules = [group.spec for group in grouping.examples], plan.rules.prefill
    method = plan.speculation
    drafts = method is not None and method.reads_next_token
    return Caching(
        mode=plan.mamba_cache_mode,
        is_on=plan.enable_prefix_caching,
        attention_blocks=tuple(
            sorted({s.span_tokens for s in specs if not s.is_mamba and s.is_found_again})
        ),
        state_block=min((spec.block_size for spec in specs if spec.is_mamba), default=None),
        alignment_tokens=hit_unit(plan, grouping),
        budget_tokens=plan.max_num_batched_tokens,
        drafts=drafts and not rules.hashes_look_ahead,
        max_model_len=plan.max_model_len,
        keeps_few=rules.keeps_few_states,
        keeps_inside=bool(checkpoint_blocks(plan)),
        draft_blocks=_draft_blocks(plan, grouping) if drafts else (),
        windows=windows_of(grouping) if rules.keeps_few_states else (),
        lookahead_tokens=lookahead_tokens(plan) if drafts and rules.hashes_look_ahead else 0,
    )


def _draft_blocks(plan: Plan, grouping: Grouping) -> tuple[int, ...]:
    """Return the blocks of the drafter's groups, where only those drop one."""
    # _annotate_eagle_groups_deepseek_v4, 0.23
    attention = plan.model.attention
    if attention is None or not attention.is_compressed:
        return ()
    layers = grouping.layers.items()
    return tuple({spec.block_size for name, (_group, spec) in layers if is_drafted(plan, name)})


def prefix_hit(caching: Caching, prompt_tokens: int, shared_tokens: int) -> Hit:
    """Return what a prompt reuses of an earlier one of the same length. Errors: as `hit_after`."""
    check_integer("prompt_tokens", prompt_tokens, 1, caching.max_model_len, LONGEST)
    return hit_after(caching, caching.prefill(prompt_tokens), prompt_tokens, shared_tokens)


def hit_after(caching: Caching, earlier: Prefill, prompt_tokens: int, shared_tokens: int) -> Hit:
    """Return what a prompt reuses of an earlier prefill with the same first `shared_tokens` tokens.

    Errors: ScenarioError for a prompt above `max_model_len`, when more is shared than either prompt
    has, and for what is not an integer.
    """
    check_integer("prompt_tokens", prompt_tokens, 1, caching.max_model_len, LONGEST)
    shorter = min(prompt_tokens, earlier.prompt_tokens)
    check_integer("shared_tokens", shared_tokens, 0, shorter, "the shorter prompt")
    # Logits need the last token computed, even if all are cached:
    # KVCacheManager.get_computed_blocks looks up request.num_tokens - 1.
    limit = max(0, min(shared_tokens - caching.lookahead_tokens, prompt_tokens - 1))
    # A prompt that was never scheduled has computed nothing that could be found.
    found = caching.is_on and earlier.is_scheduled
    tail = replay_position(
        earlier.prompt_tokens, caching.alignment_tokens, caching.lookahead_tokens
    )
    attention = _attention_match(caching, limit if found else 0, tail)
    state = None
    if caching.state_block is not None:
        reach = limit
        if attention is not None:
            margin = caching.state_block if caching.drafts else 0
            reach = min(limit, attention + margin)
        # One checkpoint sums up all tokens before it, so the last one is enough, whatever was
        # evicted earlier: MambaManager.find_longest_cache_hit searches from right to left.
        state = earlier.checkpoint_below(reach, caching.alignment_tokens) if found else 0
    if caching.windows:
        # Their blocks are looked up like states: only before certain positions.
        known = (one for one in (state, attention, limit) if one is not None)
        tails = earlier.tails if found else ()
        state = window_match(caching.windows, tails, next(known), caching.alignment_tokens)
    cached = attention if state is None else state
    return Hit(prompt_tokens, shared_tokens, attention, state, cached or 0)


@lru_cache(maxsize=4096)
def smallest_prefix(caching: Caching, prompt_tokens: int | None = None) -> int | None:
    """Return the shortest shared prefix with a hit for prompts of this length, None without one.

    Without a length: over all prompts that `max_model_len` allows. Such a prefix does not promise a
    hit for another prompt length: see `prefix_hit`.
    """
    if prompt_tokens is None:
        found = [smallest_prefix(caching, length) for length in _allowed_prompts(caching)]
        return min((prefix for prefix in found if prefix is not None), default=None)
    check_integer("prompt_tokens", prompt_tokens, 1, caching.max_model_len, LONGEST)
    earlier = caching.prefill(prompt_tokens)
    if not hit_after(caching, earlier, prompt_tokens, prompt_tokens).cached_tokens:
        return None
    # a hit is a multiple of the alignment, and never longer than what is shared
    low, high = caching.alignment_tokens - 1, prompt_tokens
    while high - low > 1:
        middle = (low + high) // 2
        if hit_after(caching, earlier, prompt_tokens, middle).cached_tokens:
            high = middle
        else:
            low = middle
    return high


@lru_cache(maxsize=4096)
def is_inert(caching: Caching) -> bool:
    """Return whether prefix caching is on, but no request is long enough to get a prefix hit."""
    if not caching.is_on or _is_starved(caching):
        return False
    return not any(prefix_hit(caching, n, n).cached_tokens for n in _allowed_prompts(caching))


def reason_without_hits(caching: Caching) -> str | None:
    """Return why no request can ever have a hit, in words; None when some can."""
    if not caching.is_on:
        return "Prefix caching is off, so no request can hit."
    if _is_starved(caching):
        return (
            f"A step of {caching.budget_tokens:,} tokens holds no block of "
            f"{caching.state_block:,}, which align mode needs: vLLM refuses to start."
        )
    if not is_inert(caching):
        return None
    shortest = shortest_prompt_with_hit(caching)
    return (
        f"Inert: the longest prompt ({caching.max_model_len - 1:,} tokens, max_model_len less one) "
        f"fills no block that a hit could use; that takes a prompt of {shortest:,} tokens or more."
    )


def shortest_prompt_with_hit(caching: Caching) -> int:
    """Return the shortest prompt, in tokens, that could get a prefix hit if it were allowed."""
    lengths = _shortest_prompts(caching)
    longer = replace(caching, max_model_len=max(caching.max_model_len, *lengths) + 1)
    hits = (n for n in lengths if prefix_hit(longer, n, n).cached_tokens)
    return min(hits, default=max(lengths))


def _is_starved(caching: Caching) -> bool:
    block = caching.state_block
    # 0.33 lets a step end inside a block, so that a small budget starves nothing (see `sparse`).
    applies = caching.mode == ALIGN and not caching.keeps_few
    return applies and block is not None and caching.budget_tokens < block


def _shortest_prompts(caching: Caching) -> tuple[int, ...]:
    """Return the lengths among which the shortest prompt with a hit is: full blocks and a token."""
    align = caching.alignment_tokens
    blocks = {*caching.attention_blocks, caching.state_block or align}
    if not caching.drafts:
        return (align + 1,)
    # With drafts attention needs a second block; a state alone may be found with the first.
    second = {align + block + extra for block in blocks for extra in (0, 1)}
    return tuple(sorted({align + 1, *second}))


def _allowed_prompts(caching: Caching) -> tuple[int, ...]:
    """Return those of them that `max_model_len` allows: one token must still be generated."""
    return tuple(n for n in _shortest_prompts(caching) if n < caching.max_model_len)


def _attention_match(caching: Caching, limit: int, tail: int) -> int | None:
    """Return what attention finds again up to `limit`; tail: where its prompt's last hash ends."""
    if not caching.attention_blocks:
        return None
    align = caching.alignment_tokens
    # EAGLE needs the tokens before the first new one recomputed. The block is dropped before the
    # hit is rounded down to the alignment: FullAttentionManager.find_longest_cache_hit.
    dropping = caching.draft_blocks or caching.attention_blocks if caching.drafts else ()
    found = []
    for block in caching.attention_blocks:
        # Hashes form a chain, so that all blocks up to the end of what is shared match, and none
        # after it.
        full = max(0, limit // block - (block in dropping)) * block
        # Of blocks above the unit, the one that the prompt ended in is found up to there
        # (FullAttentionManager._cache_partial_tail_block, 0.33).
        is_inside = align < block and full < tail <= min(limit, full + block)
        found.append((tail if is_inside else full) // align * align)
    return min(found)
