"""What the clocks of a GPU count: CUDA's events are stood in for by a clock that the test moves."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from workbench.kernels.bench import gpu_clock
from workbench.kernels.bench.gpu_clock import (
    COPY_BYTES,
    EMPTY_LAUNCHES,
    FLUSH_BYTES,
    MATMUL_SIZE,
    Limits,
    StepGraphs,
    TooNoisyError,
    captured,
    cold_samples,
    event_seconds,
    matmul_flop_per_s,
    measured_limits,
    wall_s,
)

STEP_S, FLUSH_S = 0.25, 4.0


class Clock:
    """Seconds that have passed on the device, and which of them were waited for."""

    def __init__(self):
        self.now = 0.0
        self.waited = 0.0

    def pass_by(self, seconds):
        self.now += seconds

    def wait(self):
        self.waited = self.now


@pytest.fixture
def clock(monkeypatch):
    """The clock of a device whose events have times as CUDA's do: in milliseconds, if requested."""
    found = Clock()

    class Event:
        def __init__(self, *, enable_timing=False):
            self.enable_timing = enable_timing

        def record(self):
            self.at = found.now

        def synchronize(self):
            found.wait()

        def elapsed_time(self, end):
            if not (self.enable_timing and end.enable_timing):
                raise RuntimeError("an event was made without timing")
            if found.waited < end.at:
                raise RuntimeError("the event has not ended")
            return (end.at - self.at) * 1e3

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", found.wait)
    monkeypatch.setattr(gpu_clock, "flush_l2", lambda: found.pass_by(FLUSH_S))
    monkeypatch.setattr(gpu_clock.time, "perf_counter", lambda: found.waited)
    return found


@pytest.mark.parametrize("times", [1, 4])
def test_events_give_the_mean_seconds_of_a_call(clock, times):
    assert event_seconds(lambda: clock.pass_by(STEP_S), times) == STEP_S
    assert clock.now == STEP_S * times
    assert event_seconds(lambda: clock.pass_by(STEP_S)) == STEP_S
    assert clock.now == STEP_S * (times + 1)


def test_calls_on_cold_memory_are_measured_without_their_flushes(clock):
    first = 8.0  # it compiles
    steps = iter([first, 0.25, 0.5, 0.75])
    assert cold_samples(lambda: clock.pass_by(next(steps)), 3) == [0.25, 0.5, 0.75]
    assert clock.now == first + 1.5 + 3 * FLUSH_S


def test_the_wall_has_a_call_until_its_work_ends_and_nothing_from_before(clock):
    called = []

    def work(peer):
        called.append(peer)
        clock.pass_by(STEP_S * peer)

    mean = wall_s([1, 2], work, before=lambda _peer: clock.pass_by(FLUSH_S), turns=3)
    assert called == [1, 2] * 3
    assert mean == 1.5 * STEP_S
    called.clear()
    assert wall_s([3], work) == 3 * STEP_S
    assert called == [3, 3]


def test_memory_is_flushed_and_copied_in_amounts_that_no_l2_holds():
    l2_of_an_h100 = 50 * 2**20
    assert 3 * l2_of_an_h100 < FLUSH_BYTES
    assert COPY_BYTES > 3 * FLUSH_BYTES


def test_the_floor_is_the_slower_of_the_copy_and_the_launches():
    limits = Limits(copy_bytes_per_s=1e12, launch_s=2e-6)
    assert limits.floor_s(5_000_000, 2) == 5e-6
    assert limits.floor_s(5_000_000, 3) == 6e-6


