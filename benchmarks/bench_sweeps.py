"""How fast sweeps and the results store are: points per second, a commit, and resuming.

Every figure is compared with a reference from the same run on the same machine, or its budget:
compare ratios, not seconds, between machines.

    python benchmarks/bench_sweeps.py [--json FILE] [--quick]
"""

import resource
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from measuring import run, seconds_of

from workbench.core.resolve import resolve
from workbench.models import load_model
from workbench.scenario.fields import Settings
from workbench.sweeps.axes import DEFAULT_AXES
from workbench.sweeps.front import undominated
from workbench.sweeps.run import evaluate
from workbench.sweeps.space import Space
from workbench.sweeps.store import Key, ResultStore, Row
from workbench.sweeps.store.row import packed

BUDGET_COMMIT_S = 5e-3
BUDGET_RESUME_S = 0.5
GIB = 2**30
MODEL = "nemotron-3-nano-30b-a3b"
LENGTHS = (8192, 32768, 131072)
STATE_DTYPES = ("auto", "float32", "bfloat16")
BACKENDS = (None, "FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION")


@dataclass(frozen=True)
class Figure:
    """One row of the table."""

    what: str
    value: float
    budget: float | None = None
    note: str = ""
    unit: str = "s"


CELLS = {
    "": lambda row: row.what,
    "value": lambda row: f"{row.value:.6f} {row.unit}",
    "budget": lambda row: "" if row.budget is None else f"{row.budget:g} s",
    "note": lambda row: row.note,
}


def usual_s(work: Callable[[], object], rounds: int = 5) -> float:
    """Return the median wall time of some rounds: a long sweep runs in several processes."""
    return median(seconds_of(work) for _ in range(rounds))


def spaces(scale: float) -> Iterator[tuple[str, dict[str, tuple[Any, ...]], float, int]]:
    """Return (title, axes, budget in seconds, rounds) of sweeps."""

    def with_memory(count: int, **more: tuple[Any, ...]) -> dict[str, tuple[Any, ...]]:
        sizes = tuple(GIB * (1 + 3 * number) for number in range(max(1, round(count * scale))))
        return {**DEFAULT_AXES, **more, "kv_cache_memory_bytes": sizes}

    default = {**DEFAULT_AXES, "kv_cache_memory_bytes": (20 * GIB,)}
    discrete = {"backend": BACKENDS, "mamba_ssm_cache_dtype": STATE_DTYPES}
    million = with_memory(26, **discrete, max_model_len=LENGTHS)
    yield "the default sweep", default, 0.1, 5
    yield "with memory sizes", with_memory(24), 0.6, 3
    yield "backends, state dtypes, lengths, memory sizes", million, 20.0, 1


def sweeps(scale: float) -> Iterator[Figure]:
    """Time one resolution, sweeps of three sizes, and their front; record the peak memory."""
    model = load_model(MODEL)
    known = Settings(kv_cache_memory_bytes=20 * GIB)
    for title, trace, budget in (("with", True, 60e-6), ("without", False, 20e-6)):

        def hundred(trace: bool = trace) -> None:
            for _ in range(100):
                resolve(model, known, trace=trace)

        seconds = usual_s(hundred) / 100
        yield Figure(f"one resolution {title} a trace", seconds, budget)
    for title, axes, budget, rounds in spaces(scale):
        space = Space({MODEL: model}, Settings(), axes)
        seconds = usual_s(lambda space=space: evaluate(space, 4096), rounds)
        note = f"{space.size:,} points, {seconds / space.size * 1e6:.1f} us each"
        yield Figure(title, seconds, budget, note)
    costs = np.random.default_rng(0).random((round(1e6 * scale), 3))
    yield Figure(
        "the front of as many points",
        usual_s(lambda: undominated(costs)),
        note=f"of {len(costs):,} random points, {len(undominated(costs)):,} that no other beats",
    )
    for who, what in (
        ("this process", resource.RUSAGE_SELF),
        ("a worker", resource.RUSAGE_CHILDREN),
    ):
        peak = resource.getrusage(what).ru_maxrss / 1024
        yield Figure(f"most memory of {who}", peak, unit="MiB", note="with all of the above")


def commits(scale: float) -> Iterator[Figure]:
    """Time a durable claim and commit of one row against an empty durable transaction."""
    rows = max(20, round(1000 * scale))
    with tempfile.TemporaryDirectory() as folder, ResultStore(Path(folder) / "r.db") as store:
        raw = sqlite3.connect(Path(folder) / "plain.db", isolation_level=None)
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("PRAGMA synchronous = FULL")
        raw.execute("CREATE TABLE t (x)")

        def commit(number: int) -> None:
            row = a_row(number)
            assert store.claim(row.key)
            assert store.put(row)

        def plainly(number: int) -> None:
            raw.execute("INSERT INTO t VALUES (?)", (number,))

        seconds, plain = (
            seconds_of(lambda work=work: [*map(work, range(rows))]) / rows
            for work in (commit, plainly)
        )
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
    yield Figure("open and find what is missing", median(times), BUDGET_RESUME_S, note)


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
    run(__doc__.splitlines()[0], (sweeps, commits, resuming), CELLS, quick=0.02, model=MODEL)
