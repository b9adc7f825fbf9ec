"""Putting equal things together by `==` alone.

Numbers of a sweep represent many and have no hash, so what the rules put together is compared.
There are few different things in one model: that costs no more than hashing them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")
Options = ParamSpec("Options")


def by_key(pairs: Iterable[tuple[Key, Value]]) -> list[tuple[Key, list[Value]]]:
    """Return (key, its values) of pairs with equal keys, in the order of first appearance."""
    keys: list[Key] = []
    values: list[list[Value]] = []
    for key, value in pairs:
        if key in keys:
            values[keys.index(key)].append(value)
        else:
            keys.append(key)
            values.append([value])
    return list(zip(keys, values, strict=True))


def different(values: Iterable[Value]) -> list[Value]:
    """Return each of several equal values once, in the order of first appearance."""
    found: list[Value] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def remembered(size: int) -> Callable[[Callable[Options, Value]], Callable[Options, Value]]:
    """Cache the last `size` results of a pure function, where the arguments are hashable."""

    def decorate(function: Callable[Options, Value]) -> Callable[Options, Value]:
        kept = lru_cache(maxsize=size)(function)

        @wraps(function)
        def call(*args: Options.args, **kwargs: Options.kwargs) -> Value:
            try:
                return kept(*args, **kwargs)  # type: ignore[arg-type]  # what has no hash is met below
            except TypeError:
                return function(*args, **kwargs)

        return call

    return decorate
