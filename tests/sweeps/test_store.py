"""What is acknowledged stays, what is damaged is never returned, which process may write where."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from types import SimpleNamespace

import pytest

from workbench.sweeps.store import Key, ResultStore, Row, StoreError
from workbench.sweeps.store import file as store_file
from workbench.sweeps.store import store as store_module
from workbench.sweeps.store.file import SCHEMA_VERSION, filesystem, is_network
from workbench.sweeps.store.row import STATUSES


def key(number, device="H100", kernel="abc", turn=0):
    return Key.of({"block_m": 16, "number": number}, device, kernel, turn)


def row(number, **changes):
    values = {"n": 5, "median_s": 1e-3 * (number + 1), "spread_s": 1e-5, "correct": True}
    return Row(key(number), **{**values, **changes})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.db"


def test_a_row_comes_back_as_it_went_in(path):
    expected = row(
        3,
        status="wrong",
        message="3 of 40 elements differ",
        median_s=None,
        spread_s=None,
        correct=False,
        bitwise=False,
        limits={"copy_bytes_per_s": 3e12},
        values={"spills": 0},
        provenance={"driver": "550.1", "torch": "2.11.0", "mode": "gpu"},
        measured_at=12.5,
    )
    with ResultStore(path) as store:
        assert store.put(expected)
    with ResultStore(path) as store:
        assert store.rows() == (expected,)
        assert store.rows(device="H200") == ()
        assert store.rows(device="H100", kernel_hash="abc") == (expected,)


def test_the_first_result_of_a_key_stays(path):
    with ResultStore(path) as store:
        assert store.put(row(1))
        assert not store.put(row(1, median_s=99.0))
        assert store.rows() == (row(1),)
        assert store.put(Row(key(1, turn=1), n=5, median_s=2.0))
        assert len(store.rows()) == 2


def test_only_what_is_missing_is_measured_again(path):
    keys = [key(number) for number in range(10)]
    with ResultStore(path) as store:
        for number in (1, 4, 9):
            store.put(row(number))
        assert store.missing(keys) == tuple(k for n, k in enumerate(keys) if n not in (1, 4, 9))
        assert len(store.missing([key(n, kernel="other") for n in range(10)])) == 10
        assert len(store.missing([key(n, device="H200") for n in range(10)])) == 10


def test_two_sessions_never_claim_the_same_point_until_the_lease_ends(path, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(store_module, "time", SimpleNamespace(time=lambda: now))
    with ResultStore(path) as one, ResultStore(path) as other:
        assert one.claim(key(1), lease_s=0.3)
        assert not other.claim(key(1))
        assert one.claim(key(1), lease_s=0.3)
        assert other.claim(key(2))
        one.release(key(2))
        assert not one.claim(key(2))
        other.release(key(2))
        assert one.claim(key(2))
        now += 0.29
        assert not other.claim(key(1))
        now += 0.02
        assert other.claim(key(1))
        other.put(row(1))
        assert not one.claim(key(1))


def test_a_file_that_another_process_is_creating_is_waited_for(path):
    """SQLite changes the journal at once or not at all, however long it may wait elsewhere."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    creating = threading.Timer(0.3, other.execute, ["COMMIT"])
    creating.start()
    with ResultStore(path) as store:
        assert store.put(row(1))
    creating.join()
    other.close()


def test_a_file_that_another_process_creates_meanwhile_is_not_taken_for_a_foreign_one(path):
    created = []

    class Interrupted(sqlite3.Connection):
        def execute(self, statement):
            rows = super().execute(statement).fetchall()
            if not created:
                created.append(ResultStore(path).close())
            return SimpleNamespace(fetchone=lambda: rows[0])

    connection = Interrupted(path)
    assert store_file._version(connection, path) == 0
    assert store_file._version(connection, path) == SCHEMA_VERSION
    connection.close()


def test_times_of_the_interpreter_and_of_wrong_results_are_refused():
    with pytest.raises(ValueError, match="interpreter"):
        row(1, provenance={"mode": "interpreter"})
    with pytest.raises(ValueError, match="wrong result"):
        row(1, correct=False)
    with pytest.raises(ValueError, match=", ".join(STATUSES)):
        row(1, status="fine")
    with pytest.raises(ValueError, match="JSON"):
        Key.of({"x": float("nan")}, "d", "k")


def test_a_key_does_not_depend_on_the_order_of_its_fields():
    assert Key.of({"a": 1, "b": 2}, "d", "k") == Key.of({"b": 2, "a": 1}, "d", "k")


