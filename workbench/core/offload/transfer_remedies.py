"""Changes of one or both sides of a transfer that were tried, and with which the sides fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.core.offload.transfer import transfer
from workbench.core.plan import Plan
from workbench.core.remedies import ENGINE
from workbench.core.resolve import resolve
from workbench.core.trace import show

PREFILL, DECODE, BOTH = "prefill", "decode", "both sides"


@dataclass(frozen=True, slots=True)
class SideRemedy:
    """A change of `side` ("prefill", "decode" or "both sides") after which the sides fit."""

    side: str
    changes: Mapping[str, Any]
    prefill: Plan
    decode: Plan

    def __str__(self) -> str:
        words = ", ".join(
            f"{name} = {ENGINE if value is None else show(value)}"
            for name, value in self.changes.items()
        )
        return (
            f"{self.side}: {words} (blocks of {self.prefill.block_size:,} and "
            f"{self.decode.block_size:,} tokens)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {
            "side": self.side,
            "changes": dict(self.changes),
            "prefill_block_size": self.prefill.block_size,
            "decode_block_size": self.decode.block_size,
        }


def transfer_remedies(prefill: Plan, decode: Plan, limit: int = 3) -> tuple[SideRemedy, ...]:
    """Return the changes that pass the handshake without a new error on a side, simplest first.

    Empty when the sides fit already. Errors: ValueError when a side has no kernel block.
    """
    if transfer(prefill, decode).is_legal:
        return ()
    before = {error.code for plan in (prefill, decode) for error in plan.errors}
    found: list[SideRemedy] = []
    for side, changes in _candidates(prefill, decode):
        if any(remedy.changes.items() <= changes.items() for remedy in found):
            continue  # a part of it is enough
        there = _changed(prefill, changes) if side in {PREFILL, BOTH} else prefill
        here = _changed(decode, changes) if side in {DECODE, BOTH} else decode
        if there is None or here is None:
            continue
        if {error.code for plan in (there, here) for error in plan.errors} - before:
            continue
        if there.kernel_block_size and here.kernel_block_size and transfer(there, here).is_legal:
            found.append(SideRemedy(side, changes, there, here))
        if len(found) == limit:
            break
    return tuple(found)


def _candidates(prefill: Plan, decode: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield equal versions and dtypes, then equal blocks by `--block-size`, then equal ranks."""
    fixed: dict[str, Any] = {}
    if prefill.settings.rules != decode.settings.rules:
        fixed = {"rules": prefill.settings.rules}
        yield DECODE, fixed
    if prefill.kv_cache_dtype != decode.kv_cache_dtype:
        fixed = {**fixed, "kv_cache_dtype": prefill.settings.kv_cache_dtype}
        yield DECODE, fixed
    sizes = {PREFILL: prefill.block_size, DECODE: decode.block_size}
    smaller = min(sizes, key=lambda side: sizes[side])
    if not fixed:
        yield smaller, {"block_size": max(sizes.values())}
    yield BOTH, {**fixed, "block_size": max(sizes.values())}
    ranks = prefill.settings.tensor_parallel
    if ranks != decode.settings.tensor_parallel:
        yield DECODE, {**fixed, "tensor_parallel": ranks}
    if prefill.enable_prefix_caching or decode.enable_prefix_caching:
        yield BOTH, {**fixed, "enable_prefix_caching": False, "mamba_cache_mode": None}


def _changed(plan: Plan, changes: Mapping[str, Any]) -> Plan | None:
    try:
        return resolve(plan.model, replace(plan.settings, **changes))
    except WorkbenchError:
        return None
