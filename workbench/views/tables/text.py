"""The result of a block-table step in words and tables: device, bytes moved, verdict."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from workbench.core.tables.rows import MANAGER_BLOCKS
from workbench.core.tables.step import TableStep
from workbench.views.html import Html, code, document, join, note, records, tag
from workbench.views.units import counted

if TYPE_CHECKING:
    from workbench.kernels.block_table.landings import Damage, Landing

MAX_LINES = 5
"""Tokens shown for each kind of place."""
SAMPLE_POOL = "a sample pool, because the cache memory of this plan is unknown"


def step_html(step: TableStep) -> str:
    """Return the step's place, verdict and counts, and a row for every group."""
    groups = records(
        {
            "group": group.name,
            "block, tokens": group.block_size,
            "kernel block, tokens": group.block_size // group.attention_ratio,
            "ratio": group.attention_ratio,
            "source rows hold": group.source_holds,
            "the table holds": group.table_holds,
            "longest row": max(map(len, group.table), default=0),
        }
        for group in step.groups
    )
    split_later = any(group.table_holds == MANAGER_BLOCKS for group in step.groups)
    return document(
        tag("p", tag("b", step.title), _counts(step), verdict(step)),
        tag("p", place(step)),
        groups,
        note(SPLIT_LATER) if split_later else "",
    )


def step_text(step: TableStep) -> str:
    """Return the step's verdict, counts and place, for a terminal."""
    return f"{step.title}{_counts(step)}{_agreement(step)}\n{place(step)}"


def _counts(step: TableStep) -> str:
    sample = f" of {SAMPLE_POOL}" if step.is_sample_pool else ""
    return (
        f": {counted(len(step.rows), 'request')}, {counted(step.num_tokens, 'new token')}, "
        f"{counted(step.free_blocks, 'block')} free{sample}. "
    )


SPLIT_LATER = (
    "The tables hold the ids that were handed out. Each attention group makes kernel blocks of "
    "them when it builds its metadata: block b becomes b x ratio, b x ratio + 1, ..."
)
"""Where kernel blocks come from when the tables hold none (0.33)."""


def verdict(step: TableStep) -> Html:
    """Return whether every entry agrees with the Python reference."""
    return join(_agreement(step)) if step.agrees else tag("b", _agreement(step))


def _agreement(step: TableStep) -> str:
    if step.mismatch is None:
        return "✓ agrees with the Python reference in every entry."
    return f"✕ differs from the Python reference: {step.mismatch}"


def place(step: TableStep) -> str:
    """Return where it ran and what it moved; a time only from a GPU."""
    compiled = "" if step.target is None else f", compiled for {step.target}"
    where = f"{step.path} path, {step.mode} on {step.device}{compiled}."
    if step.counted is not None:
        return f"{where} Counted: {step.counted}. The interpreter gives no meaningful time."
    if step.gpu_us is not None:
        return f"{where} {step.gpu_us:.1f} us on the GPU, median."
    return f"{where} Not timed."


def damage_html(damage: Damage) -> str:
    """Return what a mistake does: how many tokens land where, and some of them one by one."""
    pool = f"the {damage.num_blocks:,} blocks of this plan"
    if damage.is_sample_pool:
        pool = f"{damage.num_blocks:,} blocks, {SAMPLE_POOL}"
    shown = [
        {
            "group": str(landing.group),
            "request": str(landing.request),
            "position": landing.position,
            "right slot": landing.slot,
            "wrong slot": landing.wrong_slot if landing.wrong_slot >= 0 else None,
            "lands in": _place(landing),
        }
        for landing in _sample(damage)
    ]
    places = Counter(str(landing.place) for landing in damage.harmed).most_common()
    counts = ": " * bool(places) + "; ".join(f"{name} ({n:,})" for name, n in places)
    total, harmed = len(damage.landings), len(damage.harmed)
    left = harmed - len(shown)
    needs = f"This takes {damage.needs}. " if damage.needs and not harmed else ""
    return document(
        tag("p", tag("b", damage.title), ": ", code(damage.mistake)),
        tag(
            "p",
            f"{harmed:,} of {total:,} tokens are not in their own slot{counts}. {needs}"
            f"{_crash(damage)} Pool: {pool}.",
        ),
        note(f"Counted: {counted_text(damage)}."),
        records(shown),
        note(f"{left:,} more tokens.") if left else "",
    )


def counted_text(damage: Damage) -> str:
    """Return what the total of a mistake counts: tokens of requests, once in every group."""
    tokens, every = sum(damage.tokens), sum(damage.tokens) * damage.groups
    whose = f"{counted(tokens, 'token')} of {counted(len(damage.tokens), 'request')}"
    groups = counted(damage.groups, "group")
    text = f"{whose}, in {groups}"
    if damage.groups != 1:
        text = f"{whose}, each once in every one of {groups} = {every:,}"
    dropped = every - len(damage.landings)
    return f"{text}, less {dropped:,} in blocks that no later token reads" if dropped else text


def _crash(damage: Damage) -> str:
    """Return whether the mistake is noticed on a GPU."""
    accesses = {
        "slots or table entries of tokens": damage.out_of_bounds,
        "reads and writes of block tables": damage.entries_past_tables,
    }
    found = [f"{what} ({number:,})" for what, number in accesses.items() if number]
    if not found:
        return "Every access stays within the cache and the tables, so nothing crashes."
    return (
        f"Out of bounds: {', '.join(found)}. A GPU kernel then uses memory that belongs to "
        "something else, or stops with an illegal memory access."
    )


def _sample(damage: Damage) -> list[Landing]:
    """Return a few tokens of every kind of place, first to last, those in another's block first."""
    by_place: dict[str, list[Landing]] = {}
    for landing in sorted(damage.harmed, key=lambda landing: not landing.hits_other):
        by_place.setdefault(str(landing.place), []).append(landing)
    shown = (there[:: max(1, len(there) // MAX_LINES)][:MAX_LINES] for there in by_place.values())
    return list(chain.from_iterable(shown))


def _place(landing: Landing) -> str:
    if not landing.hits_other or landing.owner is None:
        return str(landing.place)
    request, group = landing.owner
    return f"request {request}, group {group}"
