"""Sweeps of the paged flex kernel: which tiles are legal, which fit a device, and which win.

A bucket is a shape of batch. `measure` in `flex_measure` is what a lane runs.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from workbench.run.store import Key, Row
from workbench.run.store.row import OK

if TYPE_CHECKING:
    from workbench.kernels.paged_flex.settings import Settings

MEASURE = "workbench.run.sweeps.flex_measure:measure"
SPECS_VARIABLE = "WORKBENCH_SWEPT_SPECS"
SPECS_MODULE = "workbench.run.sweeps.flex_specs"
TIE = 0.02
"""Times nearer than this are equal: the configuration with less shared memory is taken."""

AXES: Mapping[str, tuple[Any, ...]] = {
    "block_m": (16, 32, 64, 128),
    "block_n": (16, 32, 64, 128),
    "num_warps": (4, 8),
    "decode_n": (32, 64),
    "split_tokens": (0, 256, 512),
}
"""What is tried if nobody says what."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A batch: so many requests of `tokens` tokens, the last `queries` of which are asked."""

    name: str
    requests: int
    tokens: int
    queries: int


BUCKETS = (
    Bucket("prefill 2k", 4, 2048, 2048),
    Bucket("chunk 512 of 8k", 4, 8192, 512),
    Bucket("decode 64 x 4k", 64, 4096, 1),
    Bucket("decode 4 x 32k", 4, 32768, 1),
)
SMALL_BUCKETS = (Bucket("prefill 40", 1, 40, 40), Bucket("decode 3 x 70", 3, 70, 1))
"""For the flow in the interpreter, which gives no times."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Configurations to measure, and how many were left out for which reason."""

    configs: tuple[dict[str, Any], ...]
    illegal: Mapping[str, int]
    unfit: Mapping[str, int]


def settings_of(config: Mapping[str, Any]) -> Settings:
    """The kernel's settings. Errors: PagedFlexError for what its legality rules refuse."""
    from workbench.kernels.paged_flex.settings import Settings, Tile

    prefill = Tile(config["block_m"], config["block_n"], config["num_warps"])
    if config["bitwise"]:
        split = config["split_tokens"]
        return Settings(prefill, prefill, split_tokens=split, one_path=True, as_given=True)
    decode = Tile(16, config["decode_n"])
    return Settings(prefill, decode, split_tokens=config["split_tokens"], as_given=True)


def candidates(
    axes: Mapping[str, Sequence[Any]] | None = None,
    *,
    target: str | None = "sm_90",
    bitwise: bool = False,
    model: Mapping[str, Any] | None = None,
) -> Candidates:
    """Every combination that is legal and, compiled for `target`, neither spills nor is too large.

    target: None leaves the compiler out. model: head_dim, group, dtype, block_size. Nothing is
    launched. Errors: InspectionError where the compiler itself fails.
    """
    from workbench.kernels.paged_flex.errors import PagedFlexError

    chosen = {**AXES, **(axes or {})}
    shape = {"head_dim": 128, "group": 4, "dtype": "float16", "block_size": 64, **(model or {})}
    illegal: dict[str, int] = {}
    legal: dict[str, dict[str, Any]] = {}
    for values in product(*chosen.values()):
        config = {**dict(zip(chosen, values, strict=True)), **shape, "bitwise": bitwise}
        if bitwise:
            config["decode_n"] = config["block_n"]  # one tile for every token
        try:
            settings_of(config)
        except PagedFlexError as error:
            reason = error.field or "settings"
            illegal[reason] = illegal.get(reason, 0) + 1
            continue
        legal[json.dumps(config, sort_keys=True)] = config
    configs = list(legal.values())
    if target is None:
        return Candidates(tuple(configs), illegal, {})
    unfit: dict[str, int] = {}
    fitting = []
    for config, found in zip(configs, _compiled(configs, target), strict=True):
        if found["reason"]:
            unfit[found["reason"]] = unfit.get(found["reason"], 0) + 1
        else:
            fitting.append({**config, "shared_bytes": found["shared_bytes"]})
    return Candidates(tuple(fitting), illegal, unfit)


