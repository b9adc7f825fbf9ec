"""Sweeps on the workers of a real Dask cluster: two processes on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from workbench.run.store import Key, ResultStore
from workbench.run.sweeps import cluster as clusters
from workbench.run.sweeps.cluster import ClusterError, agreed, cluster
from workbench.run.sweeps.execute import Sweep
from workbench.run.sweeps.lanes import LaneLostError
from workbench.run.sweeps.measuring import NO_GPU
from workbench.run.sweeps.place import about_here

distributed = pytest.importorskip("distributed", reason="the extra `dask` is not installed")
pytestmark = pytest.mark.slow
MEASURES = "tests.run.sweep_measures"
ROOT = Path(__file__).parents[2]


def started(**options):
    return distributed.LocalCluster(dashboard_address=":0", **{"threads_per_worker": 1} | options)


@pytest.fixture(scope="module")
def address():
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(ROOT)  # workers find the tests
    with started(n_workers=2, processes=True) as running:
        yield running.scheduler_address
    os.environ.pop("PYTHONPATH")
    if before is not None:
        os.environ["PYTHONPATH"] = before


@pytest.fixture
def place(address):
    with cluster(address) as found:
        yield found


@pytest.fixture
def store(tmp_path):
    with ResultStore(tmp_path / "results.db") as opened:
        yield opened


def keys(count, device="dask", **more):
    return [Key.of({"number": number, **more}, device, "kernel") for number in range(count)]


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)


def test_every_point_once_and_one_at_a_time_on_each_worker(place, store):
    assert len(place.lanes) == 2
    assert (place.device, place.target) == (NO_GPU, None)
    progress = Sweep(store, keys(12, seconds=0.1), f"{MEASURES}:slow", place.lanes).run()
    assert (progress.measured, progress.failed) == (12, 0)
    by_worker = {}
    for row in store.rows():
        told = row.provenance
        by_worker.setdefault(told["pid"], []).append((told["began"], told["ended"]))
    assert len(by_worker) == 2
    assert os.getpid() not in by_worker
    assert sum(map(len, by_worker.values())) == 12
    for times in by_worker.values():
        assert all(one[1] <= other[0] for one, other in pairwise(sorted(times)))


def test_a_point_that_kills_its_worker_is_a_row_and_the_others_go_on(place, store):
    progress = Sweep(store, keys(8), f"{MEASURES}:sometimes", place.lanes, timeout_s=300).run()
    rows = {row.key.config_values["number"]: row for row in store.rows()}
    assert progress.measured == 8
    said = [rows[number].status for number in range(8)]
    assert said == ["ok", "crashed", "oom", "failed", "crashed", "failed", "failed", "ok"]
    assert "tcp://" in rows[1].message
    assert "memory" in rows[1].message


def test_a_killed_worker_costs_its_own_point_only(place, store):
    """Killed from outside, as by the system: nobody measures that point again by itself."""
    seen = []
    wanted = keys(6, seconds=0.5)
    sweep = Sweep(store, wanted, f"{MEASURES}:slow", place.lanes, on_row=seen.append)
    sweep.start()
    wait_for(lambda: seen)
    os.kill(seen[0].provenance["pid"], signal.SIGKILL)
    assert sweep.join(300)
    rows = store.rows()
    assert len(rows) == 6
    assert sorted(row.status for row in rows) == ["crashed"] + 5 * ["ok"]


def test_stop_ends_at_once_and_the_points_are_given_back(place, store):
    wanted = keys(1, seconds=0) + keys(4, seconds=60)
    sweep = Sweep(store, wanted, f"{MEASURES}:slow", place.lanes)
    sweep.start()
    wait_for(lambda: sweep.progress.measured == 1)
    time.sleep(0.5)
    began = time.monotonic()
    assert sweep.stop(timeout_s=60)
    assert time.monotonic() - began < 30  # a second on a quiet machine
    place.close()
    with ResultStore(store.path) as other:
        assert all(other.claim(key) for key in wanted[1:])
    assert len(store.rows()) == 1


def test_the_workers_are_free_after_stop(address, place, store):
    sweep = Sweep(store, keys(2, seconds=600), f"{MEASURES}:slow", place.lanes)
    sweep.start()
    wait_for(lambda: sweep.progress.is_running)
    time.sleep(0.5)
    assert sweep.stop(60)
    place.close()
    with cluster(address) as again:
        assert len(again.lanes) == 2
        assert Sweep(store, keys(4), f"{MEASURES}:quick", again.lanes).run().measured == 4


def test_what_takes_too_long_is_ended_and_said(place, store):
    wanted = keys(1, seconds=600) + keys(3, "dask", more=1)
    progress = Sweep(store, wanted[:1], f"{MEASURES}:slow", place.lanes, timeout_s=2).run()
    assert store.rows()[0].status == "timeout"
    assert progress.failed == 1
    assert Sweep(store, wanted[1:], f"{MEASURES}:quick", place.lanes).run().measured == 3


@pytest.fixture
def alone(tmp_path):
    """Scheduler and worker as two commands, as on other machines: address, scheduler's process."""
    told = tmp_path / "scheduler.json"
    known = ("--scheduler-file", told, "--no-dashboard")
    ours = {"env": {**os.environ, "PYTHONPATH": str(ROOT)}, "stderr": subprocess.DEVNULL}
    dask = (sys.executable, "-m", "dask")
    with subprocess.Popen((*dask, "scheduler", "--port", "0", *known), **ours) as scheduler:
        wait_for(told.exists)
        with subprocess.Popen((*dask, "worker", "--nthreads", "1", *known), **ours) as worker:
            found = json.loads(told.read_text())["address"]
            with distributed.Client(found, set_as_default=False) as client:
                client.wait_for_workers(1, timeout=300)
            yield found, scheduler
            scheduler.kill()
            worker.terminate()


