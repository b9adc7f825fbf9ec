"""Measure import, resolution, batch, and a change in the front door.

Every figure is compared with a reference measured in the same run on the same machine, and with
its budget: compare ratios, not seconds, between machines.

    python benchmarks/bench_front_door.py [--json FILE] [--quick]
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from measuring import duration, in_turn, run, seconds_of, within

BUDGET_IMPORT_S = 0.15
BUDGET_RESOLVE_S = 60e-6
BUDGET_BATCH_S = 5.0
BUDGET_CLICK_S = 0.1
BATCH_LINES = 10_000
YARDSTICK_STEPS = 1000


@dataclass(frozen=True)
class Figure:
    """One row of the table: a time, its reference, and its budget."""

    what: str
    seconds: float
    beside: str = ""  # words: ok (a published name, as the next one)
    beside_seconds: float | None = None
    budget_seconds: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Return the time in units of the reference measured in the same run."""
        return self.seconds / self.beside_seconds if self.beside_seconds else None


CELLS = {
    "": lambda row: row.what,
    "measured": lambda row: duration(row.seconds),
    "ratio": lambda row: f"{row.ratio:.2f}x",
    "compared with": lambda row: f"{row.beside} ({duration(row.beside_seconds)})",  # words: ok
    "budget": lambda row: within(row.seconds, row.budget_seconds),
    "note": lambda row: row.note,
}


def import_time(scale: float) -> Iterator[Figure]:
    """Time imports in fresh interpreters, in turn, so that a slow moment affects all of them."""
    statements = {
        "import numpy": "import numpy",
        "import workbench": "import workbench",
        "import workbench and its first plan": "import workbench as wb; wb.resolve(wb.Scenario())",
        "import pydantic": "import pydantic",
        "import typer": "import typer",
        "import the command line": "import workbench.cli",
    }
    times: dict[str, list[float]] = {name: [] for name in statements}
    for statement in statements.values():
        timed_in_fresh_interpreter(statement)  # compiles what it imports
    for _ in range(max(3, int(21 * scale))):
        for name, statement in statements.items():
            times[name].append(timed_in_fresh_interpreter(statement))
    reference = median(times.pop("import numpy"))
    for name, seconds in times.items():
        budget = BUDGET_IMPORT_S if name == "import workbench" else None
        yield Figure(name, median(seconds), "import numpy", reference, budget)


def timed_in_fresh_interpreter(statement: str) -> float:
    """Return the seconds of `statement` in a new interpreter, without its start."""
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def yardstick() -> int:
    """Run a fixed amount of ordinary Python: integers, a dict, a branch."""
    seen: dict[int, int] = {}
    total = 0
    for step in range(YARDSTICK_STEPS):
        if step % 3:
            total += step
        seen[step & 63] = total
    return total + len(seen)


def resolutions(scale: float) -> Iterator[Figure]:
    """Time resolutions with trace, first and later ones, of the catalog on every platform."""
    from workbench.core.errors import WorkbenchError
    from workbench.core.phases import forget
    from workbench.core.platforms import PLATFORMS
    from workbench.core.resolve import resolve as core_resolve
    from workbench.models import catalog_names, load_model
    from workbench.scenario import Scenario
    from workbench.scenario.resolution import resolve

    mix = {}
    for name in catalog_names():
        for place in PLATFORMS:
            scenario = Scenario(model=name, platform=place)
            try:
                assert core_resolve(load_model(name), scenario).steps
            except WorkbenchError:
                continue
            mix[f"{name} on {place}"] = partial(core_resolve, load_model(name), scenario)
    every = [work.args[1].to_dict() for work in mix.values()]

    def public() -> None:
        resolve(Scenario(**random.choice(every)))  # noqa: S311  (not for secrets)

    def first(work: Callable[[], object]) -> float:
        forget()
        return seconds_of(work)

    reference, checked = f"a Python loop of {YARDSTICK_STEPS} steps", "check and resolve"
    works = {reference: yardstick, checked: public, **mix}
    times = {name: median(t) for name, t in in_turn(works, max(5, int(100 * scale))).items()}
    loop, whole = times.pop(reference), times.pop(checked)
    mean, slowest = statistics.fmean(times.values()), max(times, key=lambda name: times[name])
    over = sum(seconds > BUDGET_RESOLVE_S for seconds in times.values())
    rate = f"{1 / mean:,.0f} per second; {over} of {len(mix)} over budget"
    of = (reference, loop)
    yield Figure("resolve, mean of the catalog", mean, *of, BUDGET_RESOLVE_S, rate)
    yield Figure("resolve, slowest of the catalog", times[slowest], *of, BUDGET_RESOLVE_S, slowest)
    firsts = [median(first(work) for _ in range(5)) for work in mix.values()]
    yield Figure("resolve, the first of a model", statistics.fmean(firsts), *of)
    yield Figure("check the scenario and resolve", whole, *of, note="wb.resolve")


