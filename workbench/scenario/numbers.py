"""Kinds of scenario fields that are numbers: counts, bytes, shares."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from workbench.core.arithmetic import LARGEST_INT32
from workbench.core.sizes import bytes_of, integer_value, invalid, parse_bytes
from workbench.scenario.kinds import JsonSchema, Kind

MAX_BYTES = 2**50
SMALLEST_SHARE = 0.01


@dataclass(frozen=True)
class Integer(Kind):
    """An integer from low to high.

    named: further values by the word that vLLM's command line takes for them. step: the nearest
    valid value is a multiple of it.
    """

    expected = "an integer"
    json: ClassVar[JsonSchema] = {"type": "integer"}
    low: int = 1
    high: int = LARGEST_INT32
    named: Mapping[str, int] = field(default_factory=dict)
    step: int = 1
    unit: str = ""

    def check(self, name: str, value: Any, rules: str) -> None:
        """See `Kind.check`."""
        if self.low <= value <= self.high or value in self.named.values():
            return
        limits = f"an integer from {self.low} to {self.high}."
        near = f" Nearest valid value: {self._nearest(value)}."
        raise invalid("out_of_range", name, value, limits + near)

    def hint(self, given: object) -> str:
        """See `Kind.hint`."""
        try:
            value = int(float(given))  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            return ""
        return f" Nearest valid value: {self._nearest(value)}."

    def _nearest(self, value: int) -> int:
        inside = min(max(value, self.low), self.high)
        return max(self.step, inside // self.step * self.step) if self.step > 1 else inside

    def schema(self, *, nullable: bool) -> JsonSchema:
        """See `Kind.schema`."""
        limits = {"minimum": self.low, "maximum": self.high}
        number = {**super().schema(nullable=nullable), **limits}
        further = [{"const": value} for value in self.named.values()]
        return {"anyOf": [number, *further]} if further else number

    def read(self, value: Any) -> Any:
        """See `Kind.read`."""
        if not isinstance(value, str):
            return value
        return self.named.get(value, integer_value(value))

    def parse(self, name: str, text: str) -> Any:
        """See `Kind.parse`; commas between thousands are accepted, and 32k."""
        plain = text.strip().replace(",", "")
        value = integer_value(plain) if plain else None
        if isinstance(value, str):
            expected = f"an integer, or empty if vLLM is to decide.{self.hint(plain)}"
            raise invalid("wrong_type", name, plain, expected)
        return value


Tokens = partial(Integer, unit="tokens")


@dataclass(frozen=True)
class OneOf(Integer):
    """One of some integers."""

    of: tuple[int, ...] = ()
    is_listed = True

    def candidates(self, rules: str) -> tuple[int, ...]:
        """See `Kind.candidates`."""
        return self.of

    def check(self, name: str, value: Any, rules: str) -> None:
        """See `Kind.check`."""
        if value not in self.of:
            near = min(self.of, key=lambda one: abs(one - value))
            expected = f"one of {', '.join(map(str, self.of))}. Nearest valid value: {near}."
            raise invalid("out_of_range", name, value, expected)

    def schema(self, *, nullable: bool) -> JsonSchema:
        """See `Kind.schema`."""
        return {"enum": [*self.of, *([None] if nullable else [])]}


@dataclass(frozen=True)
class Count(Integer):
    """How many items; vLLM also takes an object with their sizes, which says nothing here."""

    low: int = 0

    def read(self, value: Any) -> Any:
        """See `Kind.read`."""
        if not isinstance(value, Mapping):
            return super().read(value)
        return value["count"] if [*value] == ["count"] else None


WITH_UNIT = {"type": "string", "description": 'with a unit: "20 GiB"'}


@dataclass(frozen=True)
class Bytes(Integer):
    """A size in bytes; a text with its unit, such as "20 GiB", is accepted too."""

    low: int = 0
    high: int = MAX_BYTES
    unit: str = "bytes"

    def clean(self, name: str, value: Any) -> Any:
        """See `Kind.clean`."""
        return bytes_of(value, name)

    def check(self, name: str, value: Any, rules: str) -> None:
        """See `Kind.check`; a small size where only large ones exist has lost its unit."""
        if 0 < value < self.low:
            parse_bytes(str(value), name)
        super().check(name, value, rules)

    def schema(self, *, nullable: bool) -> JsonSchema:
        """See `Kind.schema`."""
        return {"anyOf": [super().schema(nullable=nullable), WITH_UNIT]}

    def parse(self, name: str, text: str) -> Any:
        """See `Kind.parse`; a number without its unit is refused, not guessed."""
        return parse_bytes(text, name)

    def format(self, value: Any) -> str:
        """See `Kind.format`."""
        return "" if value is None else f"{value} B"


class Several(Kind):
    """A list of numbers: one for each rank, or for each stage."""

    item = "an integer"

    def __init__(self, one: Integer, each: str) -> None:
        """Take the kind of one number, and what each is: "size per rank"."""
        self.one, self.each, self.unit = one, each, one.unit
        self.expected = f"a list with one {each}"

    def clean(self, name: str, value: Any) -> Any:
        """See `Kind.clean`."""
        if isinstance(value, list | tuple):
            return tuple(self.one.clean(name, number) for number in value)
        return self.parse(name, value) if isinstance(value, str) else value

    def check(self, name: str, value: Any, rules: str) -> None:
        """See `Kind.check`."""
        low, high = self.one.low, self.one.high
        if value and all(low <= number <= high for number in value):
            return
        nearest = [min(max(number, low), high) for number in value] or None
        limits = f"from {low} to {high} {self.unit}. Nearest valid value: {nearest}."
        raise invalid("out_of_range", name, value, f"one {self.each}, {limits}")

    def schema(self, *, nullable: bool) -> JsonSchema:
        """See `Kind.schema`."""
        types = ["array", "null"] if nullable else "array"
        return {"type": types, "minItems": 1, "items": self.one.schema(nullable=False)}

    def read(self, value: Any) -> Any:
        """See `Kind.read`; another text stays, and the scenario refuses it."""
        numbers = map(integer_value, value.split(",")) if isinstance(value, str) else value
        return tuple(numbers) if isinstance(value, str | list) else value

    def write(self, value: Any) -> Any:
        """See `Kind.write`."""
        return list(value)

    def parse(self, name: str, text: str) -> Any:
        """See `Kind.parse`; the numbers are separated by commas."""
        if not text.strip():
            return None
        numbers = (self.one.parse(name, number) for number in text.split(","))
        return tuple(number for number in numbers if number is not None)

    def format(self, value: Any) -> str:
        """See `Kind.format`."""
        return ", ".join(map(self.one.format, value or ()))


class Share(Kind):
    """A share of something: above 0, at most 1."""

    expected = "a number"
    json: ClassVar[JsonSchema] = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}

    def check(self, name: str, value: Any, rules: str) -> None:
        """See `Kind.check`."""
        if 0 < value <= 1:
            return
        near = f" Nearest valid value: {1 if value > 1 else SMALLEST_SHARE}."
        percent = f" {value:g} % is {value / 100:g}." if 1 < value <= 100 else ""
        raise invalid("out_of_range", name, value, f"above 0 and at most 1.{near}{percent}")

    def read(self, value: Any) -> Any:
        """See `Kind.read`; a text that is not a number stays, and the scenario refuses it."""
        try:
            return float(value)
        except (TypeError, ValueError):
            return value

    def parse(self, name: str, text: str) -> Any:
        """See `Kind.parse`."""
        if not text.strip():
            return None
        if isinstance(share := self.read(text), float):
            return share
        expected = "a number above 0 and at most 1, or empty if vLLM is to decide."
        raise invalid("wrong_type", name, text.strip(), expected)
