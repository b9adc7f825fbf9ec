"""What a kernel sweep measures, which configuration wins, how two sweeps compare."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from workbench.sweeps.kernels.fitting import Batch, legal
from workbench.sweeps.kernels.flex import MODEL, settings_of
from workbench.sweeps.store import Key, Row, StoreError
from workbench.sweeps.store.row import OK, canonical

TIE = 0.02
"""Times nearer than this are equal: the configuration with less shared memory is taken."""


def keys(
    kernel: str,
    configs: Iterable[Mapping[str, Any]],
    batches: Sequence[Batch],
    device: str,
    kernel_hash: str,
) -> tuple[Key, ...]:
    """Return what is to be measured: every configuration on every batch."""
    points = (
        {**config, "kernel": kernel, "bucket": batch.name, **batch.fields}
        for config in configs
        for batch in batches
    )
    return tuple(Key.of(point, device, kernel_hash) for point in points)


OF_POINT = frozenset({"kernel", "bucket", "requests", "tokens", "queries", "reduced"})
"""Fields of a key that are not a choice of the kernel's."""


def choice(row: Row) -> str:
    """Return the configuration that was measured, without the batch, as JSON."""
    return canonical({k: v for k, v in row.key.config_values.items() if k not in OF_POINT})


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
    for row in rows:
        bucket, own = row.key.config_values["bucket"], choice(row)
        if bucket not in buckets:
            continue
        good = row.status == OK and row.correct and (row.bitwise or not bitwise)
        if good and row.median_s is not None:
            times.setdefault(own, {}).setdefault(bucket, []).append(row.median_s)
        else:
            spoilt.add(own)
    means = {
        name: statistics.geometric_mean([min(found[bucket]) for bucket in buckets])
        for name, found in times.items()
        if name not in spoilt and found.keys() == set(buckets)
    }
    if not means:
        return None
    best = min(means.values())
    tied = {name: json.loads(name) for name, mean in means.items() if mean <= best * (1 + TIE)}
    chosen = min(tied, key=lambda name: (tied[name].get("shared_bytes", 0), means[name], name))
    return Winner(tied[chosen], means[chosen], len(tied) - 1)


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
    first, second = ([row for row in rows if row.status == OK] for rows in (one, other))
    kernels = [{row.key.kernel_hash for row in rows} for rows in (first, second)]
    if not across_kernels and (len(kernels[0] | kernels[1]) > 1 or kernels[0] != kernels[1]):
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


@dataclass(frozen=True, slots=True)
class BestFlex:
    """Winners of one device and one kind of layer, as plain values by name.

    layer: head_size, gqa, page_tokens, dtype. best: one entry a batch; see `FlexDevice` of interop.
    """

    layer: Mapping[str, Any]
    provenance: Mapping[str, str]
    best: tuple[Mapping[str, Any], ...]


def best_flex(rows: Iterable[Row], *, bitwise: bool) -> tuple[BestFlex, ...]:
    """Return one entry per device and kind of layer, of the version measured last there.

    rows: of the flex kernel.
    """
    groups: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in rows:
        config = row.key.config_values
        if config["bitwise"] == bitwise and legal([config], settings_of)[0]:
            layer = canonical({name: config[name] for name in MODEL})
            versions = groups.setdefault((row.key.device, layer), {})
            versions.setdefault(row.key.kernel_hash, []).append(row)
    newest = (max(found.values(), key=_measured_at) for _, found in sorted(groups.items()))
    found = (_best(own, bitwise=bitwise) for own in newest)
    return tuple(one for one in found if one is not None)


def _measured_at(rows: Sequence[Row]) -> float:
    return max(row.measured_at for row in rows)


def _best(rows: Sequence[Row], *, bitwise: bool) -> BestFlex | None:
    buckets = tuple(dict.fromkeys(row.key.config_values["bucket"] for row in rows))
    found = winners(rows, buckets, bitwise=bitwise)
    if set(found) != set(buckets):
        return None
    newest = max(rows, key=lambda row: row.measured_at)
    config = newest.key.config_values
    when = datetime.fromtimestamp(newest.measured_at, UTC).isoformat("T", "seconds")
    versions = ("driver", "torch", "triton")
    return BestFlex(
        layer={
            "head_size": config["head_dim"],
            "gqa": config["group"],
            "page_tokens": config["block_size"],
            "dtype": config["dtype"],
        },
        provenance={
            **{name: str(newest.provenance.get(name, "")) for name in versions},
            "device_name": newest.key.device,
            "kernel_hash": newest.key.kernel_hash,
            "measured_at": when,
        },
        best=tuple(_entry(rows, bucket, one) for bucket, one in found.items()),
    )


def _entry(rows: Sequence[Row], bucket: str, found: Winner) -> dict[str, Any]:
    """Return what the kernel launches for this batch, and the row with its time."""
    wanted = canonical(found.config)
    own = [
        row
        for row in rows
        if row.key.config_values["bucket"] == bucket and choice(row) == wanted and row.median_s
    ]
    row = min(own, key=lambda row: row.median_s or 0.0)
    config, settings = row.key.config_values, settings_of(found.config)
    is_decode = settings.decode and config["queries"] * config["group"] <= settings.decode.block_m
    tile = settings.decode if settings.decode and is_decode else settings.prefill
    return {
        "q_len": config["queries"],
        "kv_len": config["tokens"],
        "block_m": tile.block_m,
        "block_n": tile.block_n,
        "q_block_size": tile.block_m,
        "kv_block_size": tile.block_n,
        "num_warps": tile.num_warps,
        "num_stages": tile.num_stages,
        "median_us": round(1e6 * (row.median_s or 0.0), 3),
        "n": row.n or 0,
        "bitwise": bool(row.bitwise),
    }
