"""The pieces of a run on a GPU: each is a process of its own that ends within nine minutes."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
TESTS = REPOSITORY / "tests" / "kernels"
PIECE_S = 540.0
SANITIZER = "compute-sanitizer"
SANITIZED = ("block_table/test_memory.py", "paged_flex/test_memory.py")
"""Tests that write at the ends of tensors."""
DRILLS = ("paged_flex/test_bits.py", "paged_flex/test_programs.py")
"""Tests that compare bits: alone and in a batch, in one chunk and in several."""
MATRIX = REPOSITORY / "notebooks" / "matrix.toml"
LAB_PACKAGES = (
    *("anywidget", "hypothesis", "IPython", "ipykernel", "ipywidgets", "jinja2", "jsonschema"),
    *("nbclient", "nbconvert", "nbformat", "papermill", "plotly", "psutil", "pydantic", "pynvml"),
    "typer",
)
"""What labs, their tests and a run of a notebook import, besides torch, triton, numpy, pytest."""
LABS = (
    *("labs", "ui/test_block_tables_panel.py", "ui/test_flex_lab.py"),
    *("sweeps/test_sweep_flex.py", "sweeps/test_sweep_tables.py"),
)
"""Tests of what launches kernels for a person: files and folders of `tests`."""
QUICK = "not slow and not thorough"
OK, FAILED, CUT_OFF, SKIPPED = "ok", "failed", "cut off", "skipped"
NO_TESTS = 5
"""pytest's exit code where it found no test."""
TAIL = 4000
SOURCES = {".py", ".c", ".ipynb", ".toml", ".json"}
NO_OTHER_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Whatever is installed besides pytest stays out of the tests."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One command. `skipped`: why it cannot run."""

    name: str
    command: tuple[str, ...]
    skipped: str = ""
    alone: bool = False
    """Whether nothing else may run with it: it has times."""
    more_source: str = ""
    """Hash of what it runs besides the kernels and their tests."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a piece ended, with the end of what it printed."""

    name: str
    status: str
    seconds: float
    source: str
    """Hash of the code that ran."""
    output: str = ""


def pytest_command(*files: Path | str) -> tuple[str, ...]:
    """Return pytest without this repository's own settings, which need its other packages."""
    ini = TESTS / "gpu_pytest.ini"
    own = ("-p", "tests.kernels.gpu_plugin", "--noconftest", "-c", str(ini))
    return (sys.executable, "-m", "pytest", *own, "--rootdir", str(REPOSITORY), *map(str, files))


def pieces(folder: Path, *, reduced: bool = False, peers: str = "") -> tuple[Piece, ...]:
    """Return all pieces in order: what is wrong comes before what is slow.

    reduced: benchmarks with few repetitions, for a rehearsal without a GPU. peers: as a benchmark's
    own option, only those whose names contain one of these texts.
    """
    from workbench.kernels.bench.flex_cases import CASES
    from workbench.kernels.bench.workloads import WORKLOADS

    drills = {TESTS / name for name in DRILLS}
    files = sorted(file for file in TESTS.rglob("test_*.py") if file not in drills)
    found = [Piece(f"test {_name(file)}", pytest_command(file)) for file in files]
    found += [Piece(f"drill {_name(file)}", pytest_command(file)) for file in sorted(drills)]
    sanitizer = shutil.which(SANITIZER)
    for name in SANITIZED:
        command = (sanitizer or SANITIZER, "--error-exitcode", "1", *pytest_command(TESTS / name))
        missing = "" if sanitizer else f"{SANITIZER} is not on PATH"
        found.append(Piece(f"sanitizer {name}", command, skipped=missing))
    for benchmark, option, cases in (
        ("block-table", "--workloads", WORKLOADS),
        ("flex", "--cases", CASES),
    ):
        for case in cases:
            writes = f"{benchmark} {case}.json"
            module = ("-m", "workbench.kernels.bench", benchmark)
            command = (sys.executable, *module, option, case, "--json", str(folder / writes))
            command += ("--quick",) if reduced else ()
            command += ("--peers", peers) if peers else ()
            found.append(Piece(f"bench {benchmark} {case}", command, alone=True))
    # those that measure come last, so that the others stay together
    return (*found, *sorted(_labs(folder, reduced=reduced), key=lambda piece: piece.alone))


