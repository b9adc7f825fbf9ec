"""Throw damaged input at everything that reads some, for a bounded time; keep what was learned.

    .venv/bin/python -m tests.fuzz [--seconds 600] [--seed 0] [--target NAME]

With atheris, which follows the code that an input reaches, where it is installed; else at random.
Inputs that reached new code or failed stay in the folder `.fuzz` and are read first next time. Exit
code 1: an exception that is not an error of ours.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.engine import Tally, kept_inputs, search
from tests.fuzz.targets import TARGETS, Target, offline

GRACE_SECONDS = 600
"""After the given time: for the start, and for a last input that is slow."""


def main() -> int:
    """Run as the command line says; return the exit code."""
    options = _options()
    targets = [target for target in TARGETS if options.target in {None, target.name}]
    share = max(1, options.seconds // len(targets))
    run = _at_random if options.engine == "random" else _atheris
    print(f"{options.engine}: {share} s for each of {len(targets)} targets, seed {options.seed}")
    total = Tally()
    for target in targets:
        found = run(target, share, options.seed, options.folder)
        print("\n    ".join([f"{target.name:12} {found.summary}", *found.faults]), flush=True)
        total.add(found)
    print(f"{'all':12} {total.summary}, {len(total.faults)} faults; inputs: {options.folder}")
    return int(bool(total.faults))


def _at_random(target: Target, seconds: int, seed: int, folder: Path) -> Tally:
    offline()
    tally = search(target, seconds, seed, kept_inputs(target, folder))
    tally.write_faults(target, folder)
    return tally


def _atheris(target: Target, seconds: int, seed: int, folder: Path) -> Tally:
    """Run in a process of its own: atheris never returns."""
    report = folder / target.name / "report.json"
    report.unlink(missing_ok=True)
    words = [target.name, str(seconds), str(seed + 1), str(folder)]  # 0 draws another seed
    command, end = [sys.executable, "-m", "tests.fuzz.guided", *words], seconds + GRACE_SECONDS
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=end)
        code, said = str(done.returncode), done.stderr
    except subprocess.TimeoutExpired as error:
        code, said = f"nothing in {end} s", error.stderr or b""
    if not report.is_file():
        raise SystemExit(
            f"{target.name}: atheris did not start.\n{said[-2000:].decode(errors='replace')}"
        )
    found = json.loads(report.read_text())
    times = Counter({int(tenths): count for tenths, count in found["times"].items()})
    tally = Tally(times, dict.fromkeys(found["faults"], b""))
    if code != "0":  # a crash of the interpreter, a hang, or too much memory
        tally.faults[f"the process ended with {code}: {said[-500:].decode(errors='replace')}"] = b""
    return tally


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    has_atheris = importlib.util.find_spec("atheris") is not None
    engine = "atheris" if has_atheris else "random"
    parser.add_argument("--seconds", type=int, default=600, help="for all targets together")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: another one")
    parser.add_argument("--target", choices=[target.name for target in TARGETS])
    parser.add_argument("--engine", choices=["atheris", "random"], default=engine)
    parser.add_argument("--folder", type=Path, default=Path(".fuzz"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
