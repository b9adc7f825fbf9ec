"""Measure how fast bytes are shown: byte map, page map and pool raster, by pool size.

The same picture of 10,000 and of 1,000,000 blocks is measured in turn: compare ratios, not
milliseconds, between machines. A pool of a million blocks may take twice the time of the other.

    python benchmarks/bench_pages.py [--json FILE] [--quick]
"""

import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from measuring import in_turn, run

import workbench as wb
from workbench.core.byte_map.of_plan import byte_map
from workbench.door.session import Session
from workbench.ui.panels.pages import PagesPanel
from workbench.views.bytes.map import page_map
from workbench.views.bytes.places import LEVELS
from workbench.views.capacity.pool_raster import VIEWS, pool_raster

SMALL, LARGE = 10_000, 1_000_000
BUDGET_RATIO = 2.0
BUDGET_CHANGE_S = 0.1
BUDGET_FIGURE_BYTES = 150_000
SCENARIO = wb.Scenario(model="qwen3.5-4b")
ROUNDS = 40


@dataclass(frozen=True)
class Comparison:
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


CELLS = {
    "": lambda row: row.what,
    f"{SMALL:,} blocks": lambda row: f"{row.small_seconds * 1e3:.3f} ms",
    f"{LARGE:,} blocks": lambda row: f"{row.large_seconds * 1e3:.3f} ms",
    "ratio": lambda row: f"{row.ratio:.2f}x",
    "figure bytes": lambda row: "" if row.figure_bytes is None else f"{row.figure_bytes:,}",
    "verdict": lambda row: row.verdict,
}


def lookups(scale: float) -> Iterator[Comparison]:
    """Time building a byte map, and looking bytes up in it in both directions."""
    plan = wb.resolve(SCENARIO)
    yield side_by_side("build a byte map", scale, lambda blocks: byte_map(plan, num_blocks=blocks))
    pools = {blocks: byte_map(plan, num_blocks=blocks) for blocks in (SMALL, LARGE)}
    pick = random.Random(0)  # noqa: S311  (the same bytes every time)

    def at(blocks: int) -> None:
        pools[blocks].at(0, pick.randrange(pools[blocks].tensors[0].raw_bytes))

    def back(blocks: int) -> None:
        block = pick.randrange(blocks)
        pools[blocks].bytes_of(
            layer="model.layers.3.attn", block=block, part="V", token=500, head=1, value=7
        )

    yield side_by_side("what is byte N", 50 * scale, at)
    yield side_by_side("where is a value", 50 * scale, back)


def figures(scale: float) -> Iterator[Comparison]:
    """Time every figure, from the plan to JSON."""
    plan = wb.resolve(SCENARIO)
    for level in LEVELS:
        yield side_by_side(f"page map, {level}", scale, partial(drawn, plan, level))
    for by in VIEWS:
        yield side_by_side(f"pool raster by {by}", scale, partial(raster, plan, by))


def drawn(plan: wb.Plan, level: str, blocks: int) -> str:
    """Draw the last block's page at one level."""
    return page_map(plan, level, num_blocks=blocks, block=blocks - 1).to_json()


def raster(plan: wb.Plan, by: str, blocks: int) -> str:
    """Draw the whole pool, a fifth of whose requests has finished."""
    return pool_raster(plan, blocks, by=by, finished_every=5).to_json()


def changes(scale: float) -> Iterator[Comparison]:
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
        panels[blocks].raster.finished.value = str(1 + steps[blocks] % 9)

    for what, change in (("change of level", place), ("change of the pool", pool)):
        row = side_by_side(f"{what}, p95", scale, change, quantile=18)
        yield Comparison(row.what, row.small_seconds, row.large_seconds, None, BUDGET_CHANGE_S)
        yield side_by_side(f"{what}, median", scale, change)
    assert all(panel.session.errors == [] for panel in panels.values())


def side_by_side(
    what: str, scale: float, work: Callable[[int], Any], quantile: int | None = None
) -> Comparison:
    """Time `work(number of blocks)` for both pools in turn, so that a slow moment affects both."""
    made: list[Any] = []
    works = {blocks: lambda n=blocks: made.append(work(n)) for blocks in (SMALL, LARGE)}
    small, large = in_turn(works, max(5, round(ROUNDS * scale))).values()
    sizes = [len(one) for one in made if isinstance(one, str)]

    def summary(seconds: list[float]) -> float:
        if quantile is None:
            return statistics.median(seconds)
        return statistics.quantiles(seconds, n=20)[quantile]

    return Comparison(what, summary(small), summary(large), figure_bytes=max(sizes, default=None))


if __name__ == "__main__":
    run(
        __doc__.splitlines()[0],
        (lookups, figures, changes),
        CELLS,
        quick=0.1,
        rows_as="rows",
        derived=["ratio", "verdict"],
    )
