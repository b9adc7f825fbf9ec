"""Run tests in forks of one process that has loaded what the changed code never is part of.

Started as a program in a copy of the checkout, it reads one `Request` per line and answers with
pytest's exit code, or null: not in time. A fork imports the changed code anew, as a new process
would. A request with `code` writes which functions of that folder every test calls.
"""

from __future__ import annotations

import ast
import atexit
import builtins
import contextlib
import importlib
import importlib.machinery
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

LOADED = ("pytest", "hypothesis", "numpy", "torch", "triton")
"""What every fork finds imported. None of it may import the code that is changed."""
PROFILE = "few"
"""Of hypothesis, as `tests/conftest.py` registers it."""
PYTEST = (
    *("-v", "-p", "no:cacheprovider", f"--hypothesis-profile={PROFILE}"),
    *("-m", "not browser and not notebook and not slow"),
)
ENVIRONMENT = {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
Place = tuple[str, int]
"""A file, and the line where a function of it begins."""
IMPORT = 0
"""The line that is noted when a module is imported."""
CODE, NOTES = "MUTATIONS_CODE", "MUTATIONS_NOTES"
"""Variables for programs that tests start: the folder that is noted, and where to write."""
ROOT = Path(__file__).resolve().parents[1]
START = "import mutation_runs\n\nmutation_runs.note_as_program()\n"
"""Of a module that Python imports when it starts."""


@dataclass(frozen=True)
class Request:
    """One run of pytest."""

    files: list[str]
    """What is collected."""
    tests: list[str]
    """Node ids in the order in which they run; empty: all that was collected."""
    seconds: float
    """By the clock."""
    notes: str
    """Where the tests are written, and those that failed."""
    code: str = ""
    """The folder whose functions are noted; empty: stop at the first failure."""
    processor: float = math.inf
    """Seconds that each process may compute."""


class Runner:
    """The other side: a copy of the checkout with a process that forks in it."""

    def __init__(self, copy: Path) -> None:
        start = copy / "test-output" / "start"
        start.mkdir(parents=True)
        (start / "sitecustomize.py").write_text(START)
        paths = os.pathsep.join([str(copy), str(copy / "tools"), str(start)])
        self.copy = copy
        self.output = copy / "output-of-the-last-run"
        self.process = subprocess.Popen(
            [sys.executable, str(copy / "tools" / "mutation_runs.py"), str(self.output)],
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
    """Orders the tests of a request, and notes which functions each of them calls."""

    def __init__(self, request: Request) -> None:
        self.rank = {test: rank for rank, test in enumerate(request.tests)}
        self.file = request.files[0]
        self.notes = Path(f"{request.notes}-of-programs")
        self.reached: set[Place] | None = None
        if request.code:
            self.notes.mkdir(exist_ok=True)
            os.environ |= {CODE: str(Path(request.code).resolve()), NOTES: str(self.notes)}
            self.reached = note_calls(Path(request.code).resolve())
            with contextlib.suppress(ImportError):
                note_kernels(self.reached, Path(request.code).resolve())
        self.tests: list[tuple[str, float, list[Place]]] = []
        self.failed: list[str] = []
        self.begun = 0.0

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep the tests of the request, in its order; note what was called until now.

        The name of a case can hold what was changed: of a test whose case is missing, all run.
        """
        if self.rank:
            missing = self.rank.keys() - {item.nodeid for item in items}
            renamed = {test.partition("[")[0] for test in missing}
            last = len(self.rank)
            for item in items:
                if item.nodeid.partition("[")[0] in renamed:
                    self.rank.setdefault(item.nodeid, last)
            kept = [item for item in items if item.nodeid in self.rank]
            items[:] = sorted(kept, key=lambda item: self.rank[item.nodeid])
        self.note(self.file)

    def note(self, test: str) -> None:
        """Note what was called by this test, and begin anew."""
        now = sum(os.times()[:4])
        if self.reached is not None:
            for file in self.notes.iterdir():
                self.reached.update(map(tuple, json.loads(file.read_text())))
                file.unlink()
            self.tests.append((test, round(now - self.begun, 3), sorted(self.reached)))
            self.reached.clear()
        self.begun = now

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note a failure."""
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Note what this test reached."""
        self.note(nodeid)


def note_calls(code: Path) -> set[Place]:
    """From now on, modules below `code` are compiled so that every function notes its calls."""
    reached: set[Place] = set()
    builtins.__reached__ = lambda file, line: reached.add((file, line))  # type: ignore[attr-defined]
    loader: Any = importlib.machinery.SourceFileLoader
    plain = loader.source_to_code

    def source_to_code(self: Any, data: Any, path: Any, **more: Any) -> Any:
        if name := name_of(path, code):
            reached.add((name, IMPORT))
            data = noting(ast.parse(data), name)
        return plain(self, data, path, **more)

    loader.source_to_code = source_to_code
    sys.pycache_prefix, sys.dont_write_bytecode = str(ROOT / "no-such-folder"), True
    return reached


def name_of(path: str | bytes, code: Path) -> str | None:
    """Return the name of a file below `code` in the checkout, also through a link."""
    file = Path(os.fsdecode(path)).resolve()
    return str(file.relative_to(ROOT)) if file.is_relative_to(code) else None


def note_as_program() -> None:
    """Note the calls of a program that a test starts, and write them when it ends."""
    if folder := os.environ.get(NOTES):
        reached = note_calls(Path(os.environ[CODE]))
        file = Path(folder, f"{os.getpid()}.json")
        atexit.register(lambda: file.write_text(json.dumps(sorted(reached))))


def noting(tree: ast.Module, file: str) -> ast.Module:
    """Let every function of a file begin with a note of its line, after its docstring."""
    for one in ast.walk(tree):
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            values: list[ast.expr] = [ast.Constant(file), ast.Constant(one.lineno)]
            call = ast.Expr(ast.Call(ast.Name("__reached__", ast.Load()), values, []))
            has_text = ast.get_docstring(one, clean=False) is not None
            one.body.insert(has_text, ast.fix_missing_locations(ast.copy_location(call, one)))
    return tree


def note_kernels(reached: set[Place], code: Path) -> None:
    """Note kernels, too: Triton interprets their text as it is in the file."""
    from triton.runtime.interpreter import InterpretedFunction

    plain = InterpretedFunction.rewrite

    def rewrite(self: Any) -> Any:
        kernel = self.fn.__code__
        if name := name_of(kernel.co_filename, code):
            reached.add((name, kernel.co_firstlineno))
        return plain(self)

    InterpretedFunction.rewrite = rewrite


def in_fork(request: Request, output: str) -> int:
    """Run pytest in this process; return its exit code."""
    import pytest

    with open(output, "wb", buffering=0) as file:  # noqa: PTH123
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    plugin = Plugin(request)
    stop = [] if request.code else ["-x"]
    code = int(pytest.main([*PYTEST, *stop, *request.files], plugins=[plugin]))
    Path(request.notes).write_text(json.dumps([plugin.tests, plugin.failed]))
    return code


def answer(request: Request, output: str) -> int | None:
    """Fork, wait, and end every process that the fork left."""
    end = time.monotonic() + request.seconds
    if not (child := os.fork()):
        code = 3
        with contextlib.suppress(BaseException):
            os.setsid()
            if math.isfinite(request.processor):
                limit = math.ceil(request.processor)
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
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
    code = os.waitstatus_to_exitcode(status)
    return None if code == -signal.SIGKILL else code


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
