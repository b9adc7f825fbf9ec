"""What needs no GPU and no clock: the compiler's figures, and counts in the interpreter."""

from collections.abc import Sequence

from workbench.kernels.bench.peers import Peer
from workbench.kernels.bench.rows import CountRow, GateRow
from workbench.kernels.block_table.traffic import counted_traffic
from workbench.kernels.inspection import INSPECTED_MODULES, inspect_kernels

TARGETS = ("sm_90", "gfx942")


def gate_rows(targets: Sequence[str] = TARGETS) -> list[GateRow]:
    """Compile every shipped kernel for every target. InspectionError: the compiler's message."""
    reports = [
        report
        for module in INSPECTED_MODULES["block-table"]
        for report in inspect_kernels(module, targets)
    ]
    return [
        GateRow(
            report.kernel,
            report.target,
            report.registers,
            report.spill_bytes,
            report.shared_bytes,
            report.widest_load_bytes,
            report.widest_store_bytes,
            report.wide_divisions,
            report.instructions,
        )
        for report in reports
    ]


def counted_step(workload: str, name: str, peer: Peer) -> CountRow:
    """Count the accesses of one whole step of a filled peer; interpreter only."""
    peer.rewind()
    with counted_traffic() as traffic:
        peer.step()
    return CountRow(
        workload,
        name,
        traffic.launches,
        traffic.programs,
        traffic.loads,
        traffic.stores,
        traffic.bytes,
    )
