"""The few steps of the trace that make a block size, in a sentence each."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from workbench.core.plan import Plan
from workbench.core.trace import Step
from workbench.views.pages.parts import CONV, KV, PADDING, RECURRENT
from workbench.views.rows import ENTRY_BYTES
from workbench.views.token_bytes import keeps_entries, token_bytes
from workbench.views.units import bytes_text, percent_text, tokens_text

Operands = Mapping[str, Any]


class StepInWords(NamedTuple):
    """How a step is shown: its heading, the parts of the picture, and its sentence."""

    title: str
    parts: tuple[str, ...]
    text: Callable[[Operands, Any], str]


class NumberStep(NamedTuple):
    """One step of a plan. number: of the step in the trace, from 1."""

    title: str
    text: str
    parts: tuple[str, ...]
    number: int


def short_number(number: float) -> str:
    """Return a number with two decimals, or with those that tell it from an integer."""
    short = round(number, 2)
    return f"{number if short.is_integer() else short:,.10g}"


STATE = (CONV, RECURRENT)
ALIGNED = {
    "mamba_page_size_bytes": StepInWords("state", STATE, lambda _o, size: bytes_text(size)),
    "attention_bytes_per_token": StepInWords("one token", (KV,), lambda _o, size: bytes_text(size)),
    "tokens_needed": StepInWords(
        "divide",
        (*STATE, KV),
        lambda o, tokens: (
            f"{o['mamba_page_size_bytes']:,} / {o['attention_bytes_per_token']:,} = "
            f"{short_number(tokens)}"
        ),
    ),
    "aligned_block_size": StepInWords(
        "round up", (KV,), lambda o, tokens: f"to a multiple of {o['A']:,}: {tokens_text(tokens)}"
    ),
}
"""Name of a rule -> its words, where the block grew until its page holds a state."""
PLAIN = {
    "mamba_page_size_bytes": ALIGNED["mamba_page_size_bytes"],
    "attention_bytes_per_token": ALIGNED["attention_bytes_per_token"],
    "preferred_block_size": StepInWords("preferred", (KV,), lambda _o, size: tokens_text(size)),
    "block_size": StepInWords("block size", (KV,), lambda _o, size: tokens_text(size)),
    "kernel_block_size": StepInWords("kernel block", (KV,), lambda _o, size: tokens_text(size)),
}
"""The same for other plans."""


def number_steps(plan: Plan) -> tuple[NumberStep, ...]:
    """Return at most five steps that lead to the block size; none without a trace."""
    taken = {step.rule.name: (number, step) for number, step in enumerate(plan.steps, 1)}
    is_aligned = "tokens_needed" in taken
    shown = [
        _in_words(plan, words, *taken[name])
        for name, words in (ALIGNED if is_aligned else PLAIN).items()
        if name in taken and taken[name][1].result is not None
    ]
    return tuple([*shown, *_last(plan, taken)] if is_aligned else shown)


def _in_words(plan: Plan, words: StepInWords, number: int, step: Step) -> NumberStep:
    title, result = words.title, step.result
    if step.rule.name == ENTRY_BYTES:
        title, result = "one entry" if keeps_entries(plan) else title, token_bytes(plan)
    return NumberStep(title, words.text(step.operands, result), words.parts, number)


def _last(plan: Plan, taken: Mapping[str, tuple[int, Step]]) -> tuple[NumberStep, ...]:
    """Return how the pages became equal; the block stays where an explicit one is larger."""
    for name in ("equal_pages", "mamba_page_size_padded", "block_size"):
        if name in taken:
            size = bytes_text(plan.final_mamba_page_size_bytes)
            text = f"{size}, padding {percent_text(plan.padding_percent)}"
            return (NumberStep("equal pages", text, (PADDING, KV), taken[name][0]),)
    return ()
