"""Align mode of 0.33: few states are kept, and a state may be kept inside a step.

Source: `Scheduler._mamba_block_aligned_split`, `replay_boundaries`,
`MambaManager.reachable_block_mask` and `is_mamba_prefill_checkpoint_valid`, 0.33, with
`prefix_cache_retention_interval` as it is (0) and hashes of whole blocks.
"""

from dataclasses import dataclass

from workbench.core.arithmetic import cdiv

Parts = tuple[range, ...]


@dataclass(frozen=True, eq=False)
class PrefillRules:
    """What differs between versions when a prompt is cut into steps and looked up again."""

    keeps_few_states: bool = False
    """Align mode keeps the state of a resent prompt and of a shared prefix's end, and a budget
    below the block only makes steps smaller; else it keeps every step's end that is a block's end,
    and such a budget stops the request."""
    hashes_look_ahead: bool = False
    """With drafts the hash of a block covers the token after it, and nothing is dropped; else
    attention drops the last block that it matches."""


@dataclass(frozen=True, slots=True)
class Sparse:
    """What the steps depend on in addition to block and budget.

    inside: the backend exports a state inside its last step (Mamba-2; gated delta nets whose
    prefill FlashInfer runs). junction_tokens: where the request's shared prefix ends, as far as
    attention knows it; 0 without one. lookahead_tokens: after a block, which its hash covers too.
    """

    inside: bool = False
    junction_tokens: int = 0
    lookahead_tokens: int = 0


def replay_position(prompt_tokens: int, block_size: int, lookahead_tokens: int = 0) -> int:
    """Return where a resent prompt goes on: the last full block with a token after it."""
    # The last token is always computed again; with a lookahead a block's hash covers more of them.
    return max(0, prompt_tokens - max(1, lookahead_tokens)) // block_size * block_size


def sparse_steps(
    prompt: int, budget: int, block: int, cached: int, how: Sparse
) -> tuple[Parts, Parts]:
    """Return (step ends, kept positions) in tokens, as ascending ranges; `cached` fills blocks."""
    # A prompt keeps the state from which a resent one goes on, and the state where its prefix ends
    # that earlier requests had, if only attention remembers them (replay_boundaries).
    replay = replay_position(prompt, block, how.lookahead_tokens)
    junction = how.junction_tokens // block * block
    marks = [mark for mark in sorted({junction, replay}) if cached < mark < prompt]
    parts: list[range] = []
    position = cached
    for mark in marks:
        ends = _to(position, mark, budget, block)
        final = _final_step(position, ends, prompt, budget)
        # The backend can export the state at `mark` inside the last step, so no step ends there
        # (is_mamba_prefill_checkpoint_valid).
        if how.inside and mark == replay != junction and final % block == 0 and final < mark:
            parts += [part[: max(0, (final - part.start) // part.step + 1)] for part in ends]
            position = final
            break
        parts += ends
        position = mark
    parts += even_steps(position, prompt, budget)
    kept = tuple(range(mark, mark + 1) for mark in marks)
    return tuple(part for part in parts if part), kept


def _to(start: int, mark: int, budget: int, block: int) -> list[range]:
    """Return the steps from one block's end to another: whole blocks, or parts of each."""
    # A budget of a block or more still makes every step end at the end of one.
    if budget >= block:
        stride = budget // block * block
        return [range(start + stride, mark, stride), range(mark, mark + 1)]
    # A budget below the block no longer stops the request: its steps meet every block's end.
    firsts = range(start, mark, block)
    return [part for first in firsts for part in even_steps(first, first + block, budget)]


def _final_step(start: int, ends: list[range], prompt: int, budget: int) -> int:
    """Return the first position, `start` or a step's end, one step before the prompt's end."""
    needed = prompt - budget
    if start >= needed:
        return start
    for part in ends:
        reaching = part[max(0, cdiv(needed - part.start, part.step)) :]
        if reaching:
            return reaching[0]
    return prompt


def even_steps(start: int, end: int, budget: int) -> Parts:
    """Return the ends of steps of `budget` tokens, the last at `end`."""
    return (range(start + budget, end, budget), range(end, end + 1)) if start < end else ()
