"""Peers timed in turn against the first of them: everything is a ratio within one round."""

import gc
import statistics
from collections.abc import Callable, Mapping, Sequence

from workbench.kernels.bench.peers import FAST, PeerKind
from workbench.kernels.bench.results import Score, Spread, StepRow

ROUNDS = 7
QUICK_ROUNDS = 5
AGAIN = "fast, again"

Sample = Callable[[], float]
"""Measures once; seconds."""


def spread(values: Sequence[float]) -> Spread:
    """Return median, smallest and largest of the values. ValueError for no values."""
    return Spread(statistics.median(values), min(values), max(values), len(values))


def measured_rounds(samples: Mapping[str, Sample], rounds: int) -> dict[str, list[float]]:
    """Return name -> seconds per round, the mean of two turns in opposite orders."""
    seconds: dict[str, list[float]] = {name: [] for name in samples}
    # no peer pays for another's garbage
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            # A B B A: an even drift cancels out
            there = {name: sample() for name, sample in samples.items()}
            back = {name: samples[name]() for name in [*samples][::-1]}
            for name, values in seconds.items():
                values.append((there[name] + back[name]) / 2)
    finally:
        if was_on:
            gc.enable()
    return seconds


def round_ratios(of: Sequence[float], to: Sequence[float]) -> list[float]:
    """Return one ratio per round: of / to."""
    return [a / b for a, b in zip(of, to, strict=True)]


def noise_band(again: Sequence[float]) -> Spread:
    """Return the noise band of the same work timed twice, from its ratios per round."""
    # one outlier is not a band, and more rounds must not make it wider
    return spread(sorted(again)[1:-1] if len(again) >= 5 else again)


def outside_band(ratio: float, band: Spread) -> float:
    """Return the ratio, or 1.0 if it is within the noise band, which counts in both directions."""
    # Which of two equal runs came first is chance, so the band is as wide below 1 as above.
    width = max(band.high, 1 / band.low)
    return 1.0 if 1 / width <= ratio <= width else ratio


def compared(
    workload: str, piece: str, clock: str, samples: Mapping[PeerKind, Sample], rounds: int
) -> list[StepRow]:
    """Return one row per peer. The first peer is timed twice: the difference is noise."""
    first, *_ = samples
    named = {kind.name: sample for kind, sample in samples.items()}
    sources = {kind.name: kind.source for kind in samples} | {AGAIN: first.source}
    seconds = measured_rounds({**named, AGAIN: samples[first]}, rounds)
    band = noise_band(round_ratios(seconds[AGAIN], seconds[first.name]))
    ratios = {n: spread(round_ratios(values, seconds[first.name])) for n, values in seconds.items()}
    return [
        StepRow(
            workload=workload,
            piece=piece,
            clock=clock,
            peer=name,
            source=sources[name],
            us=spread([value * 1e6 for value in values]),
            ratio=ratios[name],
            reported=outside_band(ratios[name].median, band),
        )
        for name, values in seconds.items()
    ]


def scores(rows: Sequence[StepRow], pieces: Sequence[str] = ("step",)) -> list[Score]:
    """Return one score per piece, clock and peer except the fast one."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        if row.piece in pieces and row.peer not in {FAST, AGAIN}:
            found.setdefault((row.piece, row.clock, row.peer), []).append(row.reported)
    return [
        Score(clock, peer, statistics.geometric_mean(ratios), len(ratios))
        for (_piece, clock, peer), ratios in found.items()
    ]
