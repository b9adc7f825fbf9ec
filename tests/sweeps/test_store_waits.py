"""A writer that never ends, another thread, and the round of a key that has no number."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from types import SimpleNamespace

import pytest

from workbench.sweeps.store import Key, ResultStore, Row, StoreError
from workbench.sweeps.store import file as store_file
from workbench.sweeps.store import store as store_module

LIMIT_S = 60
"""Reached by what is broken, never by a busy machine."""
FIRST = Key.of({"block_m": 16}, "H100", "abc")
ROW = Row(FIRST, n=3, median_s=0.5)


def test_without_a_number_it_is_the_first_round_however_the_key_is_built():
    built = Key.of({"block_m": 16}, "H100", "abc")
    assert Key(FIRST.config, FIRST.device, FIRST.kernel_hash) == built
    assert built.columns[-1] == 0


def test_another_thread_may_write_and_read(tmp_path):
    with ResultStore(tmp_path / "results.db") as store:
        writer = threading.Thread(target=store.put, args=(ROW,))
        writer.start()
        writer.join()
        assert [row.median_s for row in store.rows()] == [0.5]


def test_it_gives_up_on_a_writer_that_never_ends(tmp_path, monkeypatch):
    for module in (store_module, store_file):
        monkeypatch.setattr(module, "BUSY_S", 0.2)
    said = []

    def put(store):
        try:
            store.put(ROW)
        except StoreError as error:
            said.append(str(error))

    with ResultStore(tmp_path / "results.db") as store:
        other = sqlite3.connect(tmp_path / "results.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        writer = threading.Thread(target=put, args=(store,), daemon=True)
        writer.start()
        writer.join(LIMIT_S)
        other.execute("ROLLBACK")
        other.close()
        assert not writer.is_alive()
        assert len(said) == 1
        assert "by another process for more than" in said[0]
        assert store.put(ROW)


def test_a_row_waits_for_a_writer_that_ends(tmp_path):
    with ResultStore(tmp_path / "results.db") as store:
        other = sqlite3.connect(store.path, isolation_level=None, check_same_thread=False)
        with closing(other):
            other.execute("BEGIN IMMEDIATE")
            ends = threading.Timer(0.2, other.execute, ["ROLLBACK"])
            ends.start()
            assert store.put(ROW)
            ends.join()


@pytest.fixture
def writers(tmp_path):
    """Two connections to a results file that wait for each other for a minute, as SQLite does."""
    with ResultStore(tmp_path / "results.db") as store:
        store.put(ROW)
    one, other = (
        sqlite3.connect(store.path, isolation_level=None, timeout=LIMIT_S, check_same_thread=False)
        for _ in range(2)
    )
    with closing(one), closing(other):
        yield one, other


def test_a_writer_begins_once_the_other_one_has_ended(writers):
    one, other = writers
    other.execute("BEGIN IMMEDIATE")
    ends = threading.Timer(0.2, other.execute, ["ROLLBACK"])
    ends.start()
    store_module._begin(one, time.monotonic() + LIMIT_S)
    ends.join()
    assert one.in_transaction


def test_the_time_to_wait_for_a_writer_is_not_that_of_sqlite(writers):
    one, other = writers
    other.execute("BEGIN IMMEDIATE")
    start = time.monotonic()
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        store_module._begin(one, start)
    assert time.monotonic() - start < LIMIT_S / 2
    [[after]] = one.execute("PRAGMA busy_timeout")
    assert after == store_module.BUSY_S * 1000


def refusing(code, times):
    """Return a connection on which so many statements fail, and those that it has seen."""
    seen = []

    def execute(statement):
        seen.append(statement)
        if statement.startswith(("BEGIN", "PRAGMA journal_mode")) and len(seen) <= times:
            error = sqlite3.OperationalError("refused")
            error.sqlite_errorcode = code
            raise error
        return SimpleNamespace(fetchone=lambda: (b"wal",))

    return SimpleNamespace(execute=execute), seen


@pytest.mark.parametrize(
    "work",
    [
        lambda connection: store_module._begin(connection, time.monotonic() + LIMIT_S),
        lambda connection: store_file._set_journal(connection, "WAL"),
    ],
)
def test_an_error_that_does_not_pass_is_not_waited_for(work, monkeypatch):
    connection, seen = refusing(sqlite3.SQLITE_IOERR, 10**6)
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("waits"))
    with pytest.raises(sqlite3.OperationalError, match="refused"):
        work(connection)
    assert sum("busy_timeout" not in one for one in seen) == 1


@pytest.mark.parametrize(
    "work",
    [
        lambda connection: store_module._begin(connection, time.monotonic() + LIMIT_S),
        lambda connection: store_file._set_journal(connection, "WAL"),
    ],
)
def test_what_is_busy_is_tried_again_after_a_pause(work, monkeypatch):
    connection, seen = refusing(sqlite3.SQLITE_BUSY, 4)
    paused = []
    monkeypatch.setattr(time, "sleep", paused.append)
    work(connection)
    assert len(paused) == sum("busy_timeout" not in one for one in seen) - 1 > 1
    assert min(paused) > 0


def test_a_row_that_is_interrupted_holds_nothing(tmp_path):
    with ResultStore(tmp_path / "results.db") as store:
        with pytest.raises(KeyboardInterrupt), store._writing():
            raise KeyboardInterrupt
        with closing(sqlite3.connect(store.path, isolation_level=None, timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        assert store.put(ROW)
