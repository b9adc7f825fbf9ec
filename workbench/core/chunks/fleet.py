"""Every engine as prefill with every other as decode: which pairs exchange their caches.

Source: the checks of the NIXL connector, see `offload.transfer`. What a pair has in common is
listed with both sides' numbers, whether vLLM compares it or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from workbench.core.chunks.member import Member
from workbench.core.kv_connectors import layout_for_transfer
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.packed import named_layout
from workbench.core.offload.remedies import SideRemedy, transfer_remedies
from workbench.core.offload.transfer import Transfer, transfer
from workbench.core.plan import Plan

YES, NO, PART = "equal", "unequal", "divisible"


class Compared(NamedTuple):
    """One property of both sides of a pair, as text, and how the two relate."""

    what: str
    prefill: str
    decode: str
    relation: str


@dataclass(frozen=True, slots=True)
class Pair:
    """One engine that prefills, and another that decodes."""

    prefill: Member
    decode: Member
    transfer: Transfer | None = field(repr=False)
    """None for two models, and where a side has no kernel block."""
    reason: str
    """In one sentence: why the pair works, or what vLLM refuses."""

    @property
    def is_legal(self) -> bool:
        """Return whether decode may fetch from prefill."""
        return self.transfer is not None and self.transfer.is_legal

    @property
    def compared(self) -> tuple[Compared, ...]:
        """Return the properties of both caches side by side."""
        return tuple(_compared(self.prefill.plan, self.decode.plan))

    def remedies(self) -> tuple[SideRemedy, ...]:
        """Return tried changes after which the pair works, simplest first."""
        if self.transfer is None:
            return ()
        return transfer_remedies(self.prefill.plan, self.decode.plan)


def pairs_of(members: Sequence[Member]) -> tuple[Pair, ...]:
    """Return every ordered pair of two engines."""
    return tuple(_pair(one, other) for one in members for other in members if one is not other)


def _pair(prefill: Member, decode: Member) -> Pair:
    there, here = prefill.plan, decode.plan
    if there.model.name != here.model.name:
        return Pair(prefill, decode, None, "two models never exchange a cache")
    for plan, label in ((there, prefill.label), (here, decode.label)):
        if not plan.kernel_block_size or plan.cache is None:
            return Pair(prefill, decode, None, f"{label} has no kernel block or no cache")
    found = transfer(there, here)
    problem = next(iter(found.problems), None)
    return Pair(prefill, decode, found, found.verdict if problem is None else problem.message)


def _compared(there: Plan, here: Plan) -> Iterator[Compared]:
    for what, read in READ.items():
        first, second = read(there), read(here)
        yield Compared(what, _text(first), _text(second), _relation(first, second))


def _relation(first: object, second: object) -> str:
    if first == second:
        return YES
    if isinstance(first, int) and isinstance(second, int) and first and second:
        return PART if not max(first, second) % min(first, second) else NO
    return NO


def _text(value: object) -> str:
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _token_bytes(plan: Plan) -> int | None:
    """Return the bytes of one token in one attention layer, over all KV heads of the model."""
    attention, on_rank = plan.model.attention, plan.attention_bytes_per_token
    if attention is None or on_rank is None:
        return on_rank
    heads = attention.kv_heads_per_rank(plan.settings.tensor_parallel)
    return on_rank if attention.use_mla else on_rank * attention.num_kv_heads // heads


def _layout(plan: Plan) -> str | None:
    """Return the order of a cache for NIXL; None where no setting decides it."""
    if not plan.rules.layouts.one_view:
        return plan.settings.kv_cache_layout
    try:
        return named_layout(plan, None, layout_for_transfer(plan))[1].name
    except LayoutError:
        return None


READ: dict[str, Callable[[Plan], object]] = {
    "tensor parallel": lambda plan: plan.settings.tensor_parallel,
    "pipeline parallel": lambda plan: plan.settings.pipeline_parallel,
    "decode context parallel": lambda plan: plan.settings.decode_context_parallel,
    "KV-cache dtype": lambda plan: plan.kv_cache_dtype,
    "bytes of a token, all heads": _token_bytes,
    "block": lambda plan: plan.block_size,
    "kernel block": lambda plan: plan.kernel_block_size,
    "layout": _layout,
    "state dtypes": lambda plan: ", ".join(plan.mamba_state_dtypes) or None,
    "state block": lambda plan: plan.mamba_block_size if plan.model.ssm_layers else None,
}
"""What of a cache is compared, and how it is read from a plan."""
