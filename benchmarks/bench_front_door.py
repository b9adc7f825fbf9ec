"""How fast the front door is: import, resolution, batch, and a click in the panel.

Every figure is compared with a reference measured in the same run on the same machine, and with
its budget: compare ratios, not seconds, between machines.

    python benchmarks/bench_front_door.py [--json FILE] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

BUDGET_IMPORT_S = 0.15
BUDGET_RESOLVE_S = 50e-6
BUDGET_BATCH_S = 5.0
BUDGET_CLICK_S = 0.1
BATCH_LINES = 10_000
YARDSTICK_STEPS = 1000
PACKAGES = ("hybrid-kv-workbench", "numpy", "pydantic", "plotly", "ipywidgets")


@dataclass(frozen=True)
class Figure:
    """One row of the table: a time, the reference `beside` it, and its budget."""

    what: str
    seconds: float
    beside: str = ""
    beside_seconds: float | None = None
    budget_seconds: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Return the time in units of the reference measured in the same run."""
        return self.seconds / self.beside_seconds if self.beside_seconds else None


def main() -> None:
    """Measure, print, and write the JSON if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--quick", action="store_true", help="few repetitions, to try it out")
    options = parser.parse_args()
    scale = 0.1 if options.quick else 1.0
    machine = describe_machine()
    print(
        *(f"{name}: {value}" for name, value in machine.items()), sep="\n", end="\n\n", flush=True
    )
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        print("Other work keeps these cores busy: times are longer than on a quiet machine.\n")
    figures = []
    for measure in (import_time, resolutions, batch_throughput, click_latency):
        figures += measure(scale)
    print_table(figures)
    if options.json:
        rows = [{**asdict(figure), "ratio": figure.ratio} for figure in figures]
        text = json.dumps({"machine": machine, "figures": rows}, indent=2)
        options.json.write_text(text + "\n", encoding="utf-8")


def describe_machine() -> dict[str, Any]:
    """Describe CPU, cores, load and versions."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def cpu_model() -> str:
    """Return the processor's own model name."""
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def import_time(scale: float) -> Iterator[Figure]:
    """Time imports in fresh interpreters, in turn, so that a slow moment affects all of them."""
    statements = {
        "import numpy": "import numpy",
        "import workbench": "import workbench",
        "import workbench and its first plan": "import workbench as wb; wb.resolve(wb.Scenario())",
    }
    times: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(max(3, int(21 * scale))):
        for name, statement in statements.items():
            times[name].append(timed_in_fresh_interpreter(statement))
    reference = statistics.median(times.pop("import numpy"))
    for name, seconds in times.items():
        budget = BUDGET_IMPORT_S if name == "import workbench" else None
        yield Figure(name, statistics.median(seconds), "import numpy", reference, budget)


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
    """Time one resolution with trace, for every catalog model on every platform it supports."""
    from workbench.core.errors import WorkbenchError
    from workbench.core.platforms import PLATFORMS
    from workbench.core.resolve import resolve as core_resolve
    from workbench.models import catalog_names, load_model
    from workbench.plan import resolve
    from workbench.scenario import Scenario

    mix = []
    for name in catalog_names():
        for place in PLATFORMS:
            scenario = Scenario(model=name, platform=place)
            try:
                assert core_resolve(load_model(name), scenario).steps
            except WorkbenchError:
                continue
            mix.append((f"{name} on {place}", load_model(name), scenario))

    rounds = max(5, int(100 * scale))
    loops: list[float] = []
    core: dict[str, list[float]] = {label: [] for label, _model, _scenario in mix}
    public: list[float] = []
    for _ in range(rounds):
        loops.append(seconds_of(yardstick))
        for label, model, scenario in mix:
            core[label].append(seconds_of(lambda m=model, s=scenario: core_resolve(m, s)))
        fields = random.choice(mix)[2].to_dict()  # noqa: S311  (not for secrets)
        public.append(seconds_of(lambda f=fields: resolve(Scenario(**f))))
    medians = {label: statistics.median(times) for label, times in core.items()}
    mean = statistics.fmean(medians.values())
    slowest = max(medians, key=lambda label: medians[label])
    loop = statistics.median(loops)
    reference = f"a Python loop of {YARDSTICK_STEPS} steps"
    over = sum(seconds > BUDGET_RESOLVE_S for seconds in medians.values())
    yield Figure(
        "resolve, mean of the catalog",
        mean,
        reference,
        loop,
        BUDGET_RESOLVE_S,
        f"{1 / mean:,.0f} a second; {over} of {len(mix)} over budget",
    )
    yield Figure(
        "resolve, slowest of the catalog",
        medians[slowest],
        reference,
        loop,
        BUDGET_RESOLVE_S,
        slowest,
    )
    yield Figure(
        "check the scenario and resolve",
        statistics.median(public),
        reference,
        loop,
        None,
        "wb.resolve",
    )


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


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
            before = children_cpu_seconds()
            times.append(seconds_of(lambda: run_batch(file, count)))
            busy.append(children_cpu_seconds() - before)
    seconds = statistics.median(times)
    yield Figure(
        f"batch of {count:,} lines",
        seconds,
        "a batch of one line",
        statistics.median(starts),
        BUDGET_BATCH_S * scale,
        f"{count / seconds:,.0f} lines a second; {duration(statistics.median(busy))} of CPU",
    )


