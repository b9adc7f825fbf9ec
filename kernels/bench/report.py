"""A result as text: tables that are read at a glance."""

from collections.abc import Callable, Sequence

from workbench.kernels.bench.machine import Machine
from workbench.kernels.bench.ratios import Spread
from workbench.kernels.bench.rows import Result, StepRow

Table = list[Sequence[str]]


def report(result: Result) -> str:
    """Format everything that was measured, then what was not."""
    sections = (_machine, _verdicts, _steps, _floors, _host, _expansions, _gate, _counts)
    parts = [section(result) for section in sections]
    parts.append("\n".join(f"Open: {line}" for line in result.open_questions))
    return "\n\n".join(filter(None, parts))


def table(title: str, rows: Table) -> str:
    """Format a title and aligned columns; the first is left-aligned, the others right-aligned."""
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if c == 0 else cell.rjust(width)
            for c, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([title, *lines])


def machine_lines(m: Machine, rounds: int) -> list[str]:
    """Describe the machine of a run, and how to read its ratios."""
    driver = f", driver {m.driver}" if m.driver else ""
    return [
        f"{m.device}{driver}; {m.cpu}",
        f"python {m.python}, torch {m.torch}, triton {m.triton}, numpy {m.numpy}",
        f"kernels {m.source_hash}; {m.date}",
        f"{rounds} rounds A B B A: median (smallest-largest) of the ratios within a round;",
        "above 1x the fast path is faster; = is inside the noise of this run",
    ]


def _machine(result: Result) -> str:
    lines = machine_lines(result.machine, result.rounds)
    if result.copy_bytes_per_s is not None:
        lines.append(
            f"copy bandwidth {result.copy_bytes_per_s / 1e12:.2f} TB/s; an empty kernel in a graph "
            f"{result.launch_us:.2f} us"
        )
    return "\n".join(lines)


def _verdicts(result: Result) -> str:
    wrong = [v for v in result.verdicts if not v.ok]
    lines = [f"Correct: {len(result.verdicts) - len(wrong)} of {len(result.verdicts)}"]
    lines += [f"  WRONG, not timed: {v.workload} {v.peer}: {v.detail}" for v in wrong]
    return "\n".join(lines)


def ratio_grid(title: str, rows: Sequence[StepRow], first: str = "fast") -> str:
    """Format workloads x peers: the first peer's time and the ratios of the others."""
    peers = list(dict.fromkeys(row.peer for row in rows))
    found = {(row.workload, row.peer): row for row in rows}
    lines: Table = [["", *(f"{peer}, us" if peer == first else peer for peer in peers)]]
    for workload in dict.fromkeys(row.workload for row in rows):
        cells = [found.get((workload, peer)) for peer in peers]
        lines.append(
            [
                workload,
                *(
                    "-" if row is None else _us(row.us) if row.peer == first else _ratio(row)
                    for row in cells
                ),
            ]
        )
    return table(title, lines)


def _us(us: Spread) -> str:
    return f"{us.median:.1f} ({us.low:.1f}-{us.high:.1f})"


def _times(value: float) -> str:
    return f"{value:.0f}x" if value >= 100 else f"{value:.2f}x"


def _range(ratio: Spread) -> str:
    return f"{_times(ratio.median)} ({_times(ratio.low)}-{_times(ratio.high)})"


def _ratio(row: StepRow) -> str:
    same = row.reported == 1.0 and row.ratio.median != 1.0
    return ("= " if same else "") + _range(row.ratio)


def _steps(result: Result) -> str:
    titles = {
        "wall": "Wall time of a step, cold L2: Python call to synchronize",
        "gpu cold": "GPU time, graph replay, cold L2",
        "gpu hot": "GPU time, graph replay, hot L2",
    }
    tables = [
        ratio_grid(f"{title} ({piece})", rows)
        for clock, title in titles.items()
        for piece in dict.fromkeys(row.piece for row in result.steps)
        if (rows := [r for r in result.steps if (r.clock, r.piece) == (clock, piece)])
    ]
    tables += [
        f"Score, {s.clock}: {s.peer} / fast = {s.ratio:.2f}x over {s.workloads} workloads"
        for s in result.scores
    ]
    return "\n\n".join(tables)


def _floors(result: Result) -> str:
    rows: Table = [["", "piece", "KB", "bytes, us", "floor, us", "fast, us", "/ floor", "of copy"]]
    rows += [
        [
            row.workload,
            row.piece,
            f"{row.bytes / 1e3:,.0f}",
            f"{row.bytes_us:.2f}",
            f"{row.floor_us:.2f}",
            f"{row.fast_us:.2f}",
            f"{row.over_floor:.1f}x",
            f"{row.of_copy_bandwidth:.0%}",
        ]
        for row in result.floors
    ]
    return table("Fast path against its floor, cold L2", rows) if result.floors else ""


def _host(result: Result) -> str:
    if not result.host_steps:
        return ""
    grid = ratio_grid(
        "The host's share of a step: lists of ids to staged copies, without launches",
        result.host_steps,
    )
    lines = [
        f"Score, host: {s.peer} / fast = {s.ratio:.2f}x over {s.workloads} workloads"
        for s in result.host_scores
    ]
    return "\n".join([grid, *lines])


def _expansions(result: Result) -> str:
    if not result.expansions:
        return ""
    names = list(dict.fromkeys(row.way for row in result.expansions))
    found = {(row.blocks, row.ratio, row.way): row for row in result.expansions}
    cases = list(dict.fromkeys((row.blocks, row.ratio) for row in result.expansions))

    def lines(cell: Callable[[int, int, str], str]) -> Table:
        head = ["blocks x ratio", *names]
        return [head, *([f"{b} x {r}", *(cell(b, r, n) for n in names)] for b, r in cases)]

    def shown(blocks: int, ratio: int, name: str) -> str:
        row = found[blocks, ratio, name]
        return f"{row.us.median:.2f} us" if name == "list" else _times(row.speedup.median)

    def per_output(blocks: int, ratio: int, name: str) -> str:
        return f"{found[blocks, ratio, name].ns_per_output:.3f}"

    return "\n\n".join(
        [
            table(
                "Host expansion: list comprehension, and how much faster others are", lines(shown)
            ),
            table("The same in ns for each kernel block", lines(per_output)),
        ]
    )


def _gate(result: Result) -> str:
    rows: Table = [
        ["kernel", "target", "regs", "spill", "smem", "load B", "store B", "div64", "instr"]
    ]
    rows += [
        [
            row.kernel,
            row.target,
            *map(
                str,
                (
                    row.registers,
                    row.spill_bytes,
                    row.shared_bytes,
                    row.widest_load_bytes,
                    row.widest_store_bytes,
                    row.wide_divisions,
                    row.instructions,
                ),
            ),
        ]
        for row in result.gate
    ]
    return table("Compiled, no GPU needed", rows) if result.gate else ""


def _counts(result: Result) -> str:
    rows: Table = [["", "peer", "launches", "programs", "loads", "stores", "bytes"]]
    rows += [
        [
            row.workload,
            row.peer,
            *(f"{n:,}" for n in (row.launches, row.programs, row.loads, row.stores, row.bytes)),
        ]
        for row in result.counts
    ]
    title = "Counted in the interpreter at reduced size (no time follows from it)"
    return table(title, rows) if result.counts else ""
