"""What a results file says about the best flex settings of a device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from workbench.sweeps.kernels.flex import MODEL, settings_of
from workbench.sweeps.kernels.winners import Winner, choice, winners
from workbench.sweeps.store import Row
from workbench.sweeps.store.row import canonical


@dataclass(frozen=True, slots=True)
class BestFlex:
    """Winners of one device and one kind of layer, as plain values by name.

    layer: head_size, gqa, page_tokens, dtype. best: one entry a batch; see `FlexDevice` of interop.
    """

    layer: Mapping[str, Any]
    provenance: Mapping[str, str]
    best: tuple[Mapping[str, Any], ...]


def best_flex(rows: Iterable[Row], *, bitwise: bool) -> tuple[BestFlex, ...]:
    """Return one entry per device and kind of layer, of the kernel measured last there."""
    groups: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in rows:
        config = row.key.config_values
        if config.get("kernel") == "flex" and config["bitwise"] == bitwise:
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
