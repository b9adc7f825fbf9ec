"""Reports of compiled kernels as a table, in text and in HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from workbench.views.html import document, note, records
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
    """Return a table in plain text, and a line for every kernel that spills registers."""
    rows = inspection_rows(reports)
    lines = aligned([list(rows[0]), *(list(row.values()) for row in rows)])
    return "\n".join([*lines, *map(spill_text, spilling(reports))])


def inspection_html(reports: Sequence[KernelReport]) -> str:
    """Return the same as HTML."""
    remarks = (note(spill_text(report)) for report in spilling(reports))
    return document(records(inspection_rows(reports)), *remarks)


def spilling(reports: Sequence[KernelReport]) -> list[KernelReport]:
    """Return the reports of kernels that spill registers."""
    return [report for report in reports if report.spill_bytes]


def spill_text(report: KernelReport) -> str:
    """Return what the spills of a kernel mean, and what helps against them."""
    found = (
        f"! {report.kernel} for {report.target} spills: {report.spill_bytes:,} bytes of each "
        "thread do not fit into its registers and are in local memory"
    )
    accesses = sum(loop.local_accesses for loop in report.loops)
    if report.loops and not accesses:
        return f"{found}. No inner loop uses them, so they cost little time."
    where = f", which the inner loops use {accesses:,} times per iteration" if accesses else ""
    return f"{found}{where}. That is slower: use a smaller tile, or {_warps(report)}."


def _warps(report: KernelReport) -> str:
    """Return which number of warps leaves a thread more registers for its share of the tile."""
    warps, most = report.num_warps, report.registers_by_warps
    if most is not None:
        return f"fewer warps (with {warps}, a thread has at most {most} registers)"
    return f"more warps than {warps}, among which the tile is divided"


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