def _labs(folder: Path, *, reduced: bool) -> Iterator[Piece]:
    """Yield a piece per test file of labs, and per run of a notebook that the matrix has for a GPU.

    reduced: the notebooks without one.
    """
    missing = [name for name in LAB_PACKAGES if not _is_here(name)]
    common: dict[str, Any] = {
        "skipped": f"not installed: {', '.join(missing)}" if missing else "",
        "more_source": code_hash("workbench", "notebooks", "tests"),
    }
    for place in LABS:
        path = TESTS.parent / place
        for file in sorted(path.glob("test_*.py")) if path.is_dir() else (path,):
            # of a failure the end is kept, which torch's log would fill
            options = ("--quiet", "--show-capture=no", "--tb=short", "-m", QUICK)
            test = (sys.executable, "-m", "pytest", *options, str(file))
            yield Piece(f"lab {file.name}", test, **common)
    table = tomllib.loads(MATRIX.read_text(encoding="utf-8"))
    start = (sys.executable, "-m", "workbench", "notebook", "run", "--output", str(folder / "runs"))
    for notebook, entry in table["notebook"].items():
        for case, given in entry.get("cases", {}).items():
            if not (needs := given.get("gpu")):
                continue
            name = f"{PurePosixPath(notebook).with_suffix('')}::{case}"
            which: tuple[str, ...] = ("--matrix", str(MATRIX), "--only", name)
            if reduced:
                values = {**entry.get("parameters", {}), **given.get("parameters", {})}
                values |= table["defaults"]["parameters"]
                named = (f"{key}={json.dumps(value)}" for key, value in values.items())
                which = (str(MATRIX.parent / notebook), *(f"--parameter={each}" for each in named))
            yield Piece(f"notebook {name}", (*start, *which), alone=needs == "alone", **common)


def _is_here(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ImportError:
        return False


def code_hash(*folders: str) -> str:
    """Return twelve hex digits over the code in these folders: other code is run anew."""
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted((REPOSITORY / folder).rglob("*")):
            if file.suffix in SOURCES and file.is_file():
                digest.update(file.relative_to(REPOSITORY).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def _name(file: Path) -> str:
    return file.relative_to(TESTS).as_posix()


def run_pieces(
    chosen: Sequence[Piece],
    folder: Path,
    source: str,
    say: Callable[[str], None],
    *,
    seconds: float = float("inf"),
    piece_s: float = PIECE_S,
    workers: int = 1,
) -> list[Outcome]:
    """Run what is missing, and return how every piece ended; those that did not run are absent.

    A piece that ran to its end with the same code is not run again; one that was cut off is. No
    piece begins that could end after `seconds`, unless nothing else ran. workers: pieces at a time,
    of those that have no times.
    """
    end = time.monotonic() + seconds

    def outcome_of(piece: Piece) -> Outcome | None:
        file = folder / f"{re.sub('[/:]+', ' ', piece.name)}.outcome.json"
        before = _read(file)
        if before and before.source == source + piece.more_source and before.status in {OK, FAILED}:
            return before
        left = end - time.monotonic()
        if left < piece_s:
            say(f"{piece.name}: not begun, {max(left, 0):.0f} s are left; run the command again")
            return None
        outcome = _run(piece, source + piece.more_source, piece_s)
        # at once, so that a run that is cut off goes on from here
        partial = file.with_suffix(".part")
        partial.write_text(json.dumps(asdict(outcome), indent=1) + "\n", encoding="utf-8")
        partial.replace(file)
        say(f"{piece.name}: {outcome.status} ({outcome.seconds:.0f} s)")
        return outcome

    outcomes: list[Outcome | None] = []
    for alone, together in groupby(chosen, key=lambda piece: piece.alone):
        with ThreadPoolExecutor(1 if alone else workers) as pool:
            outcomes += pool.map(outcome_of, together)
    return [outcome for outcome in outcomes if outcome]


def _run(piece: Piece, source: str, piece_s: float) -> Outcome:
    if piece.skipped:
        return Outcome(piece.name, SKIPPED, 0.0, source, piece.skipped)
    begin = time.monotonic()
    paths = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        done = subprocess.run(
            piece.command,
            cwd=REPOSITORY,
            env={**os.environ, **NO_OTHER_PLUGINS, "PYTHONPATH": os.pathsep.join(paths)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=piece_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        said = error.output or b""
        text = said.decode(errors="replace") if isinstance(said, bytes) else said
        return Outcome(piece.name, CUT_OFF, time.monotonic() - begin, source, text[-TAIL:])
    status = OK if done.returncode == 0 else FAILED
    if done.returncode == NO_TESTS:
        status = SKIPPED
    return Outcome(piece.name, status, time.monotonic() - begin, source, done.stdout[-TAIL:])


def _read(file: Path) -> Outcome | None:
    try:
        return Outcome(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