_compiling = threading.Lock()


def _compiled(configs: Sequence[Mapping[str, Any]], target: str) -> list[dict[str, Any]]:
    """For every configuration its shared memory and why it is unfit; each tile compiled once."""
    from workbench.kernels.inspection.api import inspect_kernels
    from workbench.kernels.inspection.targets import TARGETS

    with _compiling:  # the compiling process reads what to compile from the environment
        os.environ[SPECS_VARIABLE] = json.dumps(list(configs))
        try:
            reports = inspect_kernels(SPECS_MODULE, (target,))
        finally:
            del os.environ[SPECS_VARIABLE]
    by_name = {report.kernel: report for report in reports}
    limit = TARGETS[target].shared_memory_bytes
    found = []
    for config in configs:
        own = [by_name[spec_name(config, decode)] for decode in (False, True)]
        reason = ""
        if any(report.spill_bytes for report in own):
            reason = "spills registers"
        if any(report.shared_bytes > limit for report in own):
            reason = "shared memory"
        found.append({"reason": reason, "shared_bytes": max(one.shared_bytes for one in own)})
    return found


def spec_name(config: Mapping[str, Any], decode: bool) -> str:
    """One name for equal specialisations: what the other path is set to does not matter."""
    told = {name: value for name, value in config.items() if name != "decode_n" or decode}
    if decode and not config["bitwise"]:
        told = {name: value for name, value in told.items() if name not in _PREFILL_ONLY}
    if not decode and not config["bitwise"]:
        told.pop("split_tokens")
    return f"{'decode' if decode else 'prefill'} {json.dumps(told, sort_keys=True)}"


_PREFILL_ONLY = ("block_m", "block_n", "num_warps")


def keys(
    configs: Iterable[Mapping[str, Any]],
    buckets: Sequence[Bucket],
    device: str,
    kernel_hash: str,
    rounds: int = 1,
) -> tuple[Key, ...]:
    """What is to be measured: every configuration on every bucket, round by round."""
    return tuple(
        Key.of(
            {
                **config,
                "bucket": bucket.name,
                "requests": bucket.requests,
                "tokens": bucket.tokens,
                "queries": bucket.queries,
            },
            device,
            kernel_hash,
            number,
        )
        for number in range(rounds)
        for config in configs
        for bucket in buckets
    )


_OF_BUCKET = frozenset({"bucket", "requests", "tokens", "queries"})


@dataclass(frozen=True, slots=True)
class Winner:
    """A configuration, its geometric mean in seconds, and how many others are within the tie."""

    config: dict[str, Any]
    seconds: float
    ties: int


def winner(rows: Iterable[Row], buckets: Sequence[str], *, bitwise: bool = False) -> Winner | None:
    """The best over all buckets by geometric mean; of ties the one with less shared memory.

    A configuration counts if it is correct, and bitwise if that is asked, on every bucket in every
    round. In bitwise mode it is the one configuration for all buckets. None without such a one.
    """
    from workbench.kernels.bench.ratios import geometric_mean

    times: dict[str, dict[str, list[float]]] = {}
    spoilt = set()
    configs: dict[str, dict[str, Any]] = {}
    for row in rows:
        config = row.key.config_values
        bucket = config["bucket"]
        own = {name: value for name, value in config.items() if name not in _OF_BUCKET}
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
        name: geometric_mean([min(found[bucket]) for bucket in buckets])
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
    """Bucket -> its winner; in bitwise mode the same for all, or the bits would change."""
    told = tuple(rows)
    if bitwise:
        one = winner(told, buckets, bitwise=True)
        return {} if one is None else dict.fromkeys(buckets, one)
    found = {bucket: winner(told, [bucket]) for bucket in buckets}
    return {bucket: one for bucket, one in found.items() if one is not None}
