"""Two clocks on a GPU: graph replay for kernels, and from the Python call to synchronize.

Neither runs in Triton's interpreter, which has no times to give.
"""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from workbench.kernels.bench.empty_kernel import empty_kernel
from workbench.kernels.bench.limits import Limits
from workbench.kernels.bench.peers import Peer, Piece

GRAPH_STEPS = 30
"""Steps of one graph: enough that starting the graph does not count."""

FLUSH_BYTES = 192 * 2**20
"""Written before a cold step: more than three times the L2 of any GPU this is meant for."""

COPY_BYTES = 512 * 2**20
EMPTY_LAUNCHES = 200
MATMUL_SIZE = 8192
COLD_REPLAYS, HOT_REPLAYS, WALL_TURNS = 3, 10, 2


class L2Flush:
    """Fills the L2 with something else."""

    def __init__(self) -> None:
        self._memory = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")

    def __call__(self) -> None:
        """Launch once."""
        self._memory.zero_()


def captured(work: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """Capture `work` as a graph, after one run that compiles and warms up."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def replay_seconds(graph: torch.cuda.CUDAGraph, replays: int) -> float:
    """Return the seconds of one replay, measured by GPU events."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(replays):
        graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / replays


def _repeat(work: Callable[[], object], times: int) -> None:
    for _ in range(times):
        work()


class Launching(Protocol):
    """Whatever can be captured."""

    def launch(self, piece: Piece = "step") -> None:
        """Launch kernels alone, always the same ones on the same memory."""


class TooNoisyError(RuntimeError):
    """A step is too short to be measured after a flush."""


class StepGraphs:
    """One peer's launches as graphs, its input sets in turn; the peers have to be `ready`."""

    def __init__(
        self,
        peers: Sequence[Launching],
        flush: L2Flush,
        piece: Piece = "step",
        steps_wanted: int = GRAPH_STEPS,
    ) -> None:
        self._turns = max(1, steps_wanted // len(peers))
        self._steps = self._turns * len(peers)

        def steps(before: Callable[[], None] | None) -> None:
            for _ in range(self._turns):
                for peer in peers:
                    if before is not None:
                        before()
                    peer.launch(piece)

        self._cold = captured(lambda: steps(flush))
        self._hot = captured(lambda: steps(None))
        self._flushes = captured(lambda: _repeat(flush, self._steps))

    def cold_s(self) -> float:
        """Return the time of one step after a flush, without the flush's time.

        Raises TooNoisyError.
        """
        both = replay_seconds(self._cold, COLD_REPLAYS)
        steps = both - replay_seconds(self._flushes, COLD_REPLAYS)
        if steps <= 0:
            raise TooNoisyError("a cold step took less than the noise of the flush before it")
        return steps / self._steps

    def hot_s(self) -> float:
        """Return the time of one step right after another one."""
        return replay_seconds(self._hot, HOT_REPLAYS) / self._steps

    def run_once(self) -> None:
        """Replay the graph once, for its results."""
        self._hot.replay()
        torch.cuda.synchronize()


def wall_s(peers: Sequence[Peer], flush: L2Flush) -> float:
    """Return the mean seconds from a step's Python call to the end of its work, cold L2."""
    total = 0.0
    for _ in range(WALL_TURNS):
        for peer in peers:
            peer.rewind()
            flush()
            torch.cuda.synchronize()
            start = time.perf_counter()
            peer.step()
            torch.cuda.synchronize()
            total += time.perf_counter() - start
    return total / WALL_TURNS / len(peers)


def measured_limits() -> Limits:
    """Copy bandwidth, read and write together, and an empty kernel within a graph."""
    source = torch.zeros(COPY_BYTES, dtype=torch.int8, device="cuda")
    target = torch.empty_like(source)
    copy = captured(lambda: _repeat(lambda: target.copy_(source), 1))
    copies = sorted(replay_seconds(copy, 10) for _ in range(5))
    one = torch.zeros(1, dtype=torch.int32, device="cuda")
    launch = captured(lambda: _repeat(lambda: empty_kernel[(1,)](one), EMPTY_LAUNCHES))
    launches = sorted(replay_seconds(launch, 10) for _ in range(5))
    return Limits(2 * COPY_BYTES / copies[2], launches[2] / EMPTY_LAUNCHES)


def once_s(work: Callable[[], object]) -> float:
    """Estimate the time of one run by events, after a warm-up; used to plan longer ones."""
    work()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def matmul_flop_per_s(dtype: torch.dtype) -> float:
    """Measure the rate of a large square product, the median of five rounds of ten."""
    shape = (MATMUL_SIZE, MATMUL_SIZE)
    left, right = (torch.randn(shape, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty(shape, device="cuda", dtype=dtype)
    product = captured(lambda: _repeat(lambda: torch.mm(left, right, out=out), 1))
    turns = sorted(replay_seconds(product, 10) for _ in range(5))
    return 2 * MATMUL_SIZE**3 / turns[2]
