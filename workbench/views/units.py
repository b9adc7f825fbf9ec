"""Numbers as text: exact, with thousands separated, units spelt out."""

from typing import Any, TypeGuard

KIB = 1024


def bytes_text(size: int | None) -> str:
    """Return a text like "2,162,688 B (2.06 MiB)"; "none" for None."""
    if size is None:
        return "none"
    short = short_bytes_text(size)
    return short if abs(size) < KIB else f"{size:,} B ({short})"


def short_bytes_text(size: int) -> str:
    """Return a text like "2.06 MiB"."""
    if abs(size) < KIB:
        return f"{size} B"
    for unit, scale in (("KiB", KIB), ("MiB", KIB**2), ("GiB", KIB**3)):
        if abs(size) < scale * KIB or unit == "GiB":
            return f"{size / scale:.2f} {unit}"
    raise AssertionError


def tokens_text(count: int | None) -> str:
    """Return a text like "1,056 tokens"; "none" for None."""
    return "none" if count is None else f"{count:,} token{'' if count == 1 else 's'}"


def percent_text(value: float | None) -> str:
    """Return a text like "0.76 %"; "none" for None."""
    return "none" if value is None else f"{value:.2f} %"


def range_text(least: str, most: str) -> str:
    """Return a text like "3 to 5"; one end where both are equal."""
    return least if least == most else f"{least} to {most}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 block", "1,024 blocks"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def is_number(value: Any) -> TypeGuard[int | float]:
    """Return whether a value is a number; yes and no are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
