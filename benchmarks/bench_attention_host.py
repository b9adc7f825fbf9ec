"""Host time of paged attention per layer: planned once, or through Triton's own launch each time.

The launches go their real way up to the driver, which starts nothing: no GPU is needed. A driver
adds what it takes to start a kernel, the same for all of them.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from workbench.kernels.mode import COMPILE_VARIABLE

# before triton is imported: a process that compiles, and neither interprets nor runs
os.environ[COMPILE_VARIABLE] = "1"

import torch
from measuring import run

from workbench.kernels.inspection import TARGETS
from workbench.kernels.inspection.dry_driver import dry_launches
from workbench.kernels.paged_flex import launches
from workbench.kernels.paged_flex.api import paged_attention, plan_attention
from workbench.kernels.paged_flex.bundles import Extras, Tensors
from workbench.kernels.paged_flex.layer import Layer
from workbench.kernels.paged_flex.layout import PagedInputs, lay_out, random_request

LAYERS = 32
GOAL_US = 15.0
CASES = {
    "1 decode": ((1100, 1),),
    "64 decodes": ((1100, 1),) * 64,
    "256 decodes": ((1100, 1),) * 256,
    "a prefill": ((2000, 2000),),
    "63 decodes and a prefill": (*((1100, 1),) * 63, (500, 500)),
}
"""Requests of (tokens, queries)."""
Work = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """Median microseconds of one step of LAYERS layers, for each layer."""

    case: str
    launches: int
    planned_us: float
    """`run`, with the plan's own share of each layer."""
    run_us: float
    """`run` alone: all that a layer adds."""
    triton_us: float
    """The same launches through Triton's own way."""
    each_us: float
    """`paged_attention` in every layer: a plan for each."""
    plan_us: float
    """`plan_attention`, once per step."""

    @property
    def over_triton(self) -> float:
        """Return how many times as long Triton's own way takes."""
        return self.triton_us / self.run_us

    @property
    def over_each(self) -> float:
        """Return how many times as long a plan in every layer takes."""
        return self.each_us / self.planned_us


def inputs_of(name: str) -> PagedInputs:
    """Return a case's batch, 32 query heads over 8 KV heads of 128."""
    heads = {"heads": 32, "kv_heads": 8, "dim": 128, "dtype": torch.float16}
    return lay_out([random_request(*size, **heads) for size in CASES[name]], 64, poison=0.0)


def step_works(paged: PagedInputs) -> tuple[dict[str, Work], int]:
    """Return name -> a step's host work, and the launches of a layer."""
    layer = (paged.query, paged.kv_cache)
    out = torch.empty_like(paged.query)
    plan = plan_attention(paged.batch, *layer)
    plan.run(*layer, out)
    planned = plan._planned  # noqa: SLF001 - the same launches, on another way
    cache = paged.kv_cache
    tensors = Layer(Tensors(paged.query, cache[:, 0], cache[:, 1], out), Extras())
    attend = launches.attend_launches(planned, tensors)
    combine = launches.combine_launches(planned, tensors)

    def through_triton() -> None:
        for _ in range(LAYERS):
            for launch in attend:
                launch.first(tensors.attended, remember=False)
            for launch in combine:
                launch.first(tensors.combined, remember=False)

    def planned_once() -> None:
        own = plan_attention(paged.batch, *layer)
        for _ in range(LAYERS):
            own.run(*layer, out)

    def runs() -> None:
        for _ in range(LAYERS):
            plan.run(*layer, out)

    def in_each() -> None:
        paged_attention(*layer, paged.batch, out=out)

    works: dict[str, Work] = {
        "planned": planned_once,
        "run": runs,
        "triton": through_triton,
        "each": in_each,
        "plan": lambda: plan_attention(paged.batch, *layer),
    }
    return works, len(attend) + len(combine)


def measure(scale: float) -> Iterator[Row]:
    """Time all cases, every way in turn, in CPU time of this thread: nothing here waits."""
    rounds = max(3, int(41 * scale))
    with dry_launches(TARGETS["sm_90"], recorded=False):
        for name in CASES:
            works, count = step_works(inputs_of(name))
            times: dict[str, list[float]] = {way: [] for way in works}
            for _ in range(rounds):
                for way, work in works.items():
                    begin = time.thread_time()
                    work()
                    times[way].append(1e6 * (time.thread_time() - begin))
            us = {way: statistics.median(found) for way, found in times.items()}
            per_layer = {way: us[way] / LAYERS for way in ("planned", "run", "triton")}
            yield Row(
                case=name,
                launches=count,
                planned_us=per_layer["planned"],
                run_us=per_layer["run"],
                triton_us=per_layer["triton"],
                each_us=us["each"],
                plan_us=us["plan"],
            )


if __name__ == "__main__":
    run(
        __doc__ or "",
        [measure],
        {
            "batch": lambda row: row.case,
            "launches": lambda row: f"{row.launches}",
            "run": lambda row: f"{row.run_us:.1f} us" + (" (over)" * (row.run_us > GOAL_US)),
            "Triton's way": lambda row: f"{row.triton_us:.1f} us, {row.over_triton:.1f}x",
            "plan": lambda row: f"{row.plan_us:.0f} us",
            "with 1/32 plan": lambda row: f"{row.planned_us:.1f} us",
            "a plan each": lambda row: f"{row.each_us:.0f} us, {row.over_each:.1f}x",
        },
        quick=0.1,
        derived=("over_triton", "over_each"),
        layers=LAYERS,
        goal_us=GOAL_US,
    )
