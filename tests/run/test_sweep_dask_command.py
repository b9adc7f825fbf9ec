"""`workbench sweep --kernel --dask`: measuring on the workers of a real Dask cluster."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.run.local_dask import started
from tests.run.waiting import PATIENCE_S
from workbench.run.store import ResultStore
from workbench.run.sweeps.measuring import NO_GPU

pytest.importorskip("distributed", reason="the extra `dask` is not installed")
pytestmark = pytest.mark.slow


def run(*arguments):
    command = [sys.executable, "-m", "workbench", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_waits_for_the_workers_that_it_is_promised(tmp_path):
    command = [sys.executable, "-m", "workbench", "sweep", "--kernel", "block-table"]
    command += ["--results", str(tmp_path / "results.db"), "--dask-workers", "2", "--dask"]
    with started(n_workers=1, processes=True) as running:
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with subprocess.Popen([*command, running.scheduler_address], **both) as waiting:
            told = [waiting.stdout.readline()]
            running.scale(2)
            told += waiting.stdout.readlines()
        assert waiting.returncode == 0, told
    assert told[0].startswith("Waiting until 2 workers have joined tcp://")
    assert f"Measuring on {NO_GPU}, 2 at a time" in told[1]


def test_a_number_of_workers_needs_a_cluster():
    done = run("sweep", "--kernel", "flex", "--dask-workers", 2)
    assert done.returncode == 2
    assert "--dask-workers requires --dask" in done.stderr
    done = run("sweep", "--dask-workers", 2)
    assert done.returncode == 2
    assert "--kernel is required for --dask-workers" in done.stderr


def test_the_command_measures_there(address, tmp_path):
    asked = ("sweep", "--kernel", "block-table", "--results", tmp_path / "results.db")
    done = run(*asked, "--dask", address, "--dask-workers", 2)
    assert done.returncode == 0, done.stderr
    assert f"Measuring on {NO_GPU}, 2 at a time" in done.stderr
    assert "4 of 4" in done.stderr
    assert done.stdout.count("  ok  ") == 4
    again = run(*asked)
    assert "4 were stored already" in again.stderr  # filed as if it had been measured here


def test_an_interrupt_frees_the_workers_and_the_same_command_goes_on(address, tmp_path):
    file = tmp_path / "results.db"
    command = [sys.executable, "-m", "workbench", "sweep", "--kernel", "flex", "--dask", address]
    command += ["--dask-workers", "2"]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen([*command, "--results", file], **both) as running:
        told = [line for line, _ in zip(running.stdout, range(4), strict=False)]
        running.send_signal(signal.SIGINT)
        told += running.stdout.readlines()
        assert running.wait(PATIENCE_S) == 130, told
    assert "Run the same command to resume" in "".join(told)
    assert "Traceback" not in "".join(told)
    with ResultStore(file) as store:
        assert 1 <= len(store.rows()) < 16
        [[claimed]] = store._connection.execute("SELECT count(*) FROM claims")
        assert claimed == 0


def test_the_command_refuses_what_does_not_answer(tmp_path):
    asked = ("sweep", "--kernel", "flex", "--results", tmp_path / "results.db")
    done = run(*asked, "--dask", "tcp://127.0.0.1:9")
    assert done.returncode == 2
    assert "`dask scheduler` starts one" in done.stderr
    done = run(*asked, "--dask", "tcp://127.0.0.1:9", "--replay")
    assert "--replay does not measure" in done.stderr
