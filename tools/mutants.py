"""Change one operator or value at a time, at random, and list the changes that no test notices.

    .venv/bin/python tools/mutants.py [--seconds 900] [--seed 0] [--count N] [--only TEXT]

Works in copies of the checkout. Judges of a change are the tests of its area that call the changed
function, one case of every test first, the quickest first; a failure ends the run. What tests call
is measured once per state of the code (`mutation_cover.py`), and every one has to pass then;
`--mapping` limits the time for that, and the next run goes on with the files that are left.
What computes for more than `--patience` seconds is listed as undecided, and so is a change whose
failed test fails without it, too: a busy machine decides nothing. Slow tests do not take part.
Exit code 1: fewer than 95 % of the decided changes of some area were noticed, apart from those that
`tools/equivalent_mutants.json` explains.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate, chain, count, zip_longest
from pathlib import Path
from queue import SimpleQueue

from mutation_cover import Area, Cover, cover
from mutation_points import Mutant, mutants
from mutation_runs import Request, Runner

ROOT = Path(__file__).parents[1]
EQUIVALENT = "tools/equivalent_mutants.json"
ENOUGH = 0.95
FIRST = 25
"""Tests that run before the files of all others are collected."""
NOTICED, SURVIVED, UNDECIDED = "noticed", "SURVIVED", "undecided"
SLOWEST = 20
"""How many seconds one of computing may take where many compute: what waits longer hangs."""
PASSED, NO_TESTS = 0, 5
"""Exit codes of pytest."""
CORE_TESTS = ("core", "scenario", "verify", "models", "sweeps", "views", "labs", "interop", "ui")
"""Folders whose tests compute plans, the nearest first."""
AREAS = (
    Area("core", "workbench/core", tuple(f"tests/{one}/test_*.py" for one in CORE_TESTS)),
    Area("store", "workbench/sweeps/store", ("tests/sweeps/test_store*.py",)),
    Area("kernels", "kernels", ("tests/kernels/**/test_*.py",)),
)
Verdict = tuple[Area, Mutant, str]


def main() -> int:
    """Run as the command line says; return the exit code."""
    options = _options()
    areas = [area for area in AREAS if options.area in {None, area.name}]
    explained = {tuple(one[:-1]) for one in json.loads((options.root / EQUIVALENT).read_text())}
    drawn = [
        sample(options.root, area, options.seed, options.only, explained)[: options.count]
        for area in areas
    ]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ExitStack() as stack:
        free: SimpleQueue[Runner] = SimpleQueue()
        runners = [
            Runner(copy_of_checkout(options.root, Path(folder) / str(number)))
            for number in range(options.workers)
        ]
        for runner in runners:
            stack.callback(runner.close)
            free.put(runner)
        covers = {area: cover(area, options.root, runners, options.mapping) for area in areas}
        end = time.monotonic() + options.seconds
        judge = Judge(covers, options.patience, options.budget, free, end)
        with ThreadPoolExecutor(options.workers) as pool:
            in_turn = filter(None, chain(*zip_longest(*drawn)))
            verdicts = list(filter(None, pool.map(judge, in_turn)))
    return report(verdicts, areas)


def copy_of_checkout(root: Path, target: Path) -> Path:
    """Copy what git has or would take."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    for name in filter(lambda name: os.path.lexists(root / name), names.splitlines()):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, target / name, follow_symlinks=False)
    return target


def sample(
    root: Path, area: Area, seed: int, only: str, explained: set[tuple[str, ...]]
) -> list[tuple[Area, Mutant]]:
    """Return the changes of an area in the random order of `seed`."""
    found = [
        (area, mutant)
        for path in sorted((root / area.code).rglob("*.py"))
        for mutant in mutants(path.read_bytes(), str(path.relative_to(root)))
        if only in f"{mutant.file}:{mutant.line}:{mutant.function}" and not mutant.keys & explained
    ]
    random.Random(seed).shuffle(found)  # noqa: S311 - not a secret
    return found


