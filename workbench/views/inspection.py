"""Reports of compiled kernels as a table, in text and in HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Protocol

from workbench.views.html import document, table

HEADER = (
    "kernel",
    "target",
    "registers",
    "spilled bytes",
    "shared bytes",
    "loads",
    "stores",
    "64-bit divisions",
    "instructions",
)


class Report(Protocol):
    """The compiler's result for one kernel; see `workbench.kernels.inspection.KernelReport`."""

    @property
    def kernel(self) -> str:
        """Name of the specialisation."""

    @property
    def target(self) -> str:
        """Name of the target."""

    @property
    def registers(self) -> int:
        """Registers per thread."""

    @property
    def spill_bytes(self) -> int:
        """Spilled bytes per thread."""

    @property
    def shared_bytes(self) -> int:
        """Shared memory per program, in bytes."""

    @property
    def loads(self) -> Mapping[int, int]:
        """Width of a load in bytes -> number of instructions."""

    @property
    def stores(self) -> Mapping[int, int]:
        """Width of a store in bytes -> number of instructions."""

    @property
    def wide_divisions(self) -> int:
        """Number of 64-bit divisions."""

    @property
    def instructions(self) -> int:
        """Number of instruction lines."""


def inspection_rows(reports: Sequence[Report]) -> list[tuple[str, ...]]:
    """Return one row per report, in the order of HEADER."""
    return [
        (
            report.kernel,
            report.target,
            str(report.registers),
            str(report.spill_bytes),
            f"{report.shared_bytes:,}",
            _accesses(report.loads),
            _accesses(report.stores),
            str(report.wide_divisions),
            f"{report.instructions:,}",
        )
        for report in reports
    ]


def inspection_text(reports: Sequence[Report]) -> str:
    """Return a table in plain text."""
    rows = [HEADER, *inspection_rows(reports)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def inspection_html(reports: Sequence[Report]) -> str:
    """Return the same as HTML."""
    rows = [tuple(escape(cell) for cell in row) for row in inspection_rows(reports)]
    return document(table(HEADER, rows))


def _accesses(accesses: Mapping[int, int]) -> str:
    """Return a text like "4 x 16 B, 10 x 4 B": widest first."""
    sizes = sorted(accesses, reverse=True)
    return ", ".join(f"{accesses[size]} x {size} B" for size in sizes) or "none"
