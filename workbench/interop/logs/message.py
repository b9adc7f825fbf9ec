"""One kind of log line: how to find it, its values, and how they compare with the rules."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from workbench.core.arithmetic import GIB
from workbench.core.plan import Plan
from workbench.scenario import FIELDS

HALF_A_HUNDREDTH_GIB = GIB // 200
"""How far a number of GiB with two decimals can be from the bytes."""
Values = Mapping[str, Any]
TEXTS = frozenset({"version"})
"""Values that stay text, even if they look like numbers."""
OUTCOMES = frozenset({"block_size", "backend"})
"""Values that are usually what vLLM made of the fields of these names."""
NUMBER = re.compile(r"-?[\d,]{0,23}\d(?:\.\d{1,18})?")
"""What vLLM prints for sizes and counts: 18 digits hold every one."""
NUMBER_LIKE = re.compile(r"[-\d.,]+|[\[(][\d,\s]*[\])]")
SIZES = re.compile(r"[\[(]\d{1,18}(?:,\s*\d{1,18})*,?[\])]")
"""A printed list or tuple of integers."""


@dataclass(frozen=True, slots=True)
class Compare:
    """One value of a line against the plan."""

    value: str
    of: str | Callable[[Plan], Any] = ""
    """Where the plan has it; by default under the same name."""
    rules: tuple[str, ...] | None = None
    """Steps of the trace that lead to the plan's value, in order; by default the one so named."""
    unit: str = ""
    digits: int | None = None
    """Decimals that the log prints."""
    tolerance: float = 0.0
    rounded: bool = False
    """The log's value follows from a rounded number of GiB, so it may be between two plans."""
    is_size: bool = False
    """The value follows from model, dtypes and backend alone, so it can be looked for in other
    scenarios."""
    is_target: bool = False
    """The value is looked for in other scenarios; all of `is_size` are."""
    otherwise: Callable[[Plan, Any], str | None] = lambda _plan, _value: None
    """What else the log's value may be; None where that does not fit either."""
    before: Callable[[Plan], Any] | None = None
    """The value as older versions counted it."""
    of_checkpoint: bool = False
    """The value follows from how the checkpoint is quantized as well."""
    unknown: str = "the memory for it is unknown"
    """Why the plan may lack the value."""
    fits: Callable[[Plan, Any, int | None], bool] = lambda _plan, _value, _blocks: False
    """Whether a pool that differs by at most so many blocks gives the value; None: any pool."""

    cannot_be: Callable[[Plan, Any], bool] = lambda _plan, _value: False
    """Whether no pool of any version gives the value that `fits` does not."""

    def expected(self, plan: Plan) -> Any:
        """Return the plan's value; None if it is `unknown`."""
        value: Any = plan
        if callable(self.of):
            value = self.of(plan)
        else:
            for name in (self.of or self.value).split("."):
                value = None if value is None else getattr(value, name)
        return value if value is None or self.digits is None else round(value, self.digits)

    def has(self, plan: Plan, said: Any) -> bool:
        """Return whether the plan has the value, as this or as older versions count it."""
        expected = self.expected(plan)
        if expected is None:
            return self.fits(plan, said, None)
        older = self.before(plan) if self.before is not None else None
        if self.agrees(said, expected) or self.agrees(said, older):
            return True
        return self.rounded and self.fits(plan, said, _rounded_blocks(plan))

    def agrees(self, said: Any, expected: Any) -> bool:
        """Return whether the two are equal, to the precision that the log prints.

        A tuple has what several lines print, one each.
        """
        if isinstance(expected, tuple) and isinstance(said, int):
            return said in expected
        if isinstance(said, int | float) and isinstance(expected, int | float):
            return abs(said - expected) <= self.tolerance
        return bool(said == expected)

    def steps(self, plan: Plan) -> list[str]:
        """Return the steps of the trace that lead to the plan's value, with their sources."""
        rules = (self.value,) if self.rules is None else self.rules
        return [
            f"{step} [{step.source}]"
            for rule in rules
            for step in plan.steps
            if step.rule.name == rule
        ]


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
    advice: str | Callable[[Values, Values], str] = ""
    """What to change, with values in braces; a function of the values and of what the scenario
    decides."""
    fields: Callable[[Values], Mapping[str, Any]] = lambda _values: {}
    """Scenario fields that the line gives in addition to the values that are named like one; None
    is nothing."""
    compares: tuple[Compare, ...] = ()
    codes: tuple[str, ...] = ()
    """Problems and refusals of a plan that mean this message; those whose vllm_text holds `begins`
    do so without being listed."""
    is_distinct: bool = True
    """Nothing else holds `begins`."""
    is_dump: bool = False
    """Ends in a printed configuration, which may be hundreds of lines when wrapped."""
    is_command: bool = False
    """A command line, whose lines end in a backslash where it goes on."""
    is_explicit: bool = False
    """The fields are what the user set, not what vLLM made of it."""
    is_fatal: bool = False
    """The start ends with this message."""
    since: str | None = None
    """The rule set whose release prints it and the one before does not."""

    def advise(self, values: Values, scenario: Values) -> tuple[str, ...]:
        """Return what to change. scenario: fields, as the rules decide them where they do."""
        advice = self.advice
        advice = advice(values, scenario) if callable(advice) else advice.format_map(values)
        return (advice,) if advice else ()

    def matches_problem(self, code: str, vllm_text: str | None) -> bool:
        """Return whether a problem or a refusal of the rules is this message."""
        return code in self.codes or (
            self.is_distinct and vllm_text is not None and self.begins in vllm_text
        )

    def read(self, text: str) -> dict[str, Any] | None:
        """Return the values of this message in `text`; None if it is not there as a whole.

        A number that vLLM cannot have printed (`1.5.35`, 5,000 digits) makes it another text.
        """
        found = self.pattern.search(text)
        if found is None:
            return None
        values = {name: value for name, value in found.groupdict().items() if value}
        read = {name: value if name in TEXTS else _value(value) for name, value in values.items()}
        return None if None in read.values() else read

    def reads_to_the_end(self, text: str) -> bool:
        """Return whether its last value ends with the text, and would continue if the text did."""
        found = self.pattern.search(text)
        return found is not None and any(found.end(name) == len(text) for name in found.groupdict())

    def given(self, values: Values) -> dict[str, Any]:
        """Return the scenario fields that a line with these values gives; explicit ones win."""
        named = {
            name: FIELDS[name].kind.read(value)
            for name, value in values.items()
            if name in FIELDS and name not in OUTCOMES
        }
        both = {**named, **self.fields(values)}
        return {name: value for name, value in both.items() if value is not None}


def _rounded_blocks(plan: Plan) -> int:
    """Return by how many blocks the pool may differ, as its memory is printed rounded."""
    cache = plan.cache
    if cache is None or not cache.num_blocks or not cache.available_bytes:
        return 0
    return ceil(HALF_A_HUNDREDTH_GIB * cache.num_blocks / cache.available_bytes)


def _value(text: str) -> Any:
    """Return a number, a list of integers or the text; None for what only looks like a number."""
    if NUMBER.fullmatch(text):
        plain = text.replace(",", "")
        return float(plain) if "." in plain else int(plain)
    if SIZES.fullmatch(text):
        return [int(number) for number in re.findall(r"\d+", text)]
    return None if NUMBER_LIKE.fullmatch(text) else text