@dataclass(frozen=True)
class Judge:
    """Says of one change after the other whether a test notices it."""

    covers: dict[Area, Cover]
    patience: float
    budget: float
    """Processor time of the tests that judge a change, in seconds, as it was measured."""
    free: SimpleQueue[Runner]
    """Those without a change."""
    stop: float
    """When the time is over, as `time.monotonic` has it."""

    def __call__(self, drawn: tuple[Area, Mutant]) -> Verdict | None:
        """Return the verdict, or None: the time is over."""
        area, mutant = drawn
        if time.monotonic() > self.stop:
            return None
        runner = self.free.get()
        try:
            verdict, tests = self.verdict(self.covers[area], mutant, runner)
        finally:
            self.free.put(runner)
        print(f"{verdict:9} {tests:3} tests, {_line(mutant)}", flush=True)
        return area, mutant, verdict

    def verdict(self, cover: Cover, mutant: Mutant, runner: Runner) -> tuple[str, int]:
        """Run the tests on the change, the first ones of all first; return how many were let."""
        path, notes = runner.copy / mutant.file, runner.copy / "failed.json"
        most = self.budget / 20  # of a test that does not have to wait for all quicker ones
        tests = sorted(cover.tests_of(mutant), key=lambda test: cover.seconds[test] > most)
        spent = accumulate(cover.seconds[test] for test in tests)
        tests = [one for one, time in zip(tests, spent, strict=True) if time < self.budget]
        source = path.read_bytes()

        def run(some: list[str]) -> int | None:
            files = list(dict.fromkeys(test.partition("::")[0] for test in some))
            limit = self.patience
            return runner.run(Request(files, some, SLOWEST * limit, str(notes), processor=limit))

        for some in filter(None, (tests[:FIRST], tests[FIRST:])):
            notes.unlink(missing_ok=True)
            try:
                _write(path, mutant.apply(source))
                code = run(some)
            finally:
                _write(path, source)
            if code not in {PASSED, NO_TESTS}:
                failed = json.loads(notes.read_text())[1] if notes.exists() else []
                sure = code is not None and (not failed or run(failed) == PASSED)
                return NOTICED if sure else UNDECIDED, len(tests)
        return SURVIVED, len(tests)


WRITES = count(1)


def _write(path: Path, source: bytes) -> None:
    """Write with a time of its own: Python compares times to see whether a file was compiled."""
    path.write_bytes(source)
    seconds = 10**9 + next(WRITES)
    os.utime(path, (seconds, seconds))


def _line(mutant: Mutant) -> str:
    return f"{mutant.file}:{mutant.line} {mutant.function}: {mutant.before} -> {mutant.after}"


def report(verdicts: Sequence[Verdict], areas: Sequence[Area]) -> int:
    """Print the share of every area and what was not noticed; return the exit code."""
    code = 0
    for area in areas:
        counts = {
            verdict: sum(one[0] is area and one[2] == verdict for one in verdicts)
            for verdict in (NOTICED, SURVIVED, UNDECIDED)
        }
        decided = counts[NOTICED] + counts[SURVIVED]
        share = counts[NOTICED] / decided if decided else 0.0
        code |= share < ENOUGH
        print(f"{area.name}: {share:.1%} noticed {counts}")
    for _, mutant, verdict in verdicts:
        if verdict != NOTICED:
            print(f"{verdict:9} {_line(mutant)}")
    return code


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=900, help="no change is begun later")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other changes")
    parser.add_argument("--count", type=int, help="at most so many changes per area")
    parser.add_argument("--only", default="", help="changes whose file:line:function contains this")
    parser.add_argument("--area", choices=[area.name for area in AREAS])
    parser.add_argument("--budget", type=float, default=300, help="seconds of tests per change")
    parser.add_argument("--mapping", type=float, default=3600, help="seconds to measure an area")
    parser.add_argument(
        "--patience", type=float, default=600, help="seconds that tests may compute"
    )
    parser.add_argument("--workers", type=int, default=2, help="changes that run at a time")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
