"""The statistics of measurements taken in turn, by property."""

import gc
import math

import pytest

pytest.importorskip("torch")
pytest.importorskip("hypothesis")

import hypothesis.strategies as st
from hypothesis import assume, given, settings

from workbench.kernels.bench.peers import PeerKind
from workbench.kernels.bench.ratios import (
    AGAIN,
    compared,
    measured_rounds,
    noise_band,
    outside_band,
    round_ratios,
    scores,
    spread,
)
from workbench.kernels.bench.results import Score, Spread, StepRow
from workbench.kernels.bench.run import Plan

RATIOS = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20)


@given(RATIOS)
def test_a_spread_holds_its_values(values):
    found = spread(values)
    assert found.low <= found.median <= found.high
    assert (found.low, found.high, found.n) == (min(values), max(values), len(values))


def test_no_values_have_no_spread():
    with pytest.raises(ValueError, match="no median"):
        spread([])


def test_two_alternate_a_b_b_a():
    seen = []
    samples = {name: lambda n=name: seen.append(n) or 1.0 for name in "AB"}
    measured_rounds(samples, 3)
    assert "".join(seen) == "ABBA" * 3


@pytest.mark.thorough
@settings(max_examples=10)  # each collects garbage
@given(st.floats(-5e-3, 5e-3), st.integers(1, 8), st.integers(2, 5))
def test_an_even_drift_cancels_out(drift, rounds, peers):
    clock = iter(range(10_000))
    samples = {str(i): lambda: 10.0 + drift * next(clock) for i in range(peers)}
    seconds = measured_rounds(samples, rounds)
    for values in seconds.values():
        assert len(values) == rounds
        assert round_ratios(values, seconds["0"]) == pytest.approx([1.0] * rounds)


@given(st.floats(0.01, 100), st.floats(0.5, 1), st.floats(1, 2))
def test_what_noise_can_do_is_reported_as_1(ratio, low, high):
    assume(abs(ratio - 1) > 1e-6)
    band = Spread(1.0, low, high, 5)
    inside = outside_band(ratio, band) == 1.0
    width = max(high, 1 / low)
    assert inside == (1 / width <= ratio <= width)
    assert inside == (outside_band(1 / ratio, band) == 1.0) or math.isclose(
        max(ratio, 1 / ratio), width
    )


@given(st.lists(st.floats(0.9, 1.1), min_size=5, max_size=9), st.floats(2, 100))
def test_one_outlier_is_not_a_band(again, hiccup):
    quiet, disturbed = noise_band(again), noise_band([*again, hiccup])
    assert disturbed.high <= max(again)
    assert min(again) <= quiet.low <= quiet.median <= quiet.high <= max(again)


def test_few_rounds_are_all_noise():
    assert noise_band([1.0, 3.0, 0.5]) == Spread(1.0, 0.5, 3.0, 3)
    assert noise_band([1.0, 3.0, 0.5, 2.0]) == Spread(1.5, 0.5, 3.0, 4)
    assert noise_band([1.0, 3.0, 0.5, 2.0, 9.0]) == Spread(2.0, 1.0, 3.0, 3)


def test_the_median_of_all_rounds_is_one_of_them():
    quick, full = (Plan((), quick, print).rounds for quick in (True, False))
    assert quick % 2 == full % 2 == 1
    assert 5 <= quick < full  # so that an outlier is not noise


def test_no_garbage_is_collected_while_it_is_timed():
    on = []
    measured_rounds({"a": lambda: on.append(gc.isenabled()) or 1.0}, 2)
    assert on == [False] * 4
    assert gc.isenabled()


def test_a_difference_within_the_noise_is_not_a_difference():
    noisy = iter([1.0, 1.2, 1.0, 1.2] * 50)
    kinds = {name: PeerKind(name, None, f"of {name}") for name in ("fast", "close", "far")}
    samples = {
        kinds["fast"]: lambda: next(noisy),
        kinds["close"]: lambda: 1.12,
        kinds["far"]: lambda: 5.0,
    }
    rows = {row.peer: row for row in compared("W1", "step", "wall", samples, 5)}
    assert set(rows) == {"fast", "close", "far", AGAIN}
    assert rows["fast"].ratio.median == 1.0
    assert rows["far"].us.median == pytest.approx(5e6)
    assert rows["close"].us.median == pytest.approx(1.12e6)
    assert rows["close"].ratio.median == pytest.approx(1.12 / 1.1)
    assert [row.source for row in rows.values()] == ["of fast", "of close", "of far", "of fast"]
    assert rows["far"].reported == rows["far"].ratio.median > 4
    assert all(row.ratio.n == row.us.n == 5 for row in rows.values())


def row(workload, peer, reported, clock="wall", piece="step"):
    one = Spread(1.0, 1.0, 1.0, 1)
    return StepRow(workload, piece, clock, peer, "", one, one, reported)


def test_a_score_is_over_whole_steps_of_others():
    rows = [row("W1", "vllm", 2.0), row("W2", "vllm", 8.0), row("W1", "vllm", 3.0, "gpu hot")]
    rows += [row("W1", "fast", 1.0), row("W1", AGAIN, 1.0), row("W3", "vllm", 99.0, piece="slots")]
    wall, hot = scores(rows)
    assert wall == Score("wall", "vllm", pytest.approx(4.0), 2)
    assert hot == Score("gpu hot", "vllm", pytest.approx(3.0), 1)