@pytest.fixture
def graphs(clock, monkeypatch):
    """CUDA's streams and graphs: what is captured takes its time when it is replayed."""
    streams, log = ["main"], []

    class Stream:
        name = "other"

        def wait_stream(self, stream):
            log.append(f"{self.name} waits for {stream.name}")

    class Graph:
        def replay(self):
            clock.pass_by(self.seconds)

    @contextmanager
    def on(stream):
        streams.append(stream.name)
        yield
        streams.pop()

    @contextmanager
    def capture(graph):
        before = clock.now
        log.append("capture")
        yield
        graph.seconds, clock.now = clock.now - before, before

    def wait():
        log.append("wait")
        clock.wait()

    main = Stream()
    main.name = "main"
    for name, value in {
        "Stream": Stream,
        "CUDAGraph": Graph,
        "stream": on,
        "graph": capture,
        "current_stream": lambda: main,
        "synchronize": wait,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return SimpleNamespace(log=log, streams=streams)


def test_work_is_captured_after_a_run_that_has_ended(clock, graphs):
    def work():
        graphs.log.append(f"work on {graphs.streams[-1]}")
        clock.pass_by(STEP_S)

    graph = captured(work)
    warm_up = ["other waits for main", "work on other", "main waits for other", "wait"]
    assert graphs.log == [*warm_up, "capture", "work on main"]
    assert clock.now == STEP_S
    graph.replay()
    assert clock.now == 2 * STEP_S


class TimedPeer:
    def __init__(self, clock, seconds, launched):
        self.clock, self.seconds, self.launched = clock, seconds, launched

    def launch(self, piece):
        self.launched.append((self.seconds, piece))
        self.clock.pass_by(self.seconds)


@pytest.mark.parametrize(("wanted", "turns"), [(5, 2), (1, 1)])
@pytest.mark.usefixtures("graphs")
def test_a_step_is_the_mean_of_all_input_sets_without_their_flushes(clock, wanted, turns):
    launched = []
    peers = [TimedPeer(clock, seconds, launched) for seconds in (0.125, 0.25)]
    made = StepGraphs(peers, "slots", wanted)
    # both graphs run once before they are captured
    assert launched == [(0.125, "slots"), (0.25, "slots")] * turns * 4
    assert made.hot_s() == made.cold_s() == 0.1875
    before = clock.now
    made.run_once()
    assert clock.waited == clock.now == before + turns * 0.375


@pytest.mark.usefixtures("graphs")
def test_a_step_that_a_flush_hides_has_no_cold_time(clock):
    made = StepGraphs([TimedPeer(clock, 0.0, [])], steps_wanted=1)
    with pytest.raises(TooNoisyError):
        made.cold_s()


def test_what_is_usual_is_the_median_of_five_rounds_of_ten(clock, monkeypatch):
    rounds = [0.5, 0.25, 8.0, 0.125, 4.0]
    replays = iter([seconds for seconds in rounds for _ in range(10)])
    graph = SimpleNamespace(replay=lambda: clock.pass_by(next(replays)))
    monkeypatch.setattr(gpu_clock, "captured", lambda _work: graph)
    assert gpu_clock._usual_s(lambda: None) == 0.5
    assert clock.now == 10 * sum(rounds)


@pytest.fixture
def without_memory(monkeypatch):
    """Let tensors of a GPU have shapes and types alone."""
    plain = torch.empty

    def make(shape, *, device, dtype):
        assert device == "cuda"
        return plain(shape, device="meta", dtype=dtype)

    for name in ("zeros", "randn", "empty"):
        monkeypatch.setattr(torch, name, make)


@pytest.mark.usefixtures("without_memory")
def test_a_flush_reads_all_of_the_other_memory(monkeypatch):
    read = []
    monkeypatch.setattr(torch, "amax", lambda memory, axis, out: read.append((memory, axis, out)))
    gpu_clock._other_memory.cache_clear()
    gpu_clock.flush_l2()
    gpu_clock._other_memory.cache_clear()
    [(memory, axis, out)] = read
    assert (memory.nbytes, memory.ndim, axis, out.ndim) == (FLUSH_BYTES, 1, 0, 0)


@pytest.mark.usefixtures("without_memory")
def test_the_limits_are_those_of_the_quicker_copy_and_of_one_launch(monkeypatch):
    times, started, copied = iter([4.0, 3.0, 1.0]), [], []

    def usual(work):
        work()
        return next(times)

    monkeypatch.setattr(gpu_clock, "_usual_s", usual)
    monkeypatch.setattr(gpu_clock, "empty_kernel", {(1,): started.append})
    monkeypatch.setattr(torch, "add", lambda source, _one, out: copied.append((source, out)))
    limits = measured_limits()
    assert [one.nbytes for one in copied[0]] == [COPY_BYTES] * 2
    assert limits.copy_bytes_per_s == 2 * COPY_BYTES / 3.0
    assert limits.launch_s == 1.0 / EMPTY_LAUNCHES
    assert len(started) == EMPTY_LAUNCHES


@pytest.mark.usefixtures("without_memory")
def test_a_product_of_squares_has_two_operations_for_each_of_its_pairs(monkeypatch):
    def usual(work):
        work()
        return 3.0

    monkeypatch.setattr(gpu_clock, "_usual_s", usual)
    product = []
    monkeypatch.setattr(torch, "mm", lambda *given, out: product.extend([*given, out]))
    assert matmul_flop_per_s(torch.bfloat16) == 2 * MATMUL_SIZE**3 / 3.0
    assert {(*one.shape, one.dtype) for one in product} == {
        (MATMUL_SIZE, MATMUL_SIZE, torch.bfloat16)
    }
