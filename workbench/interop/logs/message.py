"""One kind of log line: how to find it, its values, and how they compare with the rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from workbench.core.plan import Plan

Values = Mapping[str, Any]
TEXTS = frozenset({"version"})
"""Values that stay text, even if they look like numbers."""
NUMBER = re.compile(r"-?[\d,]*\d(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Compare:
    """One value of a line against the plan."""

    value: str
    of: Callable[[Plan], Any]
    rules: tuple[str, ...] = ()
    """Steps of the trace that lead to the plan's value, in order."""
    unit: str = ""
    tolerance: float = 0.0
    rounded: bool = False
    """The log's value follows from a rounded number of GiB, so it may be between two plans."""
    is_size: bool = False
    """The value follows from model, dtypes and backend alone, so it can be looked for in other
    scenarios."""
    otherwise: Callable[[Plan, Any], str | None] = lambda _plan, _value: None
    """What else the log's value may be; None where that does not fit either."""

    def agrees(self, said: Any, expected: Any) -> bool:
        """Return whether the two are equal, to the precision that the log prints."""
        if isinstance(said, int | float) and isinstance(expected, int | float):
            return abs(said - expected) <= self.tolerance
        return bool(said == expected)


def nothing(_values: Values) -> dict[str, Any]:
    """Return no fields of a scenario."""
    return {}


@dataclass(frozen=True, slots=True)
class Message:
    """One message of vLLM: an entry of the registry."""

    name: str
    begins: str
    """Words that every wording of it holds, to find it."""
    pattern: re.Pattern[str]
    """The whole message, its values as named groups (integers and decimals become numbers)."""
    means: str
    """In our own words, like `advice`."""
    advice: str = ""
    fields: Callable[[Values], dict[str, Any]] = nothing
    """Scenario fields that the line gives, weaker than explicit ones."""
    compares: tuple[Compare, ...] = ()
    codes: tuple[str, ...] = ()
    """Problems and refusals of a plan that mean this message; those whose vllm_text holds `begins`
    do so without being listed."""
    is_distinct: bool = True
    """Nothing else holds `begins`."""
    is_dump: bool = False
    """Ends in a printed configuration, which may be hundreds of lines when wrapped."""
    is_explicit: bool = False
    """The fields are what the user set, not what vLLM made of it."""
    is_fatal: bool = False
    """The start ends with this message."""

    def matches_problem(self, code: str, vllm_text: str | None) -> bool:
        """Return whether a problem or a refusal of the rules is this message."""
        return code in self.codes or (
            self.is_distinct and vllm_text is not None and self.begins in vllm_text
        )

    def read(self, text: str) -> dict[str, Any] | None:
        """Return the values of this message in `text`; None if it is not there as a whole."""
        found = self.pattern.search(text)
        if found is None:
            return None
        values = found.groupdict().items()
        return {name: value if name in TEXTS else _value(value) for name, value in values if value}

    def reads_to_the_end(self, text: str) -> bool:
        """Return whether its last value ends with the text, and would continue if the text did."""
        found = self.pattern.search(text)
        return found is not None and any(found.end(name) == len(text) for name in found.groupdict())


def message(
    name: str,
    begins: str,
    pattern: str,
    means: str,
    advice: str = "",
    **more: Any,
) -> Message:
    """Return a message whose pattern has single spaces: any white space matches them."""
    spaced = re.sub(r" ", r"\\s+", pattern)
    return Message(
        name=name, begins=begins, pattern=re.compile(spaced), means=means, advice=advice, **more
    )


fatal = partial(message, is_fatal=True)
"""A message with which a start ends."""


def _value(text: str) -> Any:
    if NUMBER.fullmatch(text):
        plain = text.replace(",", "")
        return float(plain) if "." in plain else int(plain)
    return text
