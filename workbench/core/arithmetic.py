"""Integer arithmetic that the rules share."""

MIB, GIB = 2**20, 2**30
LARGEST_INT32, LARGEST_INT64 = 2**31 - 1, 2**63 - 1


def cdiv(dividend: int, divisor: int) -> int:
    """Return the ceiling division of non-negative integers."""
    return -(-dividend // divisor)


def next_power_of_2(value: int) -> int:
    """Return the smallest power of two that is >= `value` (1 for 0 and 1)."""
    return 1 << max(value - 1, 0).bit_length()


def is_power_of_2(value: int) -> bool:
    """Return true for 1, 2, 4, 8, ...; false for everything else, negatives included."""
    return value > 0 and value & (value - 1) == 0


def round_up(value: int, multiple: int) -> int:
    """Return the smallest multiple of `multiple` that is >= `value`."""
    return cdiv(value, multiple) * multiple


def divisors(value: int) -> tuple[int, ...]:
    """Return all positive divisors of `value`, ascending."""
    small = [d for d in range(1, int(value**0.5) + 1) if value % d == 0]
    return tuple(sorted({*small, *(value // d for d in small)}))