def children_cpu_seconds() -> float:
    """Return the CPU time of all finished child processes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def varied_lines(count: int) -> Iterator[str]:
    """Yield scenarios with different models, places, sizes and dtypes; some are refused."""
    from workbench.core.platforms import PLATFORMS
    from workbench.models import catalog_names

    pick = random.Random(0).choice  # noqa: S311  (the same lines every time)
    for _ in range(count):
        fields = {
            "model": pick(catalog_names()),
            "platform": pick(list(PLATFORMS)),
            "tensor_parallel": pick([1, 1, 2, 4, 8]),
            "kv_cache_dtype": pick(["auto", "auto", "fp8"]),
            "mamba_ssm_cache_dtype": pick(["auto", "float32"]),
            "enable_prefix_caching": pick([None, True, False]),
            "block_size": pick([None, None, 16, 32, 64]),
            "num_speculative_tokens": pick([0, 0, 1, 2]),
            "max_num_batched_tokens": pick([None, 8192]),
        }
        yield json.dumps(fields) + "\n"


def run_batch(file: Path, lines: int) -> None:
    """Run the command on `file`; it must answer every line."""
    command = [sys.executable, "-m", "workbench", "resolve", "--batch", str(file)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.count("\n") == lines


def click_latency(scale: float) -> Iterator[Figure]:
    """Time a changed control up to the updated panel, Python only, and a bare figure."""
    import workbench as wb
    from workbench.views.page_figure import page_traces

    panel = wb.explore(model="nemotron-3-nano-30b-a3b")
    bare = wb.figures.page(panel.plan)
    bare = type(panel._figure._figure)(bare)  # noqa: SLF001  (the widget that the panel uses)
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
    for number in range(max(3, int(20 * scale)) * len(changes)):
        field, value = changes[number % len(changes)]
        before = time.process_time()
        clicks.append(seconds_of(lambda f=field, v=value: set_control(panel, f, v)))
        busy.append(time.process_time() - before)
        assert panel.plan.settings == panel.scenario
        assert getattr(panel.scenario, field) == value
        traces = page_traces(panel.plan)
        bares.append(seconds_of(lambda new=traces: update_in_place(bare, new)))
    assert panel.session.errors == []
    reference = ("updating a bare FigureWidget", statistics.median(bares))
    for name, rank in (("p50", 9), ("p95", 18)):
        seconds, cpu = (statistics.quantiles(times, n=20)[rank] for times in (clicks, busy))
        note = f"{len(clicks)} changes of model, TP and platform; {duration(cpu)} of CPU"
        yield Figure(f"click to panel, {name}", seconds, *reference, BUDGET_CLICK_S, note)


def set_control(panel: Any, field: str, value: object) -> None:
    """Set a control as a click does."""
    panel.controls[field].value = value


def update_in_place(figure: Any, traces: list[Any]) -> None:
    """Update a figure in place: the least that a changed figure costs."""
    with figure.batch_update():
        for trace, new in zip(figure.data, traces, strict=True):
            trace.x, trace.y = new.x, new.y


def print_table(figures: list[Figure]) -> None:
    """Print the figures, aligned, each with its ratio and budget."""
    rows = [("", "measured", "ratio", "compared with", "budget", "")]
    for figure in figures:
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}x"
        reference = ""
        if figure.beside_seconds is not None:
            reference = f"{figure.beside} ({duration(figure.beside_seconds)})"
        budget = ""
        if figure.budget_seconds is not None:
            verdict = "ok" if figure.seconds <= figure.budget_seconds else "OVER"
            budget = f"{duration(figure.budget_seconds)} {verdict}"
        rows.append((figure.what, duration(figure.seconds), ratio, reference, budget, figure.note))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def duration(seconds: float) -> str:
    """Format seconds in a unit that gives a readable number."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds * 1e6:.1f} us"


if __name__ == "__main__":
    main()
