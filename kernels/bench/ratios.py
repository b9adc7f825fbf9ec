"""Statistics of measurements taken in turn: everything is a ratio within one round."""

import gc
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

ROUNDS = 7
QUICK_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of n values, and the smallest and largest of them."""

    median: float
    low: float
    high: float
    n: int


def spread(values: Sequence[float]) -> Spread:
    """Return median, smallest and largest of the values. ValueError for no values."""
    if not values:
        raise ValueError("a spread needs at least one value")
    return Spread(statistics.median(values), min(values), max(values), len(values))


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean. ValueError for no values, or one that is not above 0."""
    if not values or min(values) <= 0:
        raise ValueError(f"a geometric mean needs values above 0; got {list(values)}")
    return math.exp(statistics.fmean(map(math.log, values)))


def there_and_back(names: Sequence[str]) -> tuple[str, ...]:
    """Return A B B A for A B: a drift that is even during a round cancels out."""
    return (*names, *reversed(names))


def measured_rounds(
    samples: Mapping[str, Callable[[], float]], rounds: int
) -> dict[str, list[float]]:
    """Return name -> seconds per round, the mean of two turns in `there_and_back` order.

    Python's garbage is collected before, and not in between, so no peer pays for another's.
    """
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        return _rounds(samples, rounds)
    finally:
        if was_on:
            gc.enable()


def _rounds(samples: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in samples}
    for _ in range(rounds):
        turns: dict[str, list[float]] = {name: [] for name in samples}
        for name in there_and_back(list(samples)):
            turns[name].append(samples[name]())
        for name, values in turns.items():
            seconds[name].append(statistics.fmean(values))
    return seconds


def round_ratios(of: Sequence[float], to: Sequence[float]) -> list[float]:
    """Return one ratio per round: of / to."""
    return [a / b for a, b in zip(of, to, strict=True)]


def noise_band(again: Sequence[float]) -> Spread:
    """Return the noise band of the same work timed twice, from its ratios per round.

    The smallest and the largest are omitted if there are five: one outlier is not a band, and more
    rounds must not make it wider.
    """
    inner = sorted(again)[1:-1] if len(again) >= 5 else again
    return spread(inner)


def outside_band(ratio: float, band: Spread) -> float:
    """Return the ratio, or 1.0 if it is within the noise band.

    `band` is what `noise_band` gives; it counts in both directions.
    """
    width = max(band.high, 1 / band.low)
    return 1.0 if 1 / width <= ratio <= width else ratio
