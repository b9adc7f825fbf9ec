"""The queue of those that write: in order, with an end, and without a handle left open."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import ExitStack
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.sweeps.waiting import wait_for
from workbench.sweeps.store import Key, ResultStore, Row, turns
from workbench.sweeps.store.turns import turn

LOCKS, HANDLES = Path("/proc/locks"), Path("/proc/self/fd")
pytestmark = pytest.mark.skipif(not LOCKS.is_file(), reason="needs /proc, which says who waits")


@pytest.fixture
def path(tmp_path):
    """A results file with a write-ahead log."""
    with ResultStore(tmp_path / "results.db") as store:
        store.put(Row(Key.of({"point": 0}, "device", "kernel"), median_s=1.0))
        yield store.path


def waiting_for(path: Path) -> int:
    inode = f":{path.with_name(path.name + '-wal').stat().st_ino} "
    return sum("->" in line and inode in line for line in LOCKS.read_text().splitlines())


def test_the_first_that_waits_is_the_next(path):
    served, before = [], len([*HANDLES.iterdir()])

    def write(number):
        with turn(path, 60):
            served.append(number)

    with ExitStack() as first:
        first.enter_context(turn(path, 60))
        threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for number, thread in enumerate(threads):
            thread.start()
            wait_for(lambda count=number + 1: waiting_for(path) == count)
        assert not served
    for thread in threads:
        thread.join()
    assert served == list(range(8))
    assert len([*HANDLES.iterdir()]) == before


def test_a_turn_that_does_not_come_is_not_waited_for_and_leaves_no_handle(path, monkeypatch):
    faults, before = [], len([*HANDLES.iterdir()])
    monkeypatch.setattr(threading, "excepthook", faults.append)  # closing a handle twice
    with turn(path, 60), turn(path, 0.01):
        assert waiting_for(path) == 1
    wait_for(lambda: len([*HANDLES.iterdir()]) == before)
    wait_for(lambda: all(one.name != "turn to write" for one in threading.enumerate()))
    assert not faults
    with turn(path, 0.01):
        assert waiting_for(path) == 0


def test_a_process_that_is_started_meanwhile_does_not_keep_the_turn(path, monkeypatch):
    def opened(log):
        handle = turns_opened(log)
        forked.append(os.dup(handle))  # as a process that forks has it
        return handle

    turns_opened, forked, served = turns._opened, [], []
    monkeypatch.setattr(turns, "_opened", opened)
    with turn(path, 60):
        pass
    waiter = threading.Thread(target=lambda: served.append(turn(path, 60).__enter__()), daemon=True)
    monkeypatch.undo()
    waiter.start()
    wait_for(lambda: served or waiting_for(path))
    assert served
    os.close(forked[0])


def test_where_windows_has_no_such_lock_nothing_is_opened_and_polling_decides(path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "fcntl", None)  # importing it fails, as there
    on_windows = spec_from_file_location("turns_on_windows", turns.__file__)
    module = module_from_spec(on_windows)
    on_windows.loader.exec_module(module)
    monkeypatch.undo()
    monkeypatch.setattr(module, "sys", SimpleNamespace(platform="win32"))
    with turn(path, 60):
        before = len([*HANDLES.iterdir()])
        with module.turn(path, 60), module.turn(path, 60):
            assert len([*HANDLES.iterdir()]) == before
            assert waiting_for(path) == 0


def test_a_file_without_a_write_ahead_log_is_written_at_once(tmp_path):
    with turn(tmp_path / "none.db", 60), turn(tmp_path / "none.db", 60):
        assert not list(tmp_path.iterdir())


def test_a_pipe_in_place_of_the_write_ahead_log_stops_nothing(tmp_path):
    os.mkfifo(tmp_path / "odd.db-wal")
    with turn(tmp_path / "odd.db", 60):
        assert waiting_for(tmp_path / "odd.db") == 0


def test_a_held_turn_delays_a_commit_and_does_not_prevent_it(path, monkeypatch):
    monkeypatch.setattr("workbench.sweeps.store.store.BUSY_S", 0.05)
    with turn(path, 60), ResultStore(path) as other:
        assert other.put(Row(Key.of({"point": 1}, "device", "kernel"), median_s=1.0))
