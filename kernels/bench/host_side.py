"""The host's share, on any machine: how ids are expanded, and a step until its first launch."""

import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from workbench.kernels.bench.inputs import step_input
from workbench.kernels.bench.peers import PeerKind, TablesPeer
from workbench.kernels.bench.ratios import Sample, compared, measured_rounds, round_ratios, spread
from workbench.kernels.bench.results import ExpansionRow, StepRow
from workbench.kernels.bench.run import Plan

CASES = (
    *((blocks, 2) for blocks in (1, 8, 32, 512)),
    *((blocks, 17) for blocks in (4, 32)),
    *((blocks, 66) for blocks in (1, 8, 128, 512, 2048, 8192)),
)
QUICK_CASES = ((1, 66), (32, 2), (512, 66))
"""Manager blocks, and kernel blocks of each."""

SAMPLE_S, STEP_SAMPLE_S = 2e-3, 2e-2
QUICK = 0.1
"""The share of these that a quick run takes."""
MOST_TURNS = 30

Way = Callable[[], object]

# CPU time of this thread: nothing here waits, and other work on the machine is not counted
clock = time.thread_time


def ways(blocks: int, ratio: int) -> dict[str, Way]:
    """Return name -> one expansion of `blocks` ids; all but the last two give equal kernel blocks.

    The last two are what the fast path does: ids as they are, the device expands.
    """
    ids = np.random.default_rng(blocks).permutation(2**20)[:blocks].tolist()
    array = np.array(ids, dtype=np.int32)
    part = np.arange(ratio, dtype=np.int32)
    expanded = np.zeros((blocks, ratio), dtype=np.int32)
    staged = np.zeros(blocks, dtype=np.int32)

    def by_numpy() -> np.ndarray:
        return (np.array(ids)[:, None] * ratio + part).ravel()

    def into_preallocated() -> np.ndarray:
        column = np.array(ids, dtype=np.int32)[:, None] * np.int32(ratio)
        return np.add(column, part, out=expanded).ravel()

    def unexpanded(source: Sequence[int] | np.ndarray) -> np.ndarray:
        staged[:] = source
        return staged

    return {
        "list": lambda: [block * ratio + k for block in ids for k in range(ratio)],
        "numpy": by_numpy,
        "numpy, to list": lambda: by_numpy().tolist(),
        "numpy, preallocated": into_preallocated,
        "device, from list": lambda: unexpanded(ids),
        "device, from array": lambda: unexpanded(array),
    }


def expansion_rows(plan: Plan) -> list[ExpansionRow]:
    """Time every way in every case, in turn, after comparing their results."""
    rows = []
    budget = SAMPLE_S * (QUICK if plan.quick else 1)
    for blocks, ratio in QUICK_CASES if plan.quick else CASES:
        found = ways(blocks, ratio)
        right = found["list"]()
        for name, way in found.items():
            answer = np.asarray(way())
            if name.startswith("device"):
                answer = (answer[:, None] * ratio + np.arange(ratio)).ravel()
            assert answer.tolist() == right, name
        samples = {name: _repeated(way, budget) for name, way in found.items()}
        seconds = measured_rounds(samples, plan.rounds)
        for name, values in seconds.items():
            us = spread([value * 1e6 for value in values])
            row = ExpansionRow(
                blocks=blocks,
                ratio=ratio,
                way=name,
                us=us,
                speedup=spread(round_ratios(seconds["list"], values)),
                ns_per_output=us.median * 1e3 / (blocks * ratio),
            )
            rows.append(row)
    return rows


def _repeated(way: Way, budget_s: float) -> Sample:
    """Return the mean seconds of one call, over as many calls as fit in the budget."""

    def sample(calls: int) -> float:
        begin = clock()
        for _ in range(calls):
            way()
        return (clock() - begin) / calls

    fitting = max(1, min(10_000, int(budget_s / max(sample(1), 1e-7))))
    return lambda: sample(fitting)


def host_step_rows(plan: Plan, kinds: Sequence[PeerKind]) -> list[StepRow]:
    """Time Python and numpy of one full-size step up to the launches, which are omitted.

    On the CPU for every peer: copies to the device are copies in memory. `kinds` begin with the
    fast path and must be made without launches.
    """
    return step_rows(plan, kinds, "host", lambda peer: peer.host())


def step_rows(
    plan: Plan, kinds: Sequence[PeerKind], name: str, work: Callable[[TablesPeer], None]
) -> list[StepRow]:
    """Time `work` of every peer in every case, by this thread's CPU time; name: of the clock."""
    rows = []
    budget = STEP_SAMPLE_S * (QUICK if plan.quick else 1)
    torch.set_num_threads(1)  # the clock is this thread's
    for workload in plan.cases:
        given = step_input(workload, 0)
        samples = {kind: _sample(kind.make(given), work, budget) for kind in kinds}
        rows += compared(workload.name, "step", name, samples, plan.rounds)
    return rows


def _sample(peer: TablesPeer, work: Callable[[TablesPeer], None], budget_s: float) -> Sample:
    """Return the seconds of one step's work; undoing the step is not counted."""

    def seconds() -> float:
        peer.rewind()
        start = clock()
        work(peer)
        return clock() - start

    seconds()
    turns = max(2, min(MOST_TURNS, int(budget_s / max(seconds(), 1e-7))))
    return lambda: statistics.fmean(seconds() for _ in range(turns))
