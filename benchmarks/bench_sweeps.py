"""How fast sweeps and the results store are: points a second, a commit, and resuming.

Every figure stands beside something measured in the same run on the same machine, or its budget:
compare ratios, not seconds, between machines.

    python benchmarks/bench_sweeps.py [--json FILE] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from workbench.core.resolve import resolve
from workbench.core.settings import Settings
from workbench.models import load_model
from workbench.run.store import Key, ResultStore, Row
from workbench.run.store.row import packed
from workbench.run.sweeps import Space, evaluate

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
    seconds: float
    budget_seconds: float | None = None
    note: str = ""


def main() -> None:
    """Measure, print, and write the JSON if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try it out")
    options = parser.parse_args()
    scale = 0.02 if options.quick else 1.0
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "model": MODEL}
    print(*(f"{name}: {value}" for name, value in machine.items()), sep="\n", end="\n\n")
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        print("Other work keeps these cores busy: times are longer than on a quiet machine.\n")
    figures = [*sweeps(scale), *commits(scale), *resuming(scale)]
    for figure in figures:
        budget = "" if figure.budget_seconds is None else f"  (budget {figure.budget_seconds:g} s)"
        print(f"{figure.what:46} {figure.seconds:12.6f} s{budget}  {figure.note}")
    if options.json:
        told = {"machine": machine, "figures": [asdict(figure) for figure in figures]}
        options.json.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def seconds_of(work: Callable[[], object], rounds: int = 5) -> float:
    """The median of some rounds, CPU time of this process: the sweep uses one core."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def sweeps(scale: float) -> Iterator[Figure]:
    """A million points: typical, with everything discrete, and beside resolving one by one."""
    model = {MODEL: load_model(MODEL)}
    count = max(1, round(26 * scale))
    memory = tuple(GIB * (1 + 3 * number) for number in range(count))
    typical = {
        **DISCRETE,
        "max_model_len": (8192, 32768, 131072),
        "kv_cache_memory_bytes": memory,
    }
    many = tuple(range(16, 16 * (1 + round(78 * scale) or 2), 16))
    discrete = {**DISCRETE, "max_num_batched_tokens": tuple(64 * size for size in many)}
    long = max(3, round(180 * scale**0.5))
    worst = {
        "block_size": tuple(16 * (1 + number) for number in range(long)),
        "mamba_block_size": tuple(8 * (1 + number) for number in range(long)),
        "mamba_cache_mode": ("all",),
        "enable_prefix_caching": (True,),
    }
    known = Settings(kv_cache_memory_bytes=20 * GIB)
    one = seconds_of(lambda: resolve(model[MODEL], known).cache)
    for name, axes, settings in (
        ("typical: names, memory and lengths", typical, Settings()),
        ("everything discrete, memory fixed", discrete, known),
        ("nearly every point with inputs of its own", worst, known),
    ):
        space = Space(model, settings, axes)
        evaluate(space)
        seconds = seconds_of(lambda space=space: evaluate(space), 3)
        table = evaluate(space)
        million = seconds / len(table) * 1e6
        yield Figure(
            name,
            million,
            BUDGET_MILLION_S,
            f"for a million; {len(table):,} points measured, stages ran {table.evaluations:,} "
            f"times, {one * len(table) / seconds:,.0f} times as fast as one by one",
        )


def commits(scale: float) -> Iterator[Figure]:
    """Claim and commit of one row, durable, beside an empty durable transaction."""
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
    """A row as a kernel sweep writes it."""
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
