"""How the runner fails: evidence, time limits, processes. What it catches: test_mutations.py."""

import json
import os
import shutil
import signal
import sys
import time

import psutil
import pytest

from workbench.notebooks import execute, run_notebook

pytestmark = pytest.mark.notebook
PATIENCE_S = 300  # reached by what is broken, never by a busy machine


@pytest.fixture
def only_problem(fixture_path, tmp_path):
    def run(name, **arguments):
        result = run_notebook(fixture_path(name), output_dir=tmp_path, **arguments)
        assert not result.ok
        assert result.output_path.exists()
        assert len(result.problems) == 1, result.report()
        return result, result.problems[0]

    return run


def test_a_failing_cell_is_shown_with_its_source_and_error(only_problem):
    result, problem = only_problem("cell_error")
    assert (problem.kind, problem.cell_index) == ("cell_error", 3)
    assert "ZeroDivisionError" in problem.message
    assert "> half(total)" in problem.excerpt
    assert "----> 2     return number / 0" in problem.excerpt
    assert result.results is None


def test_a_thread_that_fails_while_its_cell_runs_is_reported_once(only_problem):
    _, problem = only_problem("thread_error")
    assert (problem.kind, problem.cell_index) == ("background_thread", 3)
    assert "hidden in a thread" in problem.message


def test_the_evidence_of_a_hidden_error_is_kept(only_problem):
    result, _ = only_problem("output_widget_error")
    executed = json.loads(result.output_path.read_text(encoding="utf-8"))
    assert "hidden in an output widget" in json.dumps(executed["metadata"]["widgets"])
    assert result.size_before_bytes == result.size_after_bytes


def test_a_wrong_result_shows_both_values(only_problem):
    result, problem = only_problem("good", expect={"total": 4, "label": None})
    assert problem.kind == "unexpected_result"
    assert problem.message == "result 'total' is 3, expected 4"
    assert result.results["total"] == 3


@pytest.mark.thorough
def test_a_slow_cell_is_interrupted_where_it_waits(only_problem):
    _, problem = only_problem("slow_cell", timeout_s=10)
    assert (problem.kind, problem.cell_index) == ("timeout", 3)
    assert "10 s" in problem.message
    assert "time.sleep(60)" in problem.excerpt
    assert "KeyboardInterrupt" in problem.excerpt


@pytest.mark.thorough
def test_a_cell_that_ignores_the_interrupt_is_killed(only_problem, monkeypatch):
    monkeypatch.setattr(execute, "GRACE_S", 2)
    before = set(psutil.Process().children(recursive=True))
    _, problem = only_problem("stubborn_cell", timeout_s=8)
    assert (problem.kind, problem.cell_index) == ("timeout", 3)
    assert "ignored the interrupt" in problem.message
    assert [p for p in psutil.Process().children(recursive=True) if p not in before] == []


@pytest.mark.thorough
def test_a_worker_that_does_not_come_back_is_ended_with_its_kernel(only_problem, monkeypatch):
    # The caller gives up after 8 s in all, while the cell itself is allowed far more.
    allowed, patience = 50, 8
    others = execute.STARTS * execute.START_TIMEOUT_S + allowed + execute.GRACE_S
    monkeypatch.setattr(execute, "_CLOSING_S", patience - others)
    before = set(psutil.Process().children(recursive=True))
    _, problem = only_problem("slow_cell", timeout_s=allowed)
    assert problem.kind == "timeout"
    assert "did not return" in problem.message
    assert [p for p in psutil.Process().children(recursive=True) if p not in before] == []


def test_a_dead_kernel_is_reported(only_problem):
    _, problem = only_problem("dead_kernel")
    assert (problem.kind, problem.cell_index) == ("kernel_died", 3)
    assert "os._exit(3)" in problem.excerpt


def test_worker_and_kernel_stop_when_their_caller_is_killed(fixture_path, tmp_path):
    call = f"run_notebook({str(fixture_path('slow_cell'))!r}, output_dir={str(tmp_path)!r})"
    code = f"from workbench.notebooks import run_notebook; {call}"
    temporary = tmp_path / "t"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    caller = psutil.Popen([sys.executable, "-c", code], env=environment)
    end = time.monotonic() + PATIENCE_S
    while not any(map(is_kernel, started := caller.children(recursive=True))):
        assert caller.poll() is None, "it ended before its kernel started"
        assert time.monotonic() < end, "no kernel was started"
        time.sleep(0.1)
    caller.kill()
    caller.wait()
    _, alive = psutil.wait_procs(started, timeout=PATIENCE_S)
    assert len(started) == 2
    assert alive == []
    assert list(temporary.glob("wb-kernel-*")) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to handle")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("given", ["notebook", "matrix"])
def test_a_run_that_is_ended_leaves_no_process_and_no_folder(
    fixture_path, tmp_path, given, number, status
):
    if number == signal.SIGINT and signal.getsignal(number) != signal.default_int_handler:
        pytest.skip("Ctrl-C is ignored here, and by what is started")
    words = [str(fixture_path("slow_cell"))]
    if given == "matrix":
        shutil.copy(words[0], tmp_path / "slow_cell.ipynb")
        matrix = tmp_path / "matrix.toml"
        matrix.write_text('format = 1\n[notebook."slow_cell.ipynb".cases]\na = {}\nb = {}\n')
        words = ["--matrix", str(matrix), "--workers", "2"]
    command = [sys.executable, "-m", "workbench", "notebook", "run", *words]
    process = psutil.Popen([*command, "--output", str(tmp_path)])
    end = time.monotonic() + PATIENCE_S
    while not (started := process.children(recursive=True)):
        assert process.poll() is None, "it ended before its worker started"
        assert time.monotonic() < end, "no worker was started"
        time.sleep(0.1)
    assert list(tmp_path.glob(".run-*"))
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == status
    _, alive = psutil.wait_procs(started, timeout=PATIENCE_S)
    assert alive == []
    assert list(tmp_path.glob(".run-*")) == []


ORPHAN = """
import os, signal, subprocess
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
open({path!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
os.kill(os.getppid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs sleep, and sessions of processes")
def test_nothing_stays_of_a_run_whose_worker_is_killed(fixture_path, tmp_path):
    notebook = json.loads(fixture_path("slow_cell").read_text(encoding="utf-8"))
    notebook["cells"][3]["source"] = ORPHAN.format(path=str(tmp_path / "pids"))
    path = tmp_path / "orphan.ipynb"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    assert run_notebook(path, output_dir=tmp_path).problems[0].kind == "not_run"
    pids = map(int, (tmp_path / "pids").read_text().split())
    left = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    left = [one for one in left if one.status() != psutil.STATUS_ZOMBIE]
    for one in left:
        one.kill()
    assert left == []


def is_kernel(process):
    try:
        return "ipykernel_launcher" in process.cmdline()
    except psutil.Error:
        return False
