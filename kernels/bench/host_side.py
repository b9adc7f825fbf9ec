"""The host's share, on any machine: how ids are expanded, and a step until its first launch."""

import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from workbench.kernels.bench.compare import compared
from workbench.kernels.bench.inputs import step_input
from workbench.kernels.bench.peers import Peer, PeerKind
from workbench.kernels.bench.ratios import measured_rounds, round_ratios, spread
from workbench.kernels.bench.rows import ExpansionRow, StepRow
from workbench.kernels.bench.workloads import Workload

CASES = (
    (1, 2),
    (8, 2),
    (32, 2),
    (512, 2),
    (4, 17),
    (32, 17),
    (1, 66),
    (8, 66),
    (128, 66),
    (512, 66),
    (2048, 66),
    (8192, 66),
)
QUICK_CASES = ((1, 66), (32, 2), (512, 66))
SAMPLE_S, QUICK_SAMPLE_S = 2e-3, 2e-4
STEP_SAMPLE_S, QUICK_STEP_SAMPLE_S = 2e-2, 2e-3
MOST_TURNS = 30

Way = Callable[[], object]

clock = time.thread_time
"""CPU time of this thread: nothing here waits, and other work on the machine is not counted."""


def ways(blocks: int, ratio: int) -> dict[str, Way]:
    """Return name -> one expansion of `blocks` ids; all but the last two give equal kernel blocks.

    The last two are what the fast path does: ids as they are, the device expands.
    """
    ids = np.random.default_rng(blocks).permutation(2**20)[:blocks].tolist()
    array = np.array(ids, dtype=np.int32)
    part = np.arange(ratio, dtype=np.int32)
    expanded = np.zeros(blocks * ratio, dtype=np.int32)
    staged = np.zeros(blocks, dtype=np.int32)

    def by_numpy() -> np.ndarray:
        return (np.array(ids)[:, None] * ratio + part).ravel()

    def into_preallocated() -> np.ndarray:
        np.add(
            np.array(ids, dtype=np.int32)[:, None] * np.int32(ratio),
            part,
            out=expanded.reshape(blocks, ratio),
        )
        return expanded

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


def expansion_rows(*, rounds: int, quick: bool) -> list[ExpansionRow]:
    """Time every way in every case, in turn, after comparing their results."""
    rows = []
    for blocks, ratio in QUICK_CASES if quick else CASES:
        found = ways(blocks, ratio)
        right = list(found["list"]())  # type: ignore[call-overload]
        for name, way in found.items():
            answer = np.asarray(way())
            if name.startswith("device"):
                answer = (answer[:, None] * ratio + np.arange(ratio)).ravel()
            assert answer.tolist() == right, name
        budget = QUICK_SAMPLE_S if quick else SAMPLE_S
        seconds = measured_rounds({n: _repeated(way, budget) for n, way in found.items()}, rounds)
        for name, values in seconds.items():
            us = spread([value * 1e6 for value in values])
            speedup = spread(round_ratios(seconds["list"], values))
            per_output = us.median * 1e3 / (blocks * ratio)
            rows.append(ExpansionRow(blocks, ratio, name, us, speedup, per_output))
    return rows


def _repeated(way: Way, budget_s: float) -> Callable[[], float]:
    """Return the mean seconds of one call, over as many calls as fit in the budget."""
    start = clock()
    way()
    calls = max(1, min(10_000, int(budget_s / max(clock() - start, 1e-7))))

    def sample() -> float:
        begin = clock()
        for _ in range(calls):
            way()
        return (clock() - begin) / calls

    return sample


def host_step_rows(
    workloads: Sequence[Workload], kinds: Sequence[PeerKind], *, rounds: int, quick: bool
) -> list[StepRow]:
    """Time Python and numpy of one full-size step up to the launches, which are omitted.

    On the CPU for every peer: copies to the device are copies in memory. `kinds` begin with the
    fast path and must be made without launches.
    """
    rows = []
    budget = QUICK_STEP_SAMPLE_S if quick else STEP_SAMPLE_S
    torch.set_num_threads(1)  # the clock is this thread's
    for workload in workloads:
        given = step_input(workload, 0)
        peers = {kind: kind.make(workload, given, "cpu") for kind in kinds}
        for peer in peers.values():
            peer.fill()
        samples = {kind: _host_sample(peer, budget) for kind, peer in peers.items()}
        rows += compared(workload.name, "step", "host", samples, rounds)
    return rows


def _host_sample(peer: Peer, budget_s: float) -> Callable[[], float]:
    """Return the seconds of one step's host share; undoing the step is not counted."""

    def seconds() -> float:
        peer.rewind()
        start = clock()
        peer.host()
        return clock() - start

    seconds()
    turns = max(2, min(MOST_TURNS, int(budget_s / max(seconds(), 1e-7))))
    return lambda: statistics.fmean(seconds() for _ in range(turns))
