"""Reports of compiled kernels as a table, in text and in HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from workbench.views.html import document, records
from workbench.views.text import aligned

if TYPE_CHECKING:
    from workbench.kernels.inspection.loops import Loop
    from workbench.kernels.inspection.report import KernelReport


def inspection_rows(reports: Sequence[KernelReport]) -> list[dict[str, str]]:
    """Return one row per report: column -> text."""
    return [
        {
            "kernel": report.kernel,
            "target": report.target,
            "registers": str(report.registers),
            "spilled bytes": str(report.spill_bytes),
            "shared bytes": f"{report.shared_bytes:,}",
            "warps x stages": f"{report.num_warps} x {report.num_stages}",
            "programs per SM": str(report.programs_per_sm or "-"),
            "matrix": ", ".join(report.matrix_instructions) or "none",
            "loops": "; ".join(_loop(report, loop) for loop in report.loops) or "-",
            "loads": _accesses(report.loads),
            "stores": _accesses(report.stores),
            "64-bit divisions": str(report.wide_divisions),
            "instructions": f"{report.instructions:,}",
        }
        for report in reports
    ]


def inspection_text(reports: Sequence[KernelReport]) -> str:
    """Return a table in plain text."""
    rows = inspection_rows(reports)
    return "\n".join(aligned([list(rows[0]), *(list(row.values()) for row in rows)]))


def inspection_html(reports: Sequence[KernelReport]) -> str:
    """Return the same as HTML."""
    return document(records(inspection_rows(reports)))


def _loop(report: KernelReport, loop: Loop) -> str:
    """Return a text like "0.38 per score, 2 tiles in flight, LDGSTS.128 x 8"."""
    copies = ", ".join(f"{name} x {count}" for name, count in loop.copies.items())
    parts = [
        f"{loop.tiles_in_flight:g} tile{'s' * (loop.tiles_in_flight != 1)} in flight",
        copies or "no copies",
    ]
    if report.tile:
        parts.insert(0, f"{report.per_score(loop):.2f} per score")
    return ", ".join(parts)


def _accesses(accesses: Mapping[int, int]) -> str:
    """Return a text like "4 x 16 B, 10 x 4 B": widest first."""
    sizes = sorted(accesses, reverse=True)
    return ", ".join(f"{accesses[size]} x {size} B" for size in sizes) or "none"
