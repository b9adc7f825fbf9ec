"""How fast sweeps and the results store are: points per second, a commit, and resuming.

Every figure is compared with a reference from the same run on the same machine, or its budget:
compare ratios, not seconds, between machines.

    python benchmarks/bench_sweeps.py [--json FILE] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workbench.core.resolve import resolve
from workbench.core.settings import Settings
from workbench.models import load_model
from workbench.run.store import Key, ResultStore, Row
from workbench.run.store.row import packed
from workbench.run.sweeps import Space, evaluate
from workbench.run.sweeps.pareto import undominated

BUDGET_MILLION_S = 1.0
BUDGET_COMMIT_S = 5e-3
BUDGET_RESUME_S = 0.5
GIB = 2**30
MODEL = "nemotron-3-nano-30b-a3b"
DISCRETE: dict[str, tuple[Any, ...]] = {
    "tensor_parallel": (1, 2, 4, 8),
    "kv_cache_dtype": ("auto", "fp8"),
    "backend": (None, "FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION"),
    "block_size": (None, 16, 32, 64, 128, 256),
    "num_speculative_tokens": (0, 1, 3),
    "mamba_cache_mode": (None, "align", "all"),
    "enable_prefix_caching": (False, True),
    "mamba_ssm_cache_dtype": ("auto", "float32", "bfloat16"),
}
"""12,960 combinations; memory and length make a million of them."""


@dataclass(frozen=True)
class Figure:
    """One row of the table."""

    what: str
    value: float
    budget: float | None = None
    note: str = ""
    unit: str = "s"


def main() -> None:
    """Measure, print, and write the JSON if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try it out")
    options = parser.parse_args()
    scale = 0.02 if options.quick else 1.0
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "model": MODEL}
    print(*(f"{name}: {value}" for name, value in machine.items()), sep="\n", end="\n\n")
    machine["load"] = round(os.getloadavg()[0], 1)
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        print("Other work keeps these cores busy: times are longer than on a quiet machine.\n")
    figures = [*sweeps(scale), *commits(scale), *resuming(scale)]
    for figure in figures:
        budget = "" if figure.budget is None else f"  (budget {figure.budget:g} s)"
        print(f"{figure.what:46} {figure.value:12.6f} {figure.unit}{budget}  {figure.note}")
    if options.json:
        result = {"machine": machine, "figures": [asdict(figure) for figure in figures]}
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def seconds_of(work: Callable[[], object], rounds: int = 5) -> float:
    """Return the median CPU time of some rounds in this process: the sweep uses one core."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def spaces(scale: float) -> Iterator[tuple[str, dict[str, tuple[Any, ...]], Settings]]:
    """Return (title, axes, other settings) of sweeps of about a million points."""
    count = max(1, round(26 * scale))
    memory = tuple(GIB * (1 + 3 * number) for number in range(count))
    typical = {"max_model_len": (8192, 32768, 131072), "kv_cache_memory_bytes": memory}
    budgets = tuple(range(1024, 1024 * (1 + round(78 * scale) or 2), 1024))
    known = Settings(kv_cache_memory_bytes=20 * GIB)
    long = range(1, 1 + max(20, round(1000 * scale**0.5)))
    blocks = tuple(16 * number for number in long)
    shares = tuple(number / (1 + len(long)) for number in long)
    devices = tuple(GIB // 5 * number for number in long)
    always: dict[str, tuple[Any, ...]] = {"enable_prefix_caching": (True,)}
    yield "typical: names, memory and lengths", {**DISCRETE, **typical}, Settings()
    yield "all discrete, memory fixed", {**DISCRETE, "max_num_batched_tokens": budgets}, known
    yield (
        "long: device memory x utilisation",
        {"device_memory_bytes": devices, "gpu_memory_utilization": shares},
        Settings(weights_bytes=8 * GIB),
    )
    yield (
        "long: block size x token budget",
        {"block_size": blocks, "max_num_batched_tokens": tuple(64 * number for number in long)},
        known,
    )
    yield (
        "long: block size x fitted length by memory",
        {"block_size": blocks, "kv_cache_memory_bytes": devices, "max_model_len": (-1,)},
        known,
    )
    yield (
        "unlike: block x budget, align mode",
        {
            "block_size": blocks[: len(blocks) // 3],
            "max_num_batched_tokens": tuple(64 * number for number in long[: len(blocks) // 3]),
            "mamba_cache_mode": ("align",),
            **always,
        },
        known,
    )
    yield (
        "unlike: block x mamba block, mode all",
        {
            "block_size": blocks[: len(blocks) // 3],
            "mamba_block_size": tuple(8 * number for number in long[: len(blocks) // 3]),
            "mamba_cache_mode": ("all",),
            **always,
        },
        known,
    )


def sweeps(scale: float) -> Iterator[Figure]:
    """Time a million points of every kind against single resolutions; record peak memory."""
    model = {MODEL: load_model(MODEL)}
    known = Settings(kv_cache_memory_bytes=20 * GIB)
    for name, axes, settings in spaces(scale):
        space = Space(model, settings, axes)
        table = evaluate(space)
        alone, seconds = in_turn(
            lambda: resolve(model[MODEL], known).cache, lambda space=space: evaluate(space)
        )
        million = seconds / len(table) * 1e6
        yield Figure(
            name,
            million,
            BUDGET_MILLION_S,
            f"for a million; {len(table):,} points measured, stages ran {table.evaluations:,} "
            f"times, {alone * len(table) / seconds:,.0f} times as fast as one by one",
        )
    costs = np.random.default_rng(0).random((round(1e6 * scale), 3))
    yield Figure(
        "the front of as many points",
        seconds_of(lambda: undominated(costs)),
        note=f"of {len(costs):,} random points, {len(undominated(costs)):,} that no other beats",
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Figure("most memory", peak, unit="MiB", note="of this process, with all of the above")


def in_turn(one: Callable[[], object], two: Callable[[], object]) -> tuple[float, float]:
    """Return the median CPU seconds of both, run in turn; the first a hundred times each."""
    ones, twos = [], []
    for _ in range(3):
        start = time.process_time()
        for _ in range(100):
            one()
        between = time.process_time()
        two()
        ones.append((between - start) / 100)
        twos.append(time.process_time() - between)
    return statistics.median(ones), statistics.median(twos)


def commits(scale: float) -> Iterator[Figure]:
    """Time a durable claim and commit of one row against an empty durable transaction."""
    rows = max(20, round(1000 * scale))
    with tempfile.TemporaryDirectory() as folder, ResultStore(Path(folder) / "r.db") as store:
        start = time.perf_counter()
        for number in range(rows):
            row = a_row(number)
            assert store.claim(row.key)
            assert store.put(row)
        seconds = (time.perf_counter() - start) / rows
        raw = sqlite3.connect(Path(folder) / "plain.db", isolation_level=None)
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("PRAGMA synchronous = FULL")
        raw.execute("CREATE TABLE t (x)")
        start = time.perf_counter()
        for number in range(rows):
            raw.execute("INSERT INTO t VALUES (?)", (number,))
        plain = (time.perf_counter() - start) / rows
        raw.close()
    note = f"{seconds / plain:.1f} times one plain durable commit ({plain * 1e3:.3f} ms)"
    yield Figure("claim and commit of a row", seconds, BUDGET_COMMIT_S, note)


def resuming(scale: float) -> Iterator[Figure]:
    """Open a file of 10^5 rows, check every one, and find what is missing."""
    count = round(100_000 * scale)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.db"
        ResultStore(path).close()
        raw = sqlite3.connect(path)
        raw.executemany(
            "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?)",
            (packed(a_row(number)) for number in range(count)),
        )
        raw.execute("UPDATE totals SET value = ?", (count,))
        raw.commit()
        raw.close()
        keys = [a_row(number).key for number in range(count + 10)]
        times = []
        for _ in range(5):
            start = time.process_time()
            with ResultStore(path) as store:
                missing = store.missing(keys)
            times.append(time.process_time() - start)
            assert len(missing) == 10
    note = f"{count:,} rows, every checksum looked at; CPU time"
    yield Figure("open and find what is missing", statistics.median(times), BUDGET_RESUME_S, note)


def a_row(number: int) -> Row:
    """Return a row as a kernel sweep writes it."""
    config = {"block_m": 64, "block_n": 32, "num_warps": 4, "number": number}
    return Row(
        Key.of(config, "NVIDIA H100", "0123456789ab"),
        n=30,
        median_s=1e-5,
        spread_s=1e-7,
        correct=True,
        bitwise=True,
        limits={"copy_bytes_per_s": 2.9e12},
        provenance={"driver": "550.54", "torch": "2.11.0", "triton": "3.6.0", "mode": "gpu"},
        measured_at=1.0,
    )


if __name__ == "__main__":
    main()
