"""`workbench sweep --dask`: resolving and measuring on the workers of a real Dask cluster."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.sweeps.local_dask import started
from tests.sweeps.waiting import PATIENCE_S
from workbench.kernels.bench.machine import NO_GPU
from workbench.sweeps.store import ResultStore

pytest.importorskip("distributed", reason="the extra `dask` is not installed")
pytestmark = pytest.mark.slow


def run(*arguments):
    command = [sys.executable, "-m", "workbench", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.thorough
def test_the_command_waits_for_the_workers_that_it_is_promised(tmp_path):
    command = [sys.executable, "-m", "workbench", "sweep", "--kernel", "block-table"]
    command += ["--results", str(tmp_path / "results.db"), "--dask-workers", "2", "--dask"]
    with started(n_workers=1, processes=True) as running:
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with subprocess.Popen([*command, running.scheduler_address], **both) as waiting:
            lines = [waiting.stdout.readline()]
            running.scale(2)
            lines += waiting.stdout.readlines()
        assert waiting.returncode == 0, lines
    assert lines[0].startswith("Waiting until 2 workers have joined tcp://")
    assert f"Measuring on {NO_GPU}, 2 at a time" in lines[1]


def test_a_number_of_workers_needs_a_cluster():
    done = run("sweep", "--kernel", "flex", "--dask-workers", 2)
    assert done.returncode == 2
    assert "--dask-workers requires --dask" in done.stderr
    done = run("sweep", "--dask-workers", 2)
    assert done.returncode == 2
    assert "--dask-workers requires --dask" in done.stderr


@pytest.mark.thorough
def test_scenarios_are_resolved_there_with_the_same_result(address):
    words = ["sweep", "qwen3.5-4b", "-a", "tensor_parallel=1,2,4", "-a", "block_size=none,64"]
    words += ["-a", "enable_prefix_caching=false,true", "--format", "jsonl"]
    there = run(*words, "--dask", address, "--dask-workers", 2)
    assert there.returncode == 0, there.stderr
    assert there.stdout == run(*words).stdout
    assert there.stdout.count("\n") > 3
    refused = run(*words, "--dask", "tcp://127.0.0.1:9")
    assert refused.returncode == 2
    assert "`dask scheduler` starts one" in refused.stderr


@pytest.mark.thorough
def test_the_command_measures_there(address, tmp_path):
    command = ("sweep", "--kernel", "block-table", "--results", tmp_path / "results.db")
    done = run(*command, "--dask", address, "--dask-workers", 2)
    assert done.returncode == 0, done.stderr
    assert f"Measuring on {NO_GPU}, 2 at a time" in done.stderr
    assert "4 of 4" in done.stderr
    assert done.stdout.count("  ok  ") == 4
    again = run(*command)
    assert "4 were stored already" in again.stderr  # filed as if it had been measured here


@pytest.mark.thorough
def test_an_interrupt_frees_the_workers_and_the_same_command_goes_on(address, tmp_path):
    file = tmp_path / "results.db"
    command = [sys.executable, "-m", "workbench", "sweep", "--kernel", "flex", "--dask", address]
    command += ["--dask-workers", "2"]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen([*command, "--results", file], **both) as running:
        lines = [line for line, _ in zip(running.stdout, range(4), strict=False)]
        running.send_signal(signal.SIGINT)
        lines += running.stdout.readlines()
        assert running.wait(PATIENCE_S) == 130, lines
    assert "Run the same command to resume" in "".join(lines)
    assert "Traceback" not in "".join(lines)
    with ResultStore(file) as store:
        assert 1 <= len(store.rows()) < 16
        [[claimed]] = store._connection.execute("SELECT count(*) FROM claims")
        assert claimed == 0


@pytest.mark.thorough
def test_the_command_refuses_what_does_not_answer(tmp_path):
    command = ("sweep", "--kernel", "flex", "--results", tmp_path / "results.db")
    done = run(*command, "--dask", "tcp://127.0.0.1:9")
    assert done.returncode == 2
    assert "`dask scheduler` starts one" in done.stderr
    done = run(*command, "--dask", "tcp://127.0.0.1:9", "--replay")
    assert "--replay does not measure" in done.stderr
