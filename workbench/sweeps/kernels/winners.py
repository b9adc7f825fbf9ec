"""What a kernel sweep measures, and which configuration wins."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from workbench.sweeps.store import Key, Row
from workbench.sweeps.store.row import OK

TIE = 0.02
"""Times nearer than this are equal: the configuration with less shared memory is taken."""


class Shape(Protocol):
    """A batch that a kernel is measured on."""

    @property
    def name(self) -> str:
        """Return the name that rows and people use; its `bucket`."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """Return what else a measurement needs, by name."""


def keys(
    kernel: str,
    configs: Iterable[Mapping[str, Any]],
    shapes: Sequence[Shape],
    device: str,
    kernel_hash: str,
    rounds: int = 1,
) -> tuple[Key, ...]:
    """Return what is to be measured: every configuration on every shape, round by round."""
    return tuple(
        Key.of(
            {**config, "kernel": kernel, "bucket": shape.name, **shape.fields},
            device,
            kernel_hash,
            number,
        )
        for number in range(rounds)
        for config in configs
        for shape in shapes
    )


OF_POINT = frozenset({"kernel", "bucket", "requests", "tokens", "queries", "reduced"})
"""Fields of a key that are not a choice of the kernel's."""


@dataclass(frozen=True, slots=True)
class Winner:
    """A configuration, its geometric mean in seconds, and how many others are within the tie."""

    config: dict[str, Any]
    seconds: float
    ties: int


def winner(rows: Iterable[Row], buckets: Sequence[str], *, bitwise: bool = False) -> Winner | None:
    """Return the best over all buckets by geometric mean; of ties the one with less shared memory.

    A configuration counts if it is correct, and bitwise if that is required, on every bucket in
    every round. In bitwise mode it is the one configuration for all buckets. None without one.
    """
    times: dict[str, dict[str, list[float]]] = {}
    spoilt = set()
    configs: dict[str, dict[str, Any]] = {}
    for row in rows:
        config = row.key.config_values
        bucket = config["bucket"]
        own = {name: value for name, value in config.items() if name not in OF_POINT}
        name = json.dumps(own, sort_keys=True)
        configs[name] = own
        good = row.status == OK and row.correct and (row.bitwise or not bitwise)
        if bucket not in buckets:
            continue
        if not good or row.median_s is None:
            spoilt.add(name)
            continue
        times.setdefault(name, {}).setdefault(bucket, []).append(row.median_s)
    means = {
        name: statistics.geometric_mean([min(found[bucket]) for bucket in buckets])
        for name, found in times.items()
        if name not in spoilt and found.keys() == set(buckets)
    }
    if not means:
        return None
    best = min(means.values())
    tied = [name for name, mean in means.items() if mean <= best * (1 + TIE)]
    chosen = min(tied, key=lambda name: (configs[name].get("shared_bytes", 0), means[name], name))
    return Winner(configs[chosen], means[chosen], len(tied) - 1)


def winners(
    rows: Iterable[Row], buckets: Sequence[str], *, bitwise: bool = False
) -> dict[str, Winner]:
    """Return bucket -> its winner; in bitwise mode the same for all, or the bits would change."""
    every = tuple(rows)
    if bitwise:
        one = winner(every, buckets, bitwise=True)
        return {} if one is None else dict.fromkeys(buckets, one)
    found = {bucket: winner(every, [bucket]) for bucket in buckets}
    return {bucket: one for bucket, one in found.items() if one is not None}
