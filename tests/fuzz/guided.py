"""One target under atheris, which changes those inputs that reached new code; see `__main__`.

python -m tests.fuzz.guided TARGET SECONDS SEED FOLDER: ends with a line of JSON on stdout.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import atheris

from tests.fuzz.engine import LONG, TOKENS, Tally, kept_inputs
from tests.fuzz.targets import Target, offline, target_named

REPORT = "report.json"
LONGEST_INPUT = 2**16


def main(name: str, seconds: str, seed: str, folder: Path) -> None:
    """Run until the time is over; the corpus and the report are in the folder of the target."""
    target = target_named(name)
    own = folder / name
    for part in ("corpus", "faults"):
        (own / part).mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(include=["workbench"]):
        offline()
        tally = Tally.of(target)
        seeds = [*kept_inputs(target, folder), *target.seeds()]
        for data in seeds:  # what the readers need is imported here
            tally.execute(target, data)
    written = [time.monotonic()]

    def one(data: bytes) -> None:
        tally.execute(target, data)
        if time.monotonic() - written[0] > 1:
            write(target, tally, folder)
            written[0] = time.monotonic()

    write(target, tally, folder)
    with tempfile.TemporaryDirectory() as valid:
        for number, data in enumerate(seeds):
            (Path(valid) / str(number)).write_bytes(data)
        words = Path(valid).with_suffix(".dict")
        words.write_text("".join(f'"{_escaped(token)}"\n' for token in TOKENS + LONG if token))
        options = [f"-max_total_time={seconds}", f"-seed={seed}", f"-max_len={LONGEST_INPUT}"]
        # inputs that take seconds, or end the process: by default into the current folder
        options += [f"-artifact_prefix={own / 'faults'}/"]
        quiet = ["-verbosity=0", "-timeout=120", "-rss_limit_mb=4096", f"-dict={words}"]
        atheris.Setup([sys.argv[0], str(own / "corpus"), valid, *options, *quiet], one)
        atheris.Fuzz()


def write(target: Target, tally: Tally, folder: Path) -> None:
    """Write what was found until now: the fuzzer ends the process without coming back."""
    tally.write_faults(target, folder)
    found = {"times": tally.times, "faults": sorted(tally.faults)}
    (folder / target.name / REPORT).write_text(json.dumps(found))


def _escaped(token: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in token[:64])


if __name__ == "__main__":
    main(*sys.argv[1:4], Path(sys.argv[4]))