def test_a_changed_number_is_never_returned(path):
    with ResultStore(path) as store:
        for number in range(5):
            store.put(row(number))
    raw = sqlite3.connect(path)
    [[body]] = raw.execute("SELECT body FROM results WHERE body LIKE '%\"number\":2%'")
    changed = {**json.loads(body), "median_s": 0.5}
    raw.execute("UPDATE results SET body = ? WHERE body = ?", (json.dumps(changed), body))
    raw.commit()
    raw.close()
    with ResultStore(path, read_only=True) as store:
        assert len(store.rows()) == 4
        assert store.quarantined == 1
    with ResultStore(path) as store:
        assert {found.key for found in store.rows()} == {key(n) for n in (0, 1, 3, 4)}
        assert store.quarantined == 1
        assert "1 damaged rows" in store.notes[-1]
        assert store.missing([key(n) for n in range(5)]) == (key(2),)
        assert store.lost() == 0
        store.put(row(2))
        assert store.rows() == tuple(sorted((row(n) for n in range(5)), key=order))
    with ResultStore(path) as store:
        store.rows()
        assert store.quarantined == 0


def order(row):
    return row.key.columns


def test_rows_that_vanished_are_counted(path):
    with ResultStore(path) as store:
        for number in range(3):
            store.put(row(number))
        assert store.lost() == 0
        gone = key(1).columns[0]
        store._connection.execute("DELETE FROM results WHERE config_hash = ?", (gone,))
        assert store.lost() == 1


def test_a_newer_file_is_opened_read_only(path):
    with ResultStore(path) as store:
        store.put(row(1))
    raw = sqlite3.connect(path)
    raw.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    raw.close()
    with ResultStore(path) as store:
        assert store.read_only
        assert "Update the workbench" in store.notes[0]
        assert store.rows() == (row(1),)
        with pytest.raises(StoreError, match=f"schema {SCHEMA_VERSION + 1}"):
            store.put(row(2))


def test_a_read_only_store_takes_nothing(path):
    with pytest.raises(StoreError, match="no results file"):
        ResultStore(path, read_only=True)
    with ResultStore(path) as store:
        store.put(row(1))
    with ResultStore(path, read_only=True) as store:
        assert store.rows() == (row(1),)
        with pytest.raises(StoreError, match="read-only"):
            store.put(row(2))
        with pytest.raises(StoreError, match="read-only"):
            store.claim(key(2))


def test_a_file_that_cannot_be_written_is_read(path, monkeypatch):
    with ResultStore(path) as store:
        store.put(row(1))
    monkeypatch.setattr(store_file.os, "access", lambda *_: False)  # root may write everything
    with ResultStore(path) as store:
        assert store.read_only
        assert "cannot be written" in store.notes[0]
        assert store.rows() == (row(1),)


@pytest.mark.parametrize("content", [b"not a database, but long enough to be one " * 40, b"x"])
def test_a_file_of_another_program_is_not_touched(path, content):
    path.write_bytes(content)
    with pytest.raises(StoreError, match="left as it is"):
        ResultStore(path)
    assert path.read_bytes() == content


def test_a_database_of_another_program_is_not_touched(path):
    raw = sqlite3.connect(path)
    raw.execute("CREATE TABLE theirs (x)")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a results file of the workbench"):
        ResultStore(path)
    assert path.read_bytes() == before


def test_a_missing_folder_is_said(tmp_path):
    with pytest.raises(StoreError, match="does not exist"):
        ResultStore(tmp_path / "nowhere" / "results.db")


def test_what_is_committed_is_durable(path):
    with ResultStore(path) as store:
        [[journal]] = store._connection.execute("PRAGMA journal_mode")
        [[level]] = store._connection.execute("PRAGMA synchronous")
    assert journal == b"wal"
    assert level == 2  # FULL


def test_on_a_network_file_system_there_is_no_wal(path, monkeypatch):
    monkeypatch.setattr(store_file, "filesystem", lambda _: "nfs4")
    with ResultStore(path) as store:
        [[journal]] = store._connection.execute("PRAGMA journal_mode")
        assert journal == b"delete"
        assert "nfs4" in store.notes[0]
        store.put(row(1))
        assert store.rows() == (row(1),)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("nfs4", True), ("cifs", True), ("fuse.sshfs", True), ("ext4", False), ("overlay", False)],
)
def test_network_file_systems_by_name(kind, expected):
    assert is_network(kind) == expected


def test_the_file_system_of_a_path_is_found(tmp_path):
    assert filesystem(tmp_path / "x")


def test_a_copy_of_the_file_is_the_whole_store(path, tmp_path):
    with ResultStore(path) as store:
        for number in range(20):
            store.put(row(number))
    shutil.copy(path, tmp_path / "copy.db")
    with ResultStore(tmp_path / "copy.db") as copy:
        assert len(copy.rows()) == 20
