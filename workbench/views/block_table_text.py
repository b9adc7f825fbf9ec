"""What a block-table step did, in words and tables: where it ran, what it moved, whether right."""

from __future__ import annotations

from html import escape
from typing import Protocol

from workbench.core.tables.rows import MANAGER_BLOCKS
from workbench.core.tables.step import TableStep
from workbench.views.html import document, table
from workbench.views.units import bytes_text

MAX_LINES = 5


class Landed(Protocol):
    """One token of a mistake; see `workbench.kernels.block_table.damage.Landing`."""

    @property
    def group(self) -> int:
        """Index of the group."""

    @property
    def request(self) -> int:
        """The request it belongs to."""

    @property
    def position(self) -> int:
        """Its place in the request."""

    @property
    def slot(self) -> int:
        """Where it belongs."""

    @property
    def wrong_slot(self) -> int:
        """Where it went, -1 for nowhere."""

    @property
    def owner(self) -> tuple[int, int] | None:
        """(request, group) whose block it hit."""

    @property
    def hits_other(self) -> bool:
        """Whether that is another request's or another group's block."""

    @property
    def behind_pool(self) -> bool:
        """Whether it went past the last block."""


class Harm(Protocol):
    """What a mistake did; see `workbench.kernels.block_table.damage.Damage`."""

    @property
    def title(self) -> str:
        """Name of the mistake."""

    @property
    def mistake(self) -> str:
        """The wrong line."""

    @property
    def landings(self) -> tuple[Landed, ...]:
        """Every token."""

    @property
    def harmed(self) -> tuple[Landed, ...]:
        """Those that are not where they belong."""

    @property
    def hits_others(self) -> tuple[Landed, ...]:
        """Those in somebody else's block."""


def step_html(step: TableStep) -> str:
    """The step's place, verdict and counts, and a row for every group."""
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
        f"tokens, {step.free_blocks:,} blocks free. {verdict(step)}</p>"
        f"<p>{escape(place(step))}</p>",
        table(header, rows),
        f'<p class="wb-faint">{escape(note)}</p>' if (note := _split_later(step)) else "",
    )


def _split_later(step: TableStep) -> str:
    """Where kernel blocks come from when the tables hold none (0.33)."""
    split = [group for group in step.groups if group.table_holds == MANAGER_BLOCKS]
    if not split:
        return ""
    return (
        "The tables hold the ids that were handed out. Each attention group makes kernel blocks of "
        "them when it builds its metadata: block b becomes b x ratio, b x ratio + 1, ..."
    )


def verdict(step: TableStep) -> str:
    """Whether every entry agrees with the plain-Python oracle."""
    if step.mismatch is None:
        return "✓ agrees with the plain-Python model in every entry."
    return f"<b>✕ differs from the plain-Python model: {escape(step.mismatch)}</b>"


def place(step: TableStep) -> str:
    """Where it ran and what it moved; a time only from a GPU."""
    compiled = "" if step.target is None else f", compiled for {step.target}"
    where = f"{step.path} path, {step.mode} on {step.device}{compiled}."
    if step.counted is not None:
        counted = step.counted
        return (
            f"{where} Counted: {counted.launches} launches of {counted.programs:,} programs, "
            f"{counted.loads:,} loads and {counted.stores:,} stores, "
            f"{bytes_text(counted.bytes_moved)}. The interpreter tells no time."
        )
    if step.gpu_us is not None:
        return f"{where} {step.gpu_us:.1f} us on the GPU, median."
    return f"{where} Not timed."


def damage_html(harm: Harm) -> str:
    """What a mistake does: how many tokens, and the first of them one by one."""
    rows = [
        (
            str(landing.group),
            str(landing.request),
            f"{landing.position:,}",
            f"{landing.slot:,}",
            f"{landing.wrong_slot:,}",
            escape(_whose(landing)),
        )
        for landing in _sample(harm)
    ]
    total, harmed, others = len(harm.landings), len(harm.harmed), len(harm.hits_others)
    header = ("group", "request", "position", "right slot", "wrong slot", "lands in")
    return document(
        f"<p><b>{escape(harm.title)}</b>: <code>{escape(harm.mistake)}</code></p>"
        f"<p>{harmed:,} of {total:,} tokens are not in their own slot; {others:,} of them lie in "
        "somebody else's block. Nothing crashes.</p>",
        table(header, rows),
        f'<p class="wb-faint">{harmed - len(rows):,} more tokens.</p>'
        if harmed > len(rows)
        else "",
    )


def _sample(harm: Harm) -> tuple[Landed, ...]:
    """A few tokens: those in somebody else's block first, then others that are lost."""
    lost = tuple(landing for landing in harm.harmed if not landing.hits_other)
    return (*_spread(harm.hits_others), *_spread(lost))


def _spread(landings: tuple[Landed, ...]) -> tuple[Landed, ...]:
    """From the first to the last."""
    return landings[:: max(1, len(landings) // MAX_LINES)][:MAX_LINES]


def _whose(landing: Landed) -> str:
    if landing.behind_pool:
        return "memory behind the pool"
    if landing.owner is None:
        return "nobody's block"
    request, group = landing.owner
    if (request, group) == (landing.request, landing.group):
        return "its own request, another place"
    return f"request {request}, group {group}"
