"""A paged-attention result as text: tables that are read at a glance."""

from workbench.kernels.bench.flex_peers import FAST
from workbench.kernels.bench.flex_rows import FlexResult
from workbench.kernels.bench.report import Table, machine_lines, ratio_grid, table

_TITLES = {
    ("attention", "gpu cold"): "GPU time of attention, graph replay, cold L2",
    ("attention", "gpu hot"): "GPU time of attention, graph replay, hot L2",
    ("metadata", "wall"): "Wall time of the batch's metadata: Python call to synchronize",
}


def flex_report(result: FlexResult) -> str:
    """Format everything that was measured, then what was not."""
    sections = (_machine, _verdicts, _steps, _rates, _metadata, _bits, _gate)
    parts = [section(result) for section in sections]
    parts.append("\n".join(f"Open: {line}" for line in result.open_questions))
    return "\n\n".join(filter(None, parts))


def _machine(result: FlexResult) -> str:
    lines = machine_lines(result.machine, result.rounds)
    if result.copy_bytes_per_s is not None and result.matmul_flop_per_s is not None:
        lines.append(
            f"copy bandwidth {result.copy_bytes_per_s / 1e12:.2f} TB/s; matmul "
            f"{result.matmul_flop_per_s / 1e12:.0f} TFLOP/s; an empty kernel in a graph "
            f"{result.launch_us:.2f} us"
        )
    return "\n".join(lines)


def _verdicts(result: FlexResult) -> str:
    if not result.verdicts:
        return ""
    wrong = [v for v in result.verdicts if not v.ok]
    right = len(result.verdicts) - len(wrong)
    lines = [f"Correct against float64: {right} of {len(result.verdicts)}"]
    lines += [f"  WRONG, not timed: {v.workload} {v.peer}: {v.detail}" for v in wrong]
    warned: dict[tuple[str, str], list[str]] = {}
    for v in result.verdicts:
        if v.ok and v.detail:
            warned.setdefault((v.peer, v.detail), []).append(v.workload)
    lines += [f"  {peer}: {detail} ({', '.join(c)})" for (peer, detail), c in warned.items()]
    return "\n".join(lines)


def _steps(result: FlexResult) -> str:
    tables = []
    for (piece, clock), title in _TITLES.items():
        rows = [r for r in result.steps if (r.piece, r.clock) == (piece, clock)]
        if rows:
            tables.append(ratio_grid(title, rows, FAST))
    tables += [
        f"Score, {s.clock}: {s.peer} / fast = {s.ratio:.2f}x over {s.workloads} cases"
        for s in result.scores
    ]
    return "\n\n".join(tables)


def _rates(result: FlexResult) -> str:
    rows: Table = [["", "us", "TFLOP/s", "of matmul", "TB/s", "of copy"]]
    rows += [
        [
            f"{r.case} {r.peer}",
            f"{r.us:,.1f}",
            f"{r.flop_per_s / 1e12:,.1f}",
            f"{r.of_matmul:.0%}",
            f"{r.bytes / r.us / 1e6:.2f}",
            f"{r.of_copy:.0%}",
        ]
        for r in result.rates
    ]
    return table("Visible work against this run's own limits", rows) if result.rates else ""


def _across(title: str, found: dict[tuple[str, str], str]) -> str:
    """Format a table with one row per case and one column per peer."""
    peers = list(dict.fromkeys(peer for _, peer in found))
    cases = list(dict.fromkeys(case for case, _ in found))
    body = [[case, *(found.get((case, peer), "-") for peer in peers)] for case in cases]
    return table(title, [["", *peers], *body]) if found else ""


def _metadata(result: FlexResult) -> str:
    found = {}
    for row in result.metadata:
        grows = row.larger_pool_bytes is not None and row.larger_pool_bytes > row.bytes
        mark = f" -> {row.larger_pool_bytes / 1e3:,.1f}" if grows and row.larger_pool_bytes else ""
        found[row.case, row.peer] = f"{row.bytes / 1e3:,.1f}{mark}"
    return _across("Metadata and scratch in KB; an arrow: with a pool of twice the blocks", found)


def _bits(result: FlexResult) -> str:
    found = {
        (f"{row.case} {row.way}", row.peer): f"{row.differing:,} of {row.elements:,}"
        + ("" if row.promised else " (not promised)")
        for row in result.bits
    }
    return _across("Elements with other bits: a request alone, a chunk by itself", found)


def _gate(result: FlexResult) -> str:
    rows: Table = [["", "target", "registers", "spill B", "shared KB", "of KB", "matrix"]]
    rows += [
        [
            r.kernel,
            r.target,
            str(r.registers),
            str(r.spill_bytes),
            f"{r.shared_bytes / 1024:.0f}",
            f"{r.shared_limit_bytes / 1024:.0f}",
            ", ".join(r.matrix_instructions) or "-",
        ]
        for r in result.gate
    ]
    return table("What the compiler made, without a GPU", rows) if result.gate else ""
