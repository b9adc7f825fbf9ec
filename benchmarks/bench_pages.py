"""How fast the bytes are shown: the byte map, the page map and the pool raster, by pool size.

The same picture of 10,000 and of 1,000,000 blocks is measured in turn: compare ratios, not
milliseconds, between machines. A pool of a million blocks may take twice the time of the other.

    python benchmarks/bench_pages.py [--json FILE] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import workbench as wb
from workbench.core.byte_map.of_plan import byte_map
from workbench.ui.panels.pages import PagesPanel
from workbench.ui.session import Session
from workbench.views.page_map import LEVELS, page_map
from workbench.views.pool_raster import VIEWS, pool_raster

SMALL, LARGE = 10_000, 1_000_000
BUDGET_RATIO = 2.0
BUDGET_CHANGE_S = 0.1
BUDGET_FIGURE_BYTES = 150_000
SCENARIO = wb.Scenario(model="qwen3.5-4b")
PACKAGES = ("hybrid-kv-workbench", "numpy", "plotly", "ipywidgets")


@dataclass(frozen=True)
class Compared:
    """One row: the same work for the small and for the large pool; bytes of the larger figure."""

    what: str
    small_seconds: float
    large_seconds: float
    budget_ratio: float | None = BUDGET_RATIO
    budget_seconds: float | None = None
    figure_bytes: int | None = None

    @property
    def ratio(self) -> float:
        """Return the large pool's time in units of the small one's."""
        return self.large_seconds / self.small_seconds

    @property
    def verdict(self) -> str:
        """Return which budgets are exceeded, or "ok"."""
        over = []
        if self.budget_ratio is not None and self.ratio > self.budget_ratio:
            over.append("ratio")
        if self.budget_seconds is not None and self.large_seconds > self.budget_seconds:
            over.append("time")
        if self.figure_bytes is not None and self.figure_bytes > BUDGET_FIGURE_BYTES:
            over.append("bytes")
        return "OVER: " + ", ".join(over) if over else "ok"


def main() -> None:
    """Measure, print, and write the JSON if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--quick", action="store_true", help="few repetitions, to try it out")
    options = parser.parse_args()
    rounds = 5 if options.quick else 40
    machine = {
        "cores": os.cpu_count(),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }
    print(*(f"{name}: {value}" for name, value in machine.items()), sep="\n", end="\n\n")
    rows = [row for measure in (lookups, figures, changes) for row in measure(rounds)]
    print_table(rows)
    if options.json:
        published = [{**asdict(row), "ratio": row.ratio, "verdict": row.verdict} for row in rows]
        text = json.dumps({"machine": machine, "rows": published}, indent=2)
        options.json.write_text(text + "\n", encoding="utf-8")


def lookups(rounds: int) -> Iterator[Compared]:
    """Time building a byte map, and looking bytes up in it in both directions."""
    plan = wb.resolve(SCENARIO)
    yield side_by_side("build a byte map", rounds, lambda blocks: byte_map(plan, num_blocks=blocks))
    pools = {blocks: byte_map(plan, num_blocks=blocks) for blocks in (SMALL, LARGE)}
    pick = random.Random(0)  # noqa: S311  (the same bytes every time)

    def at(blocks: int) -> None:
        pools[blocks].at(0, pick.randrange(pools[blocks].tensors[0].raw_bytes))

    def back(blocks: int) -> None:
        block = pick.randrange(blocks)
        pools[blocks].bytes_of(
            layer="model.layers.3.attn", block=block, part="V", token=500, head=1, value=7
        )

    yield side_by_side("what is byte N", 50 * rounds, at)
    yield side_by_side("where is a value", 50 * rounds, back)


def figures(rounds: int) -> Iterator[Compared]:
    """Time every figure, from the plan to JSON."""
    plan = wb.resolve(SCENARIO)
    for level in LEVELS:

        def drawn(blocks: int, level: str = level) -> str:
            return page_map(plan, level, num_blocks=blocks, block=blocks - 1).to_json()

        yield side_by_side(f"page map, {level}", rounds, drawn)
    for by in VIEWS:

        def raster(blocks: int, by: str = by) -> str:
            return pool_raster(plan, blocks, by=by, finished_every=5).to_json()

        yield side_by_side(f"pool raster by {by}", rounds, raster)


def changes(rounds: int) -> Iterator[Compared]:
    """Time a changed control up to the updated figure, Python only; the slowest of twenty."""
    panels = {}
    for blocks in (SMALL, LARGE):
        panel = PagesPanel(Session(SCENARIO, lambda _outcome: None))
        panel.blocks.value = panel.raster.blocks.value = str(blocks)
        panel.show(wb.resolve(SCENARIO))
        panels[blocks] = panel
    steps = dict.fromkeys(panels, 0)

    def place(blocks: int) -> None:
        steps[blocks] += 1
        panel = panels[blocks]
        panel.level.value = LEVELS[steps[blocks] % len(LEVELS)]

    def pool(blocks: int) -> None:
        steps[blocks] += 1
        panels[blocks].raster.finished.value = 1 + steps[blocks] % 9

    for what, change in (("change of level", place), ("change of the pool", pool)):
        row = side_by_side(f"{what}, p95", rounds, change, quantile=18)
        yield Compared(row.what, row.small_seconds, row.large_seconds, None, BUDGET_CHANGE_S)
        row = side_by_side(f"{what}, median", rounds, change)
        yield row
    assert all(panel.session.errors == [] for panel in panels.values())


def side_by_side(
    what: str, rounds: int, work: Callable[[int], Any], quantile: int | None = None
) -> Compared:
    """Time `work(number of blocks)` for both pools in turn, so that a slow moment affects both."""
    times: dict[int, list[float]] = {SMALL: [], LARGE: []}
    size = None
    for _ in range(rounds):
        for blocks, seconds in times.items():
            start = time.perf_counter()
            made = work(blocks)
            seconds.append(time.perf_counter() - start)
            if isinstance(made, str):
                size = max(size or 0, len(made))

    def summary(seconds: list[float]) -> float:
        if quantile is None:
            return statistics.median(seconds)
        return statistics.quantiles(seconds, n=20)[quantile]

    return Compared(what, summary(times[SMALL]), summary(times[LARGE]), figure_bytes=size)


def print_table(rows: list[Compared]) -> None:
    """Print the rows, aligned."""
    lines = [("", f"{SMALL:,} blocks", f"{LARGE:,} blocks", "ratio", "figure bytes", "")]
    for row in rows:
        times = (f"{seconds * 1e3:.3f} ms" for seconds in (row.small_seconds, row.large_seconds))
        size = "" if row.figure_bytes is None else f"{row.figure_bytes:,}"
        lines.append((row.what, *times, f"{row.ratio:.2f}x", size, row.verdict))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


if __name__ == "__main__":
    main()