def test_a_scheduler_that_goes_ends_the_sweep_and_its_points_are_given_back(alone, store):
    address, scheduler = alone
    wanted = keys(3, seconds=600)
    place = cluster(address)
    sweep = Sweep(store, wanted, f"{MEASURES}:slow", place.lanes)
    sweep.start()
    wait_for(lambda: sweep.progress.is_running)
    time.sleep(0.5)
    scheduler.kill()
    assert sweep.join(300)
    assert isinstance(sweep.error, LaneLostError)
    assert "scheduler" in str(sweep.error)
    place.close()
    assert store.rows() == ()
    with ResultStore(store.path) as other:
        assert all(other.claim(key) for key in wanted)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_workers": 1, "threads_per_worker": 2, "processes": True}, "--nthreads 1"),
        ({"n_workers": 1, "processes": False}, "--no-nanny"),
        ({"n_workers": 0, "processes": True}, "no workers"),
    ],
)
def test_workers_that_could_not_be_trusted_are_refused(options, said):
    with started(**options) as running, pytest.raises(ClusterError, match=said):
        cluster(running.scheduler_address)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("tcp://127.0.0.1:9", "No Dask scheduler answers at tcp://127.0.0.1:9"),
        ("nonsense://x", "tcp://HOST:8786"),
        ("127.0.0.1:none", "tcp://HOST:8786"),
    ],
)
def test_an_address_without_a_scheduler_says_what_to_do(wrong, said, monkeypatch):
    monkeypatch.setattr(clusters, "ANSWER_S", 1.0)
    with pytest.raises(ClusterError, match=said):
        cluster(wrong)


def test_machines_that_differ_do_not_measure_together():
    own = about_here()
    gpu = {**own, "device": "H100", "target": "sm_90", "gpu": "a"}
    assert agreed({"one": gpu, "two": {**gpu, "gpu": "b"}}, own["kernels"]) == gpu
    for changed, said in (
        ({"kernels": {"flex": "other"}}, "other kernels"),
        ({"device": "H200", "gpu": "b"}, "H100 on one, H200 on two"),
        ({}, "share a GPU"),
    ):
        with pytest.raises(ClusterError, match=said):
            agreed({"one": gpu, "two": {**gpu, **changed}}, own["kernels"])


def run(*arguments):
    command = [sys.executable, "-m", "workbench", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_measures_there(address, tmp_path):
    asked = ("sweep", "--kernel", "block-table", "--results", tmp_path / "results.db")
    done = run(*asked, "--dask", address)
    assert done.returncode == 0, done.stderr
    assert f"Measuring on {NO_GPU}, 2 at a time" in done.stderr
    assert "4 of 4" in done.stderr
    assert done.stdout.count("  ok  ") == 4
    again = run(*asked)
    assert "4 were there already" in again.stderr  # filed as if it had been measured here


def test_an_interrupt_frees_the_workers_and_the_same_command_goes_on(address, tmp_path):
    file = tmp_path / "results.db"
    command = [sys.executable, "-m", "workbench", "sweep", "--kernel", "flex", "--dask", address]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen([*command, "--results", file], **both) as running:
        told = [line for line, _ in zip(running.stdout, range(3), strict=False)]
        running.send_signal(signal.SIGINT)
        told += running.stdout.readlines()
        assert running.wait(300) == 130, told
    assert "the same command goes on" in "".join(told)
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
    assert "--replay measures nothing" in done.stderr
