"""The result of a block-table step in words and tables: device, bytes moved, verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Protocol

from workbench.core.tables.rows import MANAGER_BLOCKS
from workbench.core.tables.step import TableStep
from workbench.views.html import document, table
from workbench.views.units import bytes_text

MAX_LINES = 5
"""Tokens shown for each kind of place."""
SAMPLE_POOL = "a sample pool, because the cache memory of this plan is unknown"


class LandingView(Protocol):
    """Where one token of a mistake landed; see `workbench.kernels.block_table.landings.Landing`."""

    @property
    def group(self) -> int:
        """Index of the group."""

    @property
    def request(self) -> int:
        """Request it belongs to."""

    @property
    def position(self) -> int:
        """Its place in the request."""

    @property
    def slot(self) -> int:
        """Slot where it belongs."""

    @property
    def wrong_slot(self) -> int:
        """Slot where it went, negative where it has no slot."""

    @property
    def owner(self) -> tuple[int, int] | None:
        """(request, group) whose block it hit."""

    @property
    def hits_other(self) -> bool:
        """True if that is another request's or another group's block."""

    @property
    def place(self) -> str:
        """Description of where the wrong slot is."""


class DamageView(Protocol):
    """The damage of a mistake; see `workbench.kernels.block_table.landings.Damage`."""

    @property
    def title(self) -> str:
        """Name of the mistake."""

    @property
    def mistake(self) -> str:
        """Wrong line of code."""

    @property
    def landings(self) -> tuple[LandingView, ...]:
        """Every token."""

    @property
    def harmed(self) -> tuple[LandingView, ...]:
        """Tokens that are not where they belong."""

    @property
    def hits_others(self) -> tuple[LandingView, ...]:
        """Tokens in a block of another request or group."""

    @property
    def out_of_bounds(self) -> int:
        """Number of slots, or table entries that lead to them, out of a tensor's bounds."""

    @property
    def entries_past_tables(self) -> int:
        """Entries of block tables that are read or written past a tensor's end."""

    @property
    def num_blocks(self) -> int:
        """Blocks of the pool."""

    @property
    def is_sample_pool(self) -> bool:
        """True if the plan does not know its number of blocks."""


def step_html(step: TableStep) -> str:
    """Return the step's place, verdict and counts, and a row for every group."""
    rows = [
        (
            escape(group.name),
            f"{group.block_size:,}",
            f"{group.block_size // group.attention_ratio:,}",
            str(group.attention_ratio),
            escape(group.source_holds),
            escape(group.table_holds),
            str(max(map(len, group.table), default=0)),
        )
        for group in step.groups
    ]
    header = (
        "group",
        "block size",
        "kernel block",
        "ratio",
        "source rows hold",
        "the table holds",
        "longest row",
    )
    return document(
        f"<p><b>{escape(step.title)}</b>: {len(step.rows)} requests, {step.num_tokens:,} new "
        f"tokens, {step.free_blocks:,} blocks free{_of_sample(step)}. {verdict(step)}</p>"
        f"<p>{escape(place(step))}</p>",
        table(header, rows),
        f'<p class="wb-faint">{escape(note)}</p>' if (note := _split_later(step)) else "",
    )


def _of_sample(step: TableStep) -> str:
    return f" of {SAMPLE_POOL}" if step.is_sample_pool else ""


def _split_later(step: TableStep) -> str:
    """Explain where kernel blocks come from when the tables hold none (0.33)."""
    split = [group for group in step.groups if group.table_holds == MANAGER_BLOCKS]
    if not split:
        return ""
    return (
        "The tables hold the ids that were handed out. Each attention group makes kernel blocks of "
        "them when it builds its metadata: block b becomes b x ratio, b x ratio + 1, ..."
    )


def verdict(step: TableStep) -> str:
    """Return whether every entry agrees with the plain-Python oracle."""
    if step.mismatch is None:
        return "✓ agrees with the plain-Python model in every entry."
    return f"<b>✕ differs from the plain-Python model: {escape(step.mismatch)}</b>"


def place(step: TableStep) -> str:
    """Return where it ran and what it moved; a time only from a GPU."""
    compiled = "" if step.target is None else f", compiled for {step.target}"
    where = f"{step.path} path, {step.mode} on {step.device}{compiled}."
    if step.counted is not None:
        counted = step.counted
        return (
            f"{where} Counted: {counted.launches} launches of {counted.programs:,} programs, "
            f"{counted.loads:,} loads and {counted.stores:,} stores, "
            f"{bytes_text(counted.bytes_moved)}. The interpreter gives no meaningful time."
        )
    if step.gpu_us is not None:
        return f"{where} {step.gpu_us:.1f} us on the GPU, median."
    return f"{where} Not timed."


def damage_html(damage: DamageView) -> str:
    """Return what a mistake does: how many tokens land where, and some of them one by one."""
    rows = [
        (
            str(landing.group),
            str(landing.request),
            f"{landing.position:,}",
            f"{landing.slot:,}",
            f"{landing.wrong_slot:,}" if landing.wrong_slot >= 0 else "none",
            escape(_whose(landing)),
        )
        for landing in _sample(damage)
    ]
    total, harmed = len(damage.landings), len(damage.harmed)
    header = ("group", "request", "position", "right slot", "wrong slot", "lands in")
    return document(
        f"<p><b>{escape(damage.title)}</b>: <code>{escape(damage.mistake)}</code></p>"
        f"<p>{harmed:,} of {total:,} tokens are not in their own slot{_counts(damage)}. "
        f"{_crash(damage)} {_pool(damage)}</p>",
        table(header, rows),
        f'<p class="wb-faint">{harmed - len(rows):,} more tokens.</p>'
        if harmed > len(rows)
        else "",
    )


def _counts(damage: DamageView) -> str:
    """Return how many of the harmed tokens are in which kind of place, most first."""
    counts = Counter(str(landing.place) for landing in damage.harmed).most_common()
    return ": " * bool(counts) + "; ".join(f"{escape(name)} ({n:,})" for name, n in counts)


def _crash(damage: DamageView) -> str:
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


def _pool(damage: DamageView) -> str:
    if damage.is_sample_pool:
        return f"Pool: {damage.num_blocks:,} blocks, {SAMPLE_POOL}."
    return f"Pool: the {damage.num_blocks:,} blocks of this plan."


def _sample(damage: DamageView) -> tuple[LandingView, ...]:
    """Return a few tokens of every kind of place, those in another's block first."""
    by_place: dict[str, list[LandingView]] = {}
    for landing in sorted(damage.harmed, key=lambda landing: not landing.hits_other):
        by_place.setdefault(str(landing.place), []).append(landing)
    return tuple(landing for found in by_place.values() for landing in _spread(found))


def _spread(landings: Sequence[LandingView]) -> Sequence[LandingView]:
    """Return some landings from the first to the last."""
    return landings[:: max(1, len(landings) // MAX_LINES)][:MAX_LINES]


def _whose(landing: LandingView) -> str:
    if not landing.hits_other or landing.owner is None:
        return landing.place
    request, group = landing.owner
    return f"request {request}, group {group}"
