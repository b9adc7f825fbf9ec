"""Stored results again: replay without a device, and comparisons that do not mix versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.sweeps.store import Key, ResultStore, Row, StoreError
from workbench.sweeps.store.row import OK, canonical


class Replay:
    """Measures by looking up: what a stored device gave, with no device here.

    Errors: StoreError when the file has no rows for this device and kernel; it lists what it has.
    """

    def __init__(self, store: ResultStore, device: str, kernel_hash: str) -> None:
        rows = store.rows(device, kernel_hash)
        if not rows:
            known = sorted({(row.key.device, row.key.kernel_hash) for row in store.rows()})
            stored = ", ".join(f"{name} with {kernel}" for name, kernel in known) or "nothing"
            raise StoreError(f"No rows of {device} with kernel {kernel_hash}; there is {stored}.")
        self._rows = {(row.key.config, row.key.round): row for row in rows}

    def __call__(self, config: Mapping[str, Any], turn: int = 0) -> Row:
        """Return the stored row of a configuration. Errors: StoreError if it was never measured."""
        row = self._rows.get((canonical(config), turn))
        if row is None:
            raise StoreError(f"Never measured: {canonical(config)}, round {turn}.")
        return row

    @property
    def keys(self) -> tuple[Key, ...]:
        """Return everything that can be replayed."""
        return tuple(row.key for row in self._rows.values())


@dataclass(frozen=True, slots=True)
class Comparison:
    """One configuration on two sides; ratio: time of the second over the first."""

    config: dict[str, Any]
    one: Row
    other: Row

    @property
    def ratio(self) -> float | None:
        """Return their ratio; None if one of the two has no time."""
        if not self.one.median_s or self.other.median_s is None:
            return None
        return self.other.median_s / self.one.median_s


def compare(
    one: Iterable[Row], other: Iterable[Row], *, across_kernels: bool = False
) -> tuple[Comparison, ...]:
    """Return the configurations that both sides have measured, the slowest ratio first.

    Errors: StoreError for several kernels on a side, or two different ones, unless
    `across_kernels` says that this is what is compared.
    """
    first, second = _good(one), _good(other)
    kernels = [{row.key.kernel_hash for row in rows} for rows in (first, second)]
    if not across_kernels and (
        any(len(found) > 1 for found in kernels) or kernels[0] != kernels[1]
    ):
        names = " and ".join(", ".join(sorted(found)) or "none" for found in kernels)
        raise StoreError(
            f"The rows come from different kernels ({names}), so their times do not compare the "
            "same thing. Choose one kernel, or ask for a comparison across kernels."
        )
    found = {row.key.config: row for row in first}
    pairs = [
        Comparison(row.key.config_values, found[row.key.config], row)
        for row in second
        if row.key.config in found
    ]
    return tuple(sorted(pairs, key=lambda pair: -(pair.ratio or 0.0)))


def _good(rows: Iterable[Row]) -> tuple[Row, ...]:
    return tuple(row for row in rows if row.status == OK)
