"""Two clocks on a GPU: graph replay for kernels, and from the Python call to synchronize.

Neither runs in Triton's interpreter, which has no times to give.
"""

import functools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from workbench.kernels.bench.empty_kernel import empty_kernel
from workbench.kernels.bench.peers import Peer
from workbench.kernels.bench.results import Piece

GRAPH_STEPS = 30
"""Steps of one graph: enough that starting the graph does not count."""

FLUSH_BYTES = 192 * 2**20
"""Read before a cold step: more than three times the L2 of any GPU this is meant for."""

COPY_BYTES = 2 * 2**30
EMPTY_LAUNCHES = 200
MATMUL_SIZE = 8192
COLD_REPLAYS, HOT_REPLAYS = 3, 10
SAMPLES = 50

OnePeer = TypeVar("OnePeer", bound=Peer)


@functools.cache
def _other_memory() -> tuple[torch.Tensor, torch.Tensor]:
    memory = torch.zeros(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
    return memory, torch.zeros((), dtype=torch.int32, device="cuda")


def flush_l2() -> None:
    """Fill the L2 with something else by reading it: nothing is left to be written back."""
    memory, largest = _other_memory()
    torch.amax(memory, 0, out=largest)


def captured(work: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """Capture `work` as a graph, after one run that compiles and warms up."""
    # torch wants a warm-up on another stream before it captures.
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


def event_seconds(work: Callable[[], object], times: int = 1) -> float:
    """Return the mean seconds of one call, measured by GPU events."""
    # The GPU records them between its kernels, so that the host's launches are not measured.
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    _repeat(work, times)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / times


def cold_samples(work: Callable[[], object], count: int = SAMPLES) -> list[float]:
    """Return the seconds of `count` calls, each after a flush: for work that no graph has to take.

    A flush keeps the GPU busy while the host prepares the next call.
    """
    work()
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
    for start, end in pairs:
        flush_l2()
        start.record()
        work()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) / 1e3 for start, end in pairs]


def _repeat(work: Callable[[], object], times: int) -> None:
    for _ in range(times):
        work()


class TooNoisyError(RuntimeError):
    """A step is too short to be measured after a flush."""


class StepGraphs:
    """One peer's launches as graphs, its input sets in turn; the peers have to be `ready`."""

    def __init__(
        self, peers: Sequence[Peer], piece: Piece = "step", steps_wanted: int = GRAPH_STEPS
    ) -> None:
        # Whole turns, so that every input set counts as often as the others.
        turns = max(1, steps_wanted // len(peers))
        self._steps = turns * len(peers)

        def steps(*, cold: bool) -> None:
            for _ in range(turns):
                for peer in peers:
                    if cold:
                        flush_l2()
                    peer.launch(piece)

        self._cold = captured(lambda: steps(cold=True))
        self._hot = captured(lambda: steps(cold=False))
        self._flushes = captured(lambda: _repeat(flush_l2, self._steps))

    def cold_s(self) -> float:
        """Return the time of one step after a flush, without the flush's. Raises TooNoisyError."""
        # A flush takes longer than most steps, so flushes alone are measured next to it and
        # subtracted.
        both = event_seconds(self._cold.replay, COLD_REPLAYS)
        steps = both - event_seconds(self._flushes.replay, COLD_REPLAYS)
        if steps <= 0:
            raise TooNoisyError("a cold step took less than the noise of the flush before it")
        return steps / self._steps

    def hot_s(self) -> float:
        """Return the time of one step right after another one."""
        return event_seconds(self._hot.replay, HOT_REPLAYS) / self._steps

    def run_once(self) -> None:
        """Replay the graph once, for its results."""
        self._hot.replay()
        torch.cuda.synchronize()


def wall_s(
    peers: Sequence[OnePeer],
    work: Callable[[OnePeer], None],
    before: Callable[[OnePeer], None] = lambda _peer: None,
    turns: int = 2,
) -> float:
    """Return the mean seconds from the Python call to the end of its work on the device."""
    total = 0.0
    for peer in [*peers] * turns:
        before(peer)
        torch.cuda.synchronize()
        # What `before` began has ended: only the work is measured.
        start = time.perf_counter()
        work(peer)
        torch.cuda.synchronize()
        total += time.perf_counter() - start
    return total / turns / len(peers)


@dataclass(frozen=True, slots=True)
class Limits:
    """Measured in the run they are used in: bytes read and written a second, and one launch."""

    copy_bytes_per_s: float
    launch_s: float

    def floor_s(self, moved_bytes: int, launches: int) -> float:
        """Return the larger of the two limits, which no implementation can beat."""
        return max(moved_bytes / self.copy_bytes_per_s, launches * self.launch_s)


def measured_limits() -> Limits:
    """Measure the bandwidth of a copy, read and write together, and an empty kernel in a graph."""
    # Much larger than any L2, so that the copy is one of device memory.
    source = torch.zeros(COPY_BYTES // 4, dtype=torch.int32, device="cuda")
    target = torch.empty_like(source)
    one = torch.zeros(1, dtype=torch.int32, device="cuda")
    # in a graph a plain copy is the copy engine's, which reached 0.6 of a kernel's on an H200
    ways = (lambda: target.copy_(source), lambda: torch.add(source, 1, out=target))
    copy = min(map(_usual_s, ways))
    launches = _usual_s(lambda: _repeat(lambda: empty_kernel[(1,)](one), EMPTY_LAUNCHES))
    return Limits(2 * COPY_BYTES / copy, launches / EMPTY_LAUNCHES)


def matmul_flop_per_s(dtype: torch.dtype) -> float:
    """Measure the rate of a large square product."""
    shape = (MATMUL_SIZE, MATMUL_SIZE)
    left, right = (torch.randn(shape, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty(shape, device="cuda", dtype=dtype)
    return 2 * MATMUL_SIZE**3 / _usual_s(lambda: torch.mm(left, right, out=out))


def _usual_s(work: Callable[[], object]) -> float:
    """Return the seconds of work replayed as a graph: the median of five rounds of ten."""
    graph = captured(work)
    return statistics.median(event_seconds(graph.replay, 10) for _ in range(5))
