"""Sizes as text: "20 GiB" and "20 GB" are not the same number of bytes; "16k" is 16,000."""

import math
import re
from typing import Any

from workbench.core.errors import ScenarioError, check_kind, shown

DECIMAL = {letter: 1000**power for power, letter in enumerate("kmgt", 1)}
BINARY = {letter: 1024**power for power, letter in enumerate("kmgt", 1)}
UNITS = {
    "b": 1,
    **{f"{letter}b": size for letter, size in DECIMAL.items()},
    **{f"{letter}ib": size for letter, size in BINARY.items()},
}
"""Unit (lower case) -> bytes."""

SIZE = re.compile(
    r"([0-9]{1,3}(?:[,_][0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", re.IGNORECASE
)
SHARE = re.compile(r"([^/]*[^/\s])\s*/\s*([1-9][0-9]{0,3})")
"""A size that so many ranks share."""
SMALLEST_BARE = 10**6
"""A bare number below this is more likely a forgotten unit than a count of bytes."""
MULTIPLIERS = DECIMAL | {letter.upper(): size for letter, size in BINARY.items()}
"""Letter after a number on vLLM's command line -> factor."""
SHORT_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")


def invalid(code: str, name: str, value: object, expected: str) -> ScenarioError:
    """Return the error of a field's value. expected: what is valid, and the nearest valid value."""
    message = f"Invalid {name} {shown(value)}. Expected {expected}"
    return ScenarioError(code, message, field=name)


def integer_value(text: str) -> int | str:
    """Return the integer in "4096", "16k" (16,000) or "16K" (16,384), as vLLM reads it.

    Any other text is returned unchanged; the scenario then refuses it.
    """
    if found := SHORT_NUMBER.fullmatch(text.strip()):
        number = float(found.group(1)) * MULTIPLIERS[found.group(2)]
        return text if math.isinf(number) else int(number)
    try:
        return int(text)
    except ValueError:
        return text


def parse_bytes(text: str, field: str = "size") -> int | None:
    """Return the bytes in "20 GiB", "80GB", "594 GB / 8" or "21474836480"; None for an empty text.

    Errors: ScenarioError for anything else, also for a small number without a unit.

    >>> wb.parse_bytes("20 GiB")
    21474836480
    """
    check_kind("wb.parse_bytes", text, str, 'a text, such as "20 GiB"')
    text = text.strip()
    if not text:
        return None
    if share := SHARE.fullmatch(text):
        whole = parse_bytes(share[1], field)
        return None if whole is None else whole // int(share[2])
    found = SIZE.fullmatch(text)
    unit = found.group(2).lower() if found else ""
    if found is None or (unit and unit not in UNITS):
        near = "" if found is None else _nearest_units(found.group(1), unit)
        raise invalid("wrong_type", field, text, f"a size such as 20 GiB or 80 GB.{near}")
    number = float(found.group(1).replace(",", "").replace("_", ""))
    if not unit and number < SMALLEST_BARE:
        raise ScenarioError(
            "unit_missing",
            f"Invalid {field} {shown(text)}: the unit is missing. "
            f"Expected for example {number:g} GiB ({int(number * 2**30):,} bytes) or "
            f"{number:g} GB ({int(number * 10**9):,} bytes).",
            field=field,
        )
    size = number * UNITS[unit or "b"]
    if math.isinf(size):
        raise ScenarioError(
            "out_of_range",
            f"Invalid {field} {shown(text)}: it is unrealistically large. "
            "Expected a size such as 20 GiB. Nearest valid value: 1 TiB.",
            field=field,
        )
    return int(size)


def bytes_of(value: Any, field: str) -> Any:
    """Return the bytes of a text such as "20 GiB"; any other value is returned unchanged.

    Errors: as `parse_bytes`.
    """
    return parse_bytes(value, field) if isinstance(value, str) else value


def _nearest_units(number: str, unit: str) -> str:
    """Return the two units that begin with the same letter; empty for another letter."""
    letter = unit[:1].upper()
    if letter.lower() not in DECIMAL:
        return ""
    return f" Nearest: {number} {letter}iB or {number} {letter}B."
