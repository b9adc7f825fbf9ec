"""What prompts leave in the host pool, and how many of them it holds (0.23).

Source: `OffloadingConnectorScheduler._build_store_jobs` and `get_sliding_window_size_in_blocks`
(`vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py`) of 0.23.
"""

from dataclasses import dataclass
from math import lcm

from workbench.core.arithmetic import cdiv
from workbench.core.errors import shown
from workbench.core.groups.cache_spec import CacheSpec
from workbench.core.offload.plan import Offload
from workbench.core.offload.request import offloaded_groups
from workbench.core.plan import Plan
from workbench.core.prefix.hits import caching_of


@dataclass(frozen=True, slots=True)
class StoredPrompt:
    """What one prompt takes in the host pool, when it is alone in the engine.

    attention_blocks, state_blocks: host blocks, over all groups of the kind. loadable_tokens: what
    a later request with this prompt gets back; 0 when no state is at the end of a block.
    requests: such prompts that the pool holds at once; None when a prompt takes no block, also one
    that is never scheduled.
    """

    prompt_tokens: int
    attention_blocks: int
    state_blocks: int
    loadable_tokens: int
    requests: int | None

    @property
    def blocks(self) -> int:
        """Return host blocks in all."""
        return self.attention_blocks + self.state_blocks

    @property
    def held_tokens(self) -> int | None:
        """Return the tokens that the full pool gives back, over all its requests."""
        return None if self.requests is None else self.requests * self.loadable_tokens

    def __str__(self) -> str:
        held = "none" if self.requests is None else f"{self.requests:,}"
        return (
            f"{self.prompt_tokens:,} tokens: {self.attention_blocks:,} host blocks of attention "
            f"and {self.state_blocks:,} of states, {self.loadable_tokens:,} tokens loaded back; "
            f"prompts at once: {held}"
        )


def stored_prompt(plan: Plan, found: Offload, prompt_tokens: int) -> StoredPrompt:
    """Return the host blocks of one prompt. Errors: as `Offload.stored_prompt`."""
    if found.factor is None:
        raise ValueError("this offload does not start: see its problems")
    if prompt_tokens < 1:
        raise ValueError(f"prompt_tokens must be at least 1; got {shown(prompt_tokens)}.")
    specs = [group.spec for group in offloaded_groups(plan)]
    sizes = [size * found.factor for size in found.gpu_block_sizes]
    unit, full = lcm(*sizes), _full_attention_block(specs, sizes)
    kept = caching_of(plan).prefill(prompt_tokens)
    if not kept.is_scheduled:
        return StoredPrompt(prompt_tokens, 0, 0, 0, None)
    # Prompts only (offload_prompt_only), and whole offloaded blocks only.
    loadable = prompt_tokens // unit * unit
    attention = states = 0
    for spec, size in zip(specs, sizes, strict=True):
        if spec.is_mamba:
            # A state is stored where a kept one is at the end of an offloaded block; blocks that
            # the GPU has dropped cannot be.
            states += sum(_multiples(part, size) for part in kept.kept)
            # A hit needs a state at its end: keys and values after the last one are of no use.
            loadable = min(loadable, kept.checkpoint_below(loadable, unit))
        else:
            attention += _attention_blocks(prompt_tokens // size, size, spec, full)
    blocks, pool = attention + states, found.cpu_blocks
    requests = None if pool is None or not blocks else pool // blocks
    return StoredPrompt(prompt_tokens, attention, states, loadable, requests)


def _full_attention_block(specs: list[CacheSpec], sizes: list[int]) -> int | None:
    """Return the offloaded block of full attention, where all such groups agree."""
    pairs = zip(specs, sizes, strict=True)
    found = {size for spec, size in pairs if not spec.is_mamba and spec.window_tokens is None}
    return found.pop() if len(found) == 1 else None


def _attention_blocks(blocks: int, size: int, spec: CacheSpec, full: int | None) -> int:
    """Return the blocks without those of a window that no hit can reach."""
    # A hit ends on a block of full attention, so of each such segment a window reaches only the
    # tail: window 8, blocks of 4, full attention 16 store the last two of every four.
    if spec.window_tokens is None or full is None or full <= size:
        return blocks
    segment, tail = full // size, cdiv(spec.window_tokens, size)
    if tail >= segment:
        return blocks
    whole, rest = divmod(blocks, segment)
    return whole * tail + max(0, rest - (segment - tail))


def _multiples(part: range, size: int) -> int:
    """Return how many members of an ascending range are multiples of `size`."""
    period = lcm(part.step, size)
    firsts = part[: period // part.step]
    first = next((position for position in firsts if position % size == 0), None)
    return 0 if first is None else (part[-1] - first) // period + 1
