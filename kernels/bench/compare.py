"""Peers timed in turn against the first of them, with the noise band of the same run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.kernels.bench.ratios import (
    geometric_mean,
    measured_rounds,
    noise_band,
    outside_band,
    round_ratios,
    spread,
)
from workbench.kernels.bench.rows import Score, StepRow

AGAIN = "fast, again"


def compared(
    workload: str,
    piece: str,
    clock: str,
    samples: Mapping[Any, Callable[[], float]],
    rounds: int,
) -> list[StepRow]:
    """Return one row per peer. The first peer is timed twice: the difference is noise.

    samples: anything with a name and a source -> how to take one.
    """
    first, *_ = samples
    named = {kind.name: sample for kind, sample in samples.items()}
    sources = {kind.name: kind.source for kind in samples} | {AGAIN: first.source}
    seconds = measured_rounds({**named, AGAIN: samples[first]}, rounds)
    band = noise_band(round_ratios(seconds[AGAIN], seconds[first.name]))
    rows = []
    for name, values in seconds.items():
        ratio = spread(round_ratios(values, seconds[first.name]))
        us = spread([value * 1e6 for value in values])
        shown = outside_band(ratio.median, band)
        rows.append(StepRow(workload, piece, clock, name, sources[name], us, ratio, shown))
    return rows


def scores(rows: Sequence[StepRow], fast: str, piece: str = "step") -> list[Score]:
    """Return one score per clock and peer except the fast path, for whole steps or one piece."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row.piece == piece and row.peer not in {fast, AGAIN}:
            found.setdefault((row.clock, row.peer), []).append(row.reported)
    return [
        Score(clock, peer, geometric_mean(ratios), len(ratios))
        for (clock, peer), ratios in found.items()
    ]
