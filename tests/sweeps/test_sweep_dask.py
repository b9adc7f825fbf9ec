"""Sweeps on the workers of a real Dask cluster: two processes on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import pairwise

import pytest

from tests.sweeps.local_dask import started
from tests.sweeps.waiting import (
    MEASURES,
    PATIENCE_S,
    ROOT,
    held_keys,
    holding,
    keys,
    wait_for,
)
from workbench.kernels.bench.machine import NO_GPU
from workbench.sweeps.kernels import cluster as clusters
from workbench.sweeps.kernels.cluster import ClusterError, agreed, cluster
from workbench.sweeps.kernels.execute import Sweep, measured
from workbench.sweeps.kernels.lanes import LaneLostError
from workbench.sweeps.kernels.place import about_here
from workbench.sweeps.store import ResultStore

distributed = pytest.importorskip("distributed", reason="the extra `dask` is not installed")
pytestmark = pytest.mark.slow


@pytest.fixture
def place(address):
    with cluster(address, workers=2) as found:
        yield found


@pytest.fixture
def store(tmp_path):
    with ResultStore(tmp_path / "results.db") as opened:
        yield opened


def test_every_point_once_and_one_at_a_time_on_each_worker(place, store):
    assert len(place.lanes) == 2
    assert (place.device, place.target) == (NO_GPU, None)
    progress = Sweep(store, keys(12, seconds=0.1), f"{MEASURES}:slow", place.lanes).run()
    assert (progress.measured, progress.failed) == (12, 0)
    by_worker = {}
    for row in store.rows():
        origin = row.provenance
        by_worker.setdefault(origin["pid"], []).append((origin["began"], origin["ended"]))
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


def test_the_point_of_a_killed_worker_is_measured_by_another(place, store):
    """Killed from outside, as by the system."""
    sweep, running = holding(store, place.lanes, 6)
    killed, pid = next(iter(running.items()))
    os.kill(pid, signal.SIGKILL)
    (store.path.parent / "go").touch()
    assert sweep.join(PATIENCE_S)
    rows = {row.key.config_values["number"]: row for row in store.rows()}
    assert {number: row.status for number, row in rows.items()} == dict.fromkeys(range(6), "ok")
    assert rows[killed].provenance["pid"] != pid


@pytest.mark.thorough
def test_stop_ends_at_once_and_the_points_are_given_back(place, store):
    """The points would never end by themselves."""
    Sweep(store, held_keys(store, 5)[:1], f"{MEASURES}:quick", place.lanes).run()
    sweep, _running = holding(store, place.lanes, 5)
    assert sweep.stop(PATIENCE_S)
    place.close()
    with ResultStore(store.path) as other:
        assert all(other.claim(key) for key in held_keys(store, 5)[1:])
    assert len(store.rows()) == 1


@pytest.mark.thorough
def test_the_workers_are_free_after_stop(address, place, store):
    sweep, _running = holding(store, place.lanes, 2)
    assert sweep.stop(PATIENCE_S)
    place.close()
    with cluster(address, workers=2) as again:
        assert len(again.lanes) == 2
        assert Sweep(store, keys(4), f"{MEASURES}:quick", again.lanes).run().measured == 4


@pytest.mark.thorough
def test_what_takes_too_long_is_ended_and_said(place, store):
    wanted = keys(1, seconds=600) + keys(3, "dask", more=1)
    progress = Sweep(store, wanted[:1], f"{MEASURES}:slow", place.lanes, timeout_s=2).run()
    assert store.rows()[0].status == "timeout"
    assert progress.failed == 1
    assert Sweep(store, wanted[1:], f"{MEASURES}:quick", place.lanes).run().measured == 3


@pytest.fixture
def alone(tmp_path):
    """Scheduler and worker as two commands, as on other machines: address, scheduler's process."""
    details = tmp_path / "scheduler.json"
    known = ("--scheduler-file", details, "--no-dashboard")

    def address():
        with suppress(OSError, ValueError):  # not there, or half of it
            return json.loads(details.read_text())["address"]

    ours = {"env": {**os.environ, "PYTHONPATH": str(ROOT)}, "stderr": subprocess.DEVNULL}
    dask = (sys.executable, "-m", "dask")
    with subprocess.Popen((*dask, "scheduler", "--port", "0", *known), **ours) as scheduler:
        wait_for(address)
        with subprocess.Popen((*dask, "worker", "--nthreads", "1", *known), **ours) as worker:
            found = address()
            with distributed.Client(found, set_as_default=False) as client:
                client.wait_for_workers(1, timeout=PATIENCE_S)
            yield found, scheduler
            scheduler.kill()
            worker.terminate()


@pytest.mark.thorough
def test_a_scheduler_that_goes_ends_the_sweep_and_its_points_are_given_back(alone, store):
    address, scheduler = alone
    wanted = held_keys(store, 3)
    place = cluster(address, workers=1)
    sweep, _running = holding(store, place.lanes, 3)
    scheduler.kill()
    assert sweep.join(PATIENCE_S)
    assert isinstance(sweep.error, LaneLostError)
    assert "scheduler" in str(sweep.error)
    place.close()
    assert store.rows() == ()
    with ResultStore(store.path) as other:
        assert all(other.claim(key) for key in wanted)


@pytest.mark.sampled(1)
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


@pytest.mark.thorough
def test_workers_that_are_named_are_waited_for():
    with started(n_workers=1, processes=True) as running:
        address = running.scheduler_address
        with cluster(address) as now:
            assert len(now.lanes) == 1
        threading.Timer(0.5, running.scale, [2]).start()
        with cluster(address, workers=2) as later:
            assert len(later.lanes) == 2


def test_workers_that_do_not_come_are_said(address, monkeypatch):
    monkeypatch.setattr(clusters, "WORKERS_S", 1.0)
    with pytest.raises(ClusterError, match=r"[12] of 3 workers have joined tcp://.* within 1 s"):
        cluster(address, workers=3)


def test_a_point_for_a_worker_that_has_just_gone_is_sent_to_the_next(place, monkeypatch):
    """The scheduler keeps what is sent to a worker that it does not know."""
    lane = place.lanes[0]
    workers = iter(["tcp://127.0.0.1:1"])
    real = lane._worker
    monkeypatch.setattr(lane, "_worker", lambda: next(workers, None) or real())
    point = lane.submit(measured, f"{MEASURES}:quick", {"number": 1})
    assert point.result(PATIENCE_S)["n"] == 3


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


@pytest.mark.parametrize("wrong", ["abc", "nonsense://x:1", "a:b", f"tcp://{'x' * 300}:1", ""])
def test_no_client_is_made_for_what_is_not_an_address(wrong, monkeypatch):
    def make(*_, **__):
        pytest.fail("a client was made, which delays the end of the program")

    monkeypatch.setattr("distributed.Client", make)
    with pytest.raises(ClusterError, match="tcp://HOST:8786"):
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