def batch_throughput(scale: float) -> Iterator[Figure]:
    """Run 10,000 different lines through the real command, including its start."""
    count = int(BATCH_LINES * scale)
    times, starts, busy = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        file, one_line = Path(folder) / "lines.jsonl", Path(folder) / "one.jsonl"
        file.write_text("".join(varied_lines(count)), encoding="utf-8")
        one_line.write_text("{}\n", encoding="utf-8")
        for _ in range(3):
            starts.append(seconds_of(lambda: run_batch(one_line, 1)))
            before = os.times()
            times.append(seconds_of(lambda: run_batch(file, count)))
            after = os.times()
            user, system = after.children_user, after.children_system
            busy.append(user + system - before.children_user - before.children_system)
    note = f"{count / median(times):,.0f} lines per second; {duration(median(busy))} of CPU"
    reference = ("a batch of one line", median(starts))
    what = f"batch of {count:,} lines"
    yield Figure(what, median(times), *reference, BUDGET_BATCH_S * scale, note)


def varied_lines(count: int) -> Iterator[str]:
    """Yield scenarios with different models, places, sizes and dtypes; some are refused."""
    from workbench.core.platforms import PLATFORMS
    from workbench.models import catalog_names

    pick = random.Random(0).choice  # noqa: S311  (the same lines every time)
    choices = {
        "model": catalog_names(),
        "platform": list(PLATFORMS),
        "tensor_parallel": [1, 1, 2, 4, 8],
        "kv_cache_dtype": ["auto", "auto", "fp8"],
        "mamba_ssm_cache_dtype": ["auto", "float32"],
        "enable_prefix_caching": [None, True, False],
        "block_size": [None, None, 16, 32, 64],
        "num_speculative_tokens": [0, 0, 1, 2],
        "max_num_batched_tokens": [None, 8192],
    }
    for _ in range(count):
        yield json.dumps({field: pick(values) for field, values in choices.items()}) + "\n"


def run_batch(file: Path, lines: int) -> None:
    """Run the command on `file`; it must answer every line."""
    command = [sys.executable, "-m", "workbench", "resolve", "--batch", str(file)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.count("\n") == lines


def click_latency(scale: float) -> Iterator[Figure]:
    """Time a change up to the updated front door, Python only, and a bare figure."""
    import workbench as wb
    from workbench.ui.live_figure import LiveFigure

    panel = wb.explore(model="nemotron-3-nano-30b-a3b")
    bare = LiveFigure()
    changes = [
        ("tensor_parallel", 2),
        ("model", "jamba-1.5-mini"),
        ("platform", "rocm"),
        ("tensor_parallel", 4),
        ("model", "qwen3-next-80b-a3b"),
        ("platform", "cuda"),
        ("tensor_parallel", 1),
        ("model", "nemotron-3-nano-30b-a3b"),
    ]
    clicks, bares, busy = [], [], []
    for field, value in changes * max(3, int(20 * scale)):
        before = time.process_time()
        clicks.append(seconds_of(partial(panel.apply, **{field: value})))
        busy.append(time.process_time() - before)
        assert panel.plan.settings == panel.scenario
        assert getattr(panel.scenario, field) == value
        bares.append(seconds_of(lambda: bare.show(wb.figures.page(panel.plan))))
    assert panel.session.errors == []
    reference = ("drawing and showing the bare figure", median(bares))
    for name, rank in (("p50", 9), ("p95", 18)):
        seconds, cpu = (statistics.quantiles(times, n=20)[rank] for times in (clicks, busy))
        note = f"{len(clicks)} changes of model, TP and platform; {duration(cpu)} of CPU"
        yield Figure(f"change to front door, {name}", seconds, *reference, BUDGET_CLICK_S, note)


if __name__ == "__main__":
    measures = (import_time, resolutions, batch_throughput, click_latency)
    run(__doc__.splitlines()[0], measures, CELLS, quick=0.1, derived=["ratio"])
