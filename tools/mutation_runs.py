"""Run tests in forks of one process that has loaded what the changed code never is part of.

Started as a program in a copy of the checkout, it reads one `Request` per line and answers with
pytest's exit code, or null: not in time. A fork imports the changed code anew, as a new process
would. A request with `map_to` writes there which blocks of code every test reaches.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import gc
import importlib
import importlib.machinery
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mutation_points import blocks, enter

LOADED = ("pytest", "hypothesis", "numpy", "torch", "triton")
"""What every fork finds imported. None of it may import the code that is changed."""
PYTEST = (
    *("-v", "-p", "no:cacheprovider", "--hypothesis-profile=quick"),
    *("-m", "not browser and not notebook and not slow"),
)
ENVIRONMENT = {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
CACHED = type(functools.lru_cache(len))


@dataclass(frozen=True)
class Request:
    """One run of pytest."""

    files: list[str]
    """What is collected."""
    tests: list[str]
    """Node ids in the order in which they run; empty: all that was collected."""
    seconds: float
    map_to: str = ""
    code: str = ""
    """With `map_to`: the folder whose blocks are noted."""


class Runner:
    """The other side: a copy of the checkout with a process that forks in it."""

    def __init__(self, copy: Path) -> None:
        paths = os.pathsep.join([str(copy), str(copy / "tools")])
        self.copy = copy
        self.output = copy / "output-of-the-last-run"
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), str(self.output)],
            cwd=copy,
            env={**os.environ, **ENVIRONMENT, "PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, request: Request) -> int | None:
        """Return how pytest ends; None: not in time."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(asdict(request)) + "\n")
        self.process.stdin.flush()
        code: int | None = json.loads(self.process.stdout.readline())
        return code

    def shown(self) -> str:
        """Return what the last run of pytest printed."""
        return self.output.read_text(errors="replace")

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


class Plugin:
    """Orders the tests of a request, and notes what each of them reaches."""

    def __init__(self, request: Request) -> None:
        self.rank = {test: rank for rank, test in enumerate(request.tests)}
        self.reached: set[tuple[str, int]] | None = None
        self.caches: list[Any] = []
        self.tests: list[tuple[str, float, list[tuple[str, int]]]] = []
        self.failed: list[str] = []
        self.code = Path(request.code).resolve()
        if request.map_to:
            self.reached = note_blocks(self.code)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep the tests of the request, in its order."""
        if self.rank:
            kept = [item for item in items if item.nodeid in self.rank]
            items[:] = sorted(kept, key=lambda item: self.rank[item.nodeid])
        if self.reached is not None:
            self.caches = [one for one in gc.get_objects() if _remembers(one, self.code)]

    def pytest_runtest_protocol(self, item: Any) -> None:
        """Forget what an earlier test reached or remembered."""
        if self.reached is not None:
            for one in self.caches:
                one.cache_clear()
            self.reached.clear()
            self.begun: float = sum(os.times()[:4])

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note a failure."""
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Note what this test reached."""
        if self.reached is not None:
            seconds = sum(os.times()[:4]) - self.begun
            self.tests.append((nodeid, round(seconds, 3), sorted(self.reached)))


def _remembers(one: Any, code: Path) -> bool:
    """Return whether an object is a function of `code` that remembers its results."""
    if type(one) is not CACHED or not hasattr(one.__wrapped__, "__code__"):
        return False
    return Path(one.__wrapped__.__code__.co_filename).resolve().is_relative_to(code)


def note_blocks(code: Path) -> set[tuple[str, int]]:
    """From now on, modules below `code` are compiled so that every block notes its first line."""
    reached: set[tuple[str, int]] = set()
    builtins.__reached__ = lambda file, line: reached.add((file, line))  # type: ignore[attr-defined]
    loader: Any = importlib.machinery.SourceFileLoader
    plain = loader.source_to_code

    def source_to_code(self: Any, data: Any, path: Any, **more: Any) -> Any:
        file = Path(os.fsdecode(path)).resolve()
        if not file.is_relative_to(code):
            return plain(self, data, path, **more)
        tree = ast.parse(data)
        for body in blocks(tree):
            enter(body, str(file.relative_to(Path.cwd())))
        return plain(self, tree, path, **more)

    loader.source_to_code = source_to_code
    sys.pycache_prefix, sys.dont_write_bytecode = str(Path.cwd() / "no-such-folder"), True
    return reached


def in_fork(request: Request, output: str) -> int:
    """Run pytest in this process; return its exit code."""
    import pytest

    with open(output, "wb", buffering=0) as file:  # noqa: PTH123
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    plugin = Plugin(request)
    stop = [] if request.map_to else ["-x"]
    code = int(pytest.main([*PYTEST, *stop, *request.files], plugins=[plugin]))
    if request.map_to:
        Path(request.map_to).write_text(json.dumps([plugin.tests, plugin.failed]))
    return code


def answer(request: Request, output: str) -> int | None:
    """Fork, wait, and end every process that the fork left."""
    end = time.monotonic() + request.seconds
    if not (child := os.fork()):
        code = 3
        with contextlib.suppress(BaseException):
            os.setsid()
            code = in_fork(request, output)
        os._exit(code)
    status: int | None = None
    pause = 0.01
    while status is None and time.monotonic() < end:
        done, found = os.waitpid(child, os.WNOHANG)
        status = found if done else None
        time.sleep(0 if done else pause)
        pause = min(0.2, pause * 1.5)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if status is None:
        os.waitpid(child, 0)
        return None
    return os.waitstatus_to_exitcode(status)


def main() -> None:
    """Answer every request."""
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    for name in LOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        code = answer(Request(**json.loads(line)), sys.argv[1])
        print(json.dumps(code), flush=True)


if __name__ == "__main__":
    main()
