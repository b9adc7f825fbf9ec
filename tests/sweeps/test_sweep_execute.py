"""Sweeps that run, stop, resume, and outlive what their points do to a worker."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.sweeps.waiting import MEASURES, PATIENCE_S, held_keys, holding, wait_for
from workbench.sweeps.kernels.execute import Sweep
from workbench.sweeps.kernels.lanes import Lane, ProcessLane, process_lanes
from workbench.sweeps.kernels.winners import compare
from workbench.sweeps.store import Key, ResultStore, Row, StoreError


def keys(count, **more):
    return [Key.of({"number": number, **more}, "device", "kernel") for number in range(count)]


@pytest.fixture
def store(tmp_path):
    with ResultStore(tmp_path / "results.db") as opened:
        yield opened


@pytest.fixture
def lane():
    process = ProcessLane()
    yield process
    process.shutdown()


def test_rows_arrive_one_by_one_and_are_stored(store):
    seen = []
    sweep = Sweep(store, keys(5), f"{MEASURES}:quick", on_row=seen.append)
    progress = sweep.run()
    assert [row.key for row in seen] == keys(5)
    assert store.rows() == tuple(sorted(seen, key=lambda row: row.key.columns))
    assert (progress.done, progress.measured, progress.failed) == (5, 5, 0)
    assert progress.per_second > 0
    assert progress.remaining_s == 0
    assert not progress.is_running


KILLED = """
import os, signal, sys, threading, time
sys.path[:0] = [{root!r}]
from workbench.sweeps.kernels.lanes import ProcessLane

lane = ProcessLane()
lane.submit(time.sleep, 0).result()
lane.submit(time.sleep, 1)
time.sleep(0.3)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_the_worker_of_a_killed_sweep_ends_without_a_word():
    code = KILLED.format(root=str(Path(__file__).parents[2]))
    done = subprocess.run(  # returns once the worker, too, has closed its standard error
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (-9, "")


def test_resuming_measures_only_what_is_missing(store):
    Sweep(store, keys(3), f"{MEASURES}:quick").run()
    seen = []
    progress = Sweep(store, keys(5), f"{MEASURES}:quick", on_row=seen.append).run()
    assert [row.key.config_values["number"] for row in seen] == [3, 4]
    assert (progress.resumed, progress.measured) == (3, 2)


def test_points_of_another_session_are_left_to_it(store):
    with ResultStore(store.path) as other:
        assert other.claim(keys(3)[1])
        progress = Sweep(store, keys(3), f"{MEASURES}:quick").run()
    assert (progress.measured, progress.elsewhere) == (2, 1)


@pytest.mark.parametrize("where", ["process", "inline"])
def test_every_outcome_of_a_point_becomes_a_row(store, lane, where):
    numbers = [n for n in range(10) if where == "process" or n not in {1, 4}]
    wanted = [Key.of({"number": number}, "device", "kernel") for number in numbers]
    lanes = [lane if where == "process" else Lane()]
    progress = Sweep(store, wanted, f"{MEASURES}:sometimes", lanes).run()
    rows = {row.key.config_values["number"]: row for row in store.rows()}
    assert len(rows) == progress.measured == len(numbers)
    assert (rows[2].status, rows[2].message) == ("oom", "MemoryError: requested everything")
    assert (rows[3].status, rows[3].message) == ("failed", "RuntimeError: illegal configuration")
    assert "interpreter" in rows[5].message
    assert "no_field" in rows[6].message
    assert "not a row" in rows[8].message
    assert rows[9].status == "failed"
    assert {rows[0].status, rows[7].status} == {"ok"}
    if where == "process":
        assert rows[1].status == rows[4].status == "crashed"
        assert "SIGKILL" in rows[1].message
        assert "exit code 7" in rows[4].message
        assert rows[0].provenance["pid"] != rows[7].provenance["pid"]


def test_stop_ends_a_point_that_never_would_and_gives_it_back(store, lane):
    wanted = held_keys(store, 3)
    Sweep(store, wanted[:1], f"{MEASURES}:quick", [lane]).run()
    sweep, _running = holding(store, [lane], 3)
    assert sweep.stop(PATIENCE_S)
    assert not sweep.progress.is_running
    assert len(store.rows()) == 1
    with ResultStore(store.path) as other:
        assert other.claim(wanted[1])


def test_what_takes_too_long_is_ended_and_said(store, lane):
    Sweep(store, keys(1), f"{MEASURES}:slow", [lane], timeout_s=2).run()
    [row] = store.rows()
    assert (row.status, row.message) == ("timeout", "no answer within 2 s")


def test_a_device_is_one_process_that_sees_nothing_else(store, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    lanes = process_lanes()
    try:
        Sweep(store, keys(6), f"{MEASURES}:quick", lanes).run()
    finally:
        for lane in lanes:
            lane.shutdown()
    seen = {(row.provenance["visible"], row.provenance["pid"]) for row in store.rows()}
    assert {visible for visible, _ in seen} == {"3", "5"}
    assert len(seen) == 2


def test_a_function_that_is_not_there_fails_every_point_and_says_so(store):
    progress = Sweep(store, keys(2), f"{MEASURES}:nothing").run()
    assert progress.failed == 2
    assert {row.status for row in store.rows()} == {"failed"}
    assert "nothing" in store.rows()[0].message


def test_an_error_of_a_listener_is_kept(store):
    def broken(row):
        raise ValueError("the table is gone")

    before = threading.active_count()
    sweep = Sweep(store, keys(2), f"{MEASURES}:quick", on_row=broken)
    sweep.start()
    assert sweep.join(PATIENCE_S)
    assert "the table is gone" in str(sweep.error)
    wait_for(lambda: threading.active_count() <= before)


def test_stored_rows_are_replayed_without_a_device(store):
    Sweep(store, keys(3), f"{MEASURES}:quick").run()
    with ResultStore(store.path, read_only=True) as again:
        times = {row.key: row.median_s for row in again.rows("device", "kernel")}
        assert times == {key: pytest.approx(1e-3 * (n + 1)) for n, key in enumerate(keys(3))}
        assert again.rows("H200", "kernel") == ()


def test_times_of_different_kernels_do_not_compare_by_default():
    def rows(kernel, factor):
        return [
            Row(Key.of({"number": n}, "device", kernel), n=3, median_s=factor * (n + 1))
            for n in range(3)
        ]

    with pytest.raises(StoreError, match=r"new.*old|old.*new"):
        compare(rows("old", 1), rows("new", 2))
    found = compare(rows("old", 1), rows("new", 2), across_kernels=True)
    assert [pair.ratio for pair in found] == [2, 2, 2]
    assert len(compare(rows("old", 1), rows("old", 3))) == 3
    failed = [Row(keys(1)[0], "oom")]
    assert compare(failed, failed) == ()
