"""An axis of a static picture: where a value is, in pixels, and what is written next to it."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Final

PADDING_SHARE: Final = 0.05
"""Of the range, on both sides of points."""
TICK_PIXELS: Final = {"x": 95, "y": 45}
FEWEST_TICKS: Final = 3
DECADES_WITH_STEPS: Final = 1.6
"""A logarithmic axis shorter than this many decades has ticks at 2 and 5 as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis; numbers of a logarithmic one are held as powers of ten."""

    low: float
    """Value at `start`; may be above `high`, for a reversed axis."""
    high: float
    start: float
    """Pixel of `low`."""
    end: float
    """Pixel of `high`."""
    is_log: bool = False
    names: tuple[str, ...] = ()
    """Names of the categories; a value is then the place of its name."""
    spec: Any = None
    """plotly's axis: title, grid, ticks."""

    @property
    def step(self) -> float:
        """Return the pixels of one unit, as a positive number."""
        return abs((self.end - self.start) / ((self.high - self.low) or 1))

    def number(self, value: Any) -> float | None:
        """Return the value as the number that the axis holds; None for a gap."""
        if self.names:
            return float(self.names.index(str(value))) if str(value) in self.names else None
        number = float(value) if isinstance(value, Real) else math.nan
        if not math.isfinite(number) or (self.is_log and number <= 0):
            return None
        return math.log10(number) if self.is_log else number

    def pixel(self, number: float) -> float:
        """Return where a number of this axis is."""
        share = (number - self.low) / ((self.high - self.low) or 1)
        return self.start + share * (self.end - self.start)

    def place(self, value: Any) -> float | None:
        """Return where a value is; None for a gap."""
        number = self.number(value)
        return None if number is None else self.pixel(number)

    def ticks(self) -> list[tuple[float, str]]:
        """Return (pixel, text) of every tick inside the range."""
        low, high = sorted((self.low, self.high))
        slack = (high - low) * 1e-9
        return [
            (self.pixel(number), text)
            for number, text in self._all_ticks(low, high)
            if low - slack <= number <= high + slack
        ]

    def _all_ticks(self, low: float, high: float) -> Iterator[tuple[float, str]]:
        values, texts = self.spec.tickvals, self.spec.ticktext
        if values is not None:
            for value, text in zip(values, texts if texts is not None else values, strict=True):
                number = self.number(value)
                if number is not None:
                    yield number, str(text)
        elif self.names:
            yield from enumerate(self.names)
        elif self.is_log:
            for number in _decades(low, high):
                yield number, tick_text(10**number, self.spec.tickformat)
        else:
            for number in nice_steps(low, high, self._tick_count(), self.spec.dtick):
                yield number, tick_text(number, self.spec.tickformat)

    def _tick_count(self) -> int:
        pixels = TICK_PIXELS[self.spec.plotly_name[0]]
        fit = max(FEWEST_TICKS, int(abs(self.end - self.start) / pixels))
        return min(fit, int(self.spec.nticks or fit))


def _decades(low: float, high: float) -> list[float]:
    steps = (1, 2, 5) if high - low < DECADES_WITH_STEPS else (1,)
    powers = range(math.floor(low), math.ceil(high) + 1)
    return [power + math.log10(step) for power in powers for step in steps]


def nice_steps(low: float, high: float, count: int, step: float | None = None) -> list[float]:
    """Return about `count` round numbers from low to high: multiples of 1, 2 or 5.

    >>> nice_steps(0, 1056, 5)
    [0, 200, 400, 600, 800, 1000]
    """
    if high <= low:
        return [low]
    if not step:
        rough = (high - low) / max(count, 1)
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def tick_text(value: float, form: str | None) -> str:
    """Return a number of an axis, in percent where plotly's format says so.

    >>> tick_text(0.25, ".0%"), tick_text(2000, ",d")
    ('25%', '2,000')
    """
    if form and form.endswith("%"):
        return f"{100 * value:.4g}%"
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"


def axis_range(
    spec: Any, spans: Sequence[tuple[float, float, bool]], *, is_log: bool
) -> list[float]:
    """Return low and high of an axis; reversed where plotly's axis is.

    spans: (low, high, whether a margin is drawn around them) of everything on it.
    """
    if spec.range is not None:
        return [float(end) for end in spec.range]
    low = min((span[0] for span in spans), default=0.0)
    high = max((span[1] for span in spans), default=1.0)
    if spec.rangemode == "tozero" and not is_log:
        low, high = min(low, 0.0), max(high, 0.0)
    margin = PADDING_SHARE * ((high - low) or 1)
    around = any(span[2] for span in spans)
    keep_zero = low == 0 and not is_log
    ends = [low - margin * (around and not keep_zero), high + margin * (around or keep_zero)]
    return ends[::-1] if spec.autorange == "reversed" else ends


def names_of(values: Iterable[Any]) -> tuple[str, ...]:
    """Return the names on an axis of categories, in order."""
    return tuple(dict.fromkeys(str(value) for value in values if value is not None))
