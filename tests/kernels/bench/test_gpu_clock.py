"""What the clocks of a GPU count: CUDA's events are stood in for by a clock that the test moves."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from workbench.kernels.bench import gpu_clock
from workbench.kernels.bench.gpu_clock import (
    COPY_BYTES,
    FLUSH_BYTES,
    Limits,
    cold_samples,
    event_seconds,
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

    mean = wall_s([1, 3], work, before=lambda _peer: clock.pass_by(FLUSH_S), turns=2)
    assert called == [1, 3, 1, 3]
    assert mean == 2 * STEP_S


def test_memory_is_flushed_and_copied_in_amounts_that_no_l2_holds():
    l2_of_an_h100 = 50 * 2**20
    assert 3 * l2_of_an_h100 < FLUSH_BYTES
    assert COPY_BYTES > 3 * FLUSH_BYTES


def test_the_floor_is_the_slower_of_the_copy_and_the_launches():
    limits = Limits(copy_bytes_per_s=1e12, launch_s=2e-6)
    assert limits.floor_s(5_000_000, 2) == 5e-6
    assert limits.floor_s(5_000_000, 3) == 6e-6
