"""What the benchmarks share: times taken in turn, the machine, a table, and the JSON."""

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from workbench.kernels.bench.machine import cpu_model
from workbench.views.text import aligned

PACKAGES = ("hybrid-kv-workbench", "numpy", "pydantic", "plotly", "ipywidgets")

Name = TypeVar("Name", bound=Hashable)


def run(
    what: str,
    measures: Sequence[Callable[[float], Iterable[Any]]],
    cells: Mapping[str, Callable[[Any], str]],
    *,
    quick: float,
    rows_as: str = "figures",
    derived: Sequence[str] = (),
    **facts: object,
) -> None:
    """Measure, print, and write the JSON if a file is named.

    measures: each is given the scale, 1 or with --quick that of `quick`, and yields rows. cells:
    heading -> the text of a row. derived: properties of a row that the JSON has in addition.
    facts: what else to say of the machine.
    """
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try it out")
    options = parser.parse_args()
    machine = describe_machine() | facts
    print(*(f"{name}: {value}" for name, value in machine.items()), sep="\n", end="\n\n")
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        print("Other work keeps these cores busy: times are longer than on a quiet machine.\n")
    with tempfile.TemporaryDirectory() as folder:
        # Interpreters started here keep bytecode, as an installed package has it.
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        rows = [row for measure in measures for row in measure(quick if options.quick else 1.0)]
    table = [list(cells), *([cell(row) for cell in cells.values()] for row in rows)]
    print(*aligned(table), sep="\n")
    if options.json:
        published = [asdict(row) | {name: getattr(row, name) for name in derived} for row in rows]
        text = json.dumps({"machine": machine, rows_as: published}, indent=2)
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


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turn(works: Mapping[Name, Callable[[], object]], rounds: int) -> dict[Name, list[float]]:
    """Time every work once per round, so that a slow moment affects all of them."""
    times: dict[Name, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(seconds_of(work))
    return times


def duration(seconds: float | None) -> str:
    """Format seconds in a unit that gives a readable number; nothing for None."""
    if seconds is None:
        return ""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds * 1e6:.1f} us"


def within(seconds: float, budget: float | None) -> str:
    """Format a budget, and whether it is kept; nothing without one."""
    return "" if budget is None else f"{duration(budget)} {'ok' if seconds <= budget else 'OVER'}"
