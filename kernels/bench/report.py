"""A result as text: tables that are read at a glance."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from workbench.kernels.bench.peers import FAST
from workbench.kernels.bench.results import GateRow, Result, Score, Spread, StepRow

Section = Callable[[Sequence[Any]], str]

CLOCKS = {
    "wall": "Wall time: Python call to synchronize",
    "gpu cold": "GPU time, graph replay, cold L2",
    "gpu hot": "GPU time, graph replay, hot L2",
    "host": "The host's share: lists of ids to staged copies, without launches",
    "dry": "The host's share with its launches, launched dry",
}


def report(result: Result) -> str:
    """Format everything that was measured, then what was not."""
    parts = [_machine(result), _verdicts(result), _steps(result.steps, result.scores)]
    sections = ((section, getattr(result, name, [])) for name, section in _SECTIONS.items())
    parts += [section(rows) for section, rows in sections if rows]
    parts.append("\n".join(f"Open: {line}" for line in result.open_questions))
    return "\n\n".join(filter(None, parts))


def table(title: str, rows: Sequence[Sequence[str]]) -> str:
    """Format a title and aligned columns; the first is left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [title]
    for first, *others in rows:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def grid(title: str, cells: Mapping[tuple[str, str], str], corner: str = "") -> str:
    """Format (line, column) -> text, "-" where there is none."""
    lines, columns = (list(dict.fromkeys(key[i] for key in cells)) for i in (0, 1))
    body = [[line, *(cells.get((line, column), "-") for column in columns)] for line in lines]
    return table(title, [[corner, *columns], *body])


def _machine(result: Result) -> str:
    m = result.machine
    driver = f", driver {m['driver']}" if m["driver"] else ""
    lines = [
        f"{m['device']}{driver}; {m['cpu']}",
        ", ".join(f"{name} {m[name]}" for name in ("python", "torch", "triton", "numpy")),
        f"kernels {m['source_hash']}; {m['date']}",
        f"{result.rounds} rounds A B B A: median (smallest-largest) of the ratios within a round;",
        f"above 1x the {FAST} one is faster; = is inside the noise of this run",
    ]
    if result.copy_bytes_per_s is not None:
        matmul = getattr(result, "matmul_flop_per_s", None)
        product = f"matmul {matmul / 1e12:.0f} TFLOP/s; " if matmul else ""
        lines.append(
            f"copy bandwidth {result.copy_bytes_per_s / 1e12:.2f} TB/s; {product}an empty kernel "
            f"in a graph {result.launch_us:.2f} us"
        )
    return "\n".join(lines)


def _verdicts(result: Result) -> str:
    if not result.verdicts:
        return ""
    right = len(result.verdicts) - len(result.wrong)
    lines = [f"Correct: {right} of {len(result.verdicts)}"]
    lines += [f"  WRONG, not timed: {v.workload} {v.peer}: {v.detail}" for v in result.wrong]
    remarks: dict[str, list[str]] = {}
    for v in result.verdicts:
        if v.ok and v.detail:
            remarks.setdefault(f"{v.peer}: {v.detail}", []).append(v.workload)
    lines += [f"  {remark} ({', '.join(names)})" for remark, names in remarks.items()]
    return "\n".join(lines)


def _steps(steps: Sequence[StepRow], scores: Sequence[Score]) -> str:
    """Format workloads x peers by clock and piece: the first peer's time, the others' ratios."""
    grids: dict[str, dict[tuple[str, str], str]] = {}
    for clock, title in CLOCKS.items():
        for row in (row for row in steps if row.clock == clock):
            first = row.peer == FAST
            heading, cell = (f"{FAST}, us", _us(row.us)) if first else (row.peer, _ratio(row))
            grids.setdefault(f"{title} ({row.piece})", {})[row.workload, heading] = cell
    tables = [grid(title, cells) for title, cells in grids.items()]
    scored = [
        f"Score, {s.clock}: {s.peer} / {FAST} = {s.ratio:.2f}x over {s.workloads} workloads"
        for s in scores
    ]
    return "\n\n".join(filter(None, [*tables, "\n".join(scored)]))


def _us(us: Spread) -> str:
    return f"{us.median:.1f} ({us.low:.1f}-{us.high:.1f})"


def _times(value: float) -> str:
    return f"{value:.0f}x" if value >= 100 else f"{value:.2f}x"


def _ratio(row: StepRow) -> str:
    same = row.reported == 1.0 and row.ratio.median != 1.0
    low, high = _times(row.ratio.low), _times(row.ratio.high)
    return f"{'= ' if same else ''}{_times(row.ratio.median)} ({low}-{high})"


def _in_fields(title: str, names: str) -> Section:
    """Return a formatter of rows: these fields and properties."""
    values = attrgetter(*names.split())
    return lambda rows: _named(title, names.split(), map(values, rows))


def _gate(rows: Sequence[GateRow]) -> str:
    names = [name for name in rows[0] if name != "source"]
    values = ([row[name] for name in names] for row in rows)
    return _named("What the compiler made, without a GPU", names, values)


def _named(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = [name.replace("_", " ") for name in names]
    return table(title, [head, *(list(map(_text, row)) for row in rows)])


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "-"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _expansions(rows: Sequence[Any]) -> str:
    speed, per_output = {}, {}
    for row in rows:
        at = (f"{row.blocks} x {row.ratio}", row.way)
        is_list = row.way == "list"
        speed[at] = f"{row.us.median:.2f} us" if is_list else _times(row.speedup.median)
        per_output[at] = f"{row.ns_per_output:.3f}"
    title = "Host expansion: list comprehension, and how much faster others are"
    corner = "blocks x ratio"
    other = grid("The same in ns for each kernel block", per_output, corner)
    return f"{grid(title, speed, corner)}\n\n{other}"


def _metadata(rows: Sequence[Any]) -> str:
    cells = {}
    for row in rows:
        larger = row.larger_pool_bytes or 0
        grown = f" -> {larger / 1e3:,.1f}" if larger > row.bytes else ""
        cells[row.case, row.peer] = f"{row.bytes / 1e3:,.1f}{grown}"
    return grid("Metadata and scratch in KB; an arrow: with a pool of twice the blocks", cells)


def _bits(rows: Sequence[Any]) -> str:
    cells = {
        (f"{row.case} {row.way}", row.peer): f"{row.differing:,} of {row.elements:,}"
        + ("" if row.promised else " (not promised)")
        for row in rows
    }
    return grid("Elements with other bits: a request alone, a chunk by itself", cells)


_SECTIONS: Mapping[str, Section] = {
    "floors": _in_fields(
        "Fast path against its floor, cold L2",
        "workload piece bytes bytes_us floor_us fast_us over_floor of_copy",
    ),
    "rates": _in_fields(
        "Visible work against this run's own limits",
        "case peer us tflop_per_s of_matmul tb_per_s of_copy",
    ),
    "host_steps": lambda rows: _steps(rows, []),
    "host_scores": lambda rows: _steps([], rows),
    "dry_steps": lambda rows: _steps(rows, []),
    "dry_scores": lambda rows: _steps([], rows),
    "expansions": _expansions,
    "metadata": _metadata,
    "bits": _bits,
    "gate": _gate,
    "counts": _in_fields(
        "Counted in the interpreter at reduced size (no time follows from it)",
        "workload peer launches programs loads stores bytes",
    ),
}
"""Field of a result -> how its rows are shown."""
