"""What is acknowledged stays, what is damaged is never returned, which process may write where."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from workbench.sweeps.store import Key, ResultStore, Row, StoreError
from workbench.sweeps.store import file as store_file
from workbench.sweeps.store import store as store_module
from workbench.sweeps.store.file import SCHEMA_VERSION, filesystem, is_network
from workbench.sweeps.store.row import STATUSES, checksum

OTHER_USER = 65534


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
    monkeypatch.setattr(store_module.time, "time", lambda: now)
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


def test_a_claim_ends_with_its_process(path):
    claims = (
        "import sys; from workbench.sweeps.store import *\n"
        "store = ResultStore(sys.argv[1])\n"
        "assert store.claim(Key.of({'block_m': 16, 'number': 1}, 'H100', 'abc'))\n"
        "print('claimed', flush=True); sys.stdin.read()"
    )
    with (
        subprocess.Popen(
            [sys.executable, "-c", claims, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as other,
        ResultStore(path) as store,
    ):
        assert other.stdout.readline() == "claimed\n"
        assert not store.claim(key(1))
        other.kill()
        other.wait()
        assert store.claim(key(1))


def test_a_clock_that_is_a_year_ahead_blocks_nothing(path, monkeypatch):
    with ResultStore(path) as one, ResultStore(path) as other:
        year = 365 * 86400
        monkeypatch.setattr(store_module.time, "time", lambda: 1e9 + year)
        assert one.claim(key(1), lease_s=1e12)
        monkeypatch.setattr(store_module.time, "time", lambda: 1e9)
        assert other.claim(key(1))
        assert not one.claim(key(1))


@pytest.mark.parametrize("until", ["soon", b"soon", float("inf"), -1.0])
def test_a_forged_claim_blocks_nothing(path, until):
    with ResultStore(path) as store:
        assert store.claim(key(1))
        forged = ("another host:1:2:3", until)
        store._connection.execute("UPDATE claims SET worker = ?, expires_at = ?", forged)
        assert store.claim(key(1))


FORGED = (
    {"status": "splendid"},
    {"median_s": "fast"},
    {"median_s": -1.0},
    {"median_s": None, "n": -3},
    {"n": 2.5},
    {"provenance": ["H100"]},
    {"correct": "yes"},
    {"config": {"another": "point"}},
    {"config": None},
    {"median_s": 0.0},
    {"measured_at": -1.0},
    {"measured_at": float("nan")},
    {"measured_at": 1e300},
    {"limits": {"bandwidth": float("inf")}},
    {"values": {"error": float("nan")}},
    {"values": {"deep": json.loads("[" * 100 + "]" * 100)}},
    {"message": "\ud800"},
)


@pytest.mark.parametrize("change", [*FORGED, "status", "config", "median_s"], ids=str)
def test_a_forged_row_hides_no_other_one(path, change):
    body = row(1).to_dict()
    if isinstance(change, str):
        del body[change]
    else:
        body |= change
    text = json.dumps(body)
    columns = key(1).columns
    written = (*columns, text, checksum(key(1).identity, text.encode()).decode())
    with ResultStore(path) as store:
        store.put(row(0))
        store.put(row(2))
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO results VALUES (?, ?, ?, ?, ?, ?)", written)
        connection.execute("UPDATE totals SET value = value + 1")
    with ResultStore(path, read_only=True) as store:
        assert store.missing([key(0), key(1), key(2)]) == (key(1),)
        assert len(store.rows()) == 2
        assert len(store.notes) == 1
    with ResultStore(path) as store:
        assert sorted(store.rows(), key=str) == [row(0), row(2)]
        assert store.quarantined == 1
        assert key(1) in store.missing([key(0), key(1), key(2)])
    with ResultStore(path) as store:
        assert sorted(store.rows(), key=str) == [row(0), row(2)]
        assert store.notes == []


def test_a_device_with_a_null_in_its_name_hides_no_row(path):
    with ResultStore(path) as store:
        store.put(row(0))
        device = f"{key(1).device}\0forged"
        store.put(replace(row(1), key=replace(key(1), device=device)))
        assert {found.key.device for found in store.rows()} == {key(0).device, device}


@pytest.mark.parametrize("number", [float("inf"), 1.5, "one", b"\xff"])
def test_rounds_must_be_integers(path, number):
    with ResultStore(path) as store:
        store.put(row(0))
        store.put(row(1))
    with sqlite3.connect(path) as connection:
        first = "(SELECT config_hash FROM results LIMIT 1)"
        connection.execute(f"UPDATE results SET round = ? WHERE config_hash = {first}", (number,))
    with ResultStore(path) as store:
        assert len(store.rows()) == store.quarantined == 1


def test_rows_that_are_gone_are_reported_by_who_reads(path):
    with ResultStore(path) as store:
        for number in range(4):
            store.put(row(number))
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM results WHERE config_hash = ?", key(1).columns[:1])
    for read in (ResultStore.rows, lambda store: store.missing([key(1)])):
        with ResultStore(path) as store:
            read(store)
            read(store)
            [note] = store.notes
            assert note.startswith("1 stored rows are gone")


def test_a_full_disk_is_not_damage(path, monkeypatch):
    with ResultStore(path) as store:
        store.put(row(0))
        [[pages]] = store._connection.execute("PRAGMA page_count")
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        rows = [row(number, message="x" * 1000) for number in range(1, 500)]
        with pytest.raises(StoreError, match="Free space"):
            list(map(store.put, rows))
    with ResultStore(path) as store:
        assert row(0) in store.rows()


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
        kept = store._connection.execute("SELECT body FROM quarantine").fetchall()
        assert [json.loads(text) for (text,) in kept] == [changed]
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


@pytest.fixture
def archive_of():
    """Write files into a folder that this process can read and not write; return the first."""
    folder, is_root = Path(tempfile.mkdtemp()), os.getuid() == 0

    def write(content):
        for name, data in content.items():
            (folder / name).write_bytes(data)
        folder.chmod(0o555)
        if is_root:  # who may write everywhere
            os.setresgid(OTHER_USER, OTHER_USER, 0)
            os.setresuid(OTHER_USER, OTHER_USER, 0)
        return folder / next(iter(content))

    yield write
    if is_root:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_in_a_folder_that_cannot_be_written_is_read(path, archive_of, read_only):
    with ResultStore(path) as store:
        store.put(row(1))
    archive = archive_of({"results.db": path.read_bytes()})
    with ResultStore(archive, read_only=read_only) as store:
        assert store.read_only
        assert store.rows() == (row(1),)
        assert any("cannot be written" in note for note in store.notes) is not read_only


def test_no_file_is_made_in_a_folder_that_cannot_be_written(archive_of):
    folder = archive_of({"other": b""}).parent
    with pytest.raises(StoreError, match=r"folder .* cannot be written") as caught:
        ResultStore(folder / "results.db")
    assert "salvage" not in str(caught.value)


def test_newest_rows_that_cannot_be_read_are_said(path, archive_of):
    with ResultStore(path) as store:
        store.put(row(1))
        store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        store.put(row(2))
        names = ("results.db", "results.db-wal")
        content = {name: path.with_name(name).read_bytes() for name in names}
    with ResultStore(archive_of(content)) as store:
        assert any("newest rows are in results.db-wal" in note for note in store.notes)
        assert store.rows() == (row(1),)


def test_tables_that_cannot_be_read_yet_are_not_damage(path, archive_of):
    with ResultStore(path) as store:
        store.put(row(1))
        names = ("results.db", "results.db-wal")
        content = {name: path.with_name(name).read_bytes() for name in names}
    with pytest.raises(StoreError, match=r"newest rows are in results\.db-wal") as caught:
        ResultStore(archive_of(content))
    assert "salvage" not in str(caught.value)


def test_an_empty_file_is_not_damaged(path):
    path.write_bytes(b"")  # all that a full disk left of it
    with pytest.raises(StoreError, match=r"results\.db does not have any results yet\."):
        ResultStore(path, read_only=True)


@pytest.mark.parametrize("content", [b"not a database, but long enough to be one " * 40, b"x"])
def test_a_file_of_another_program_is_not_touched(path, content):
    path.write_bytes(content)
    with pytest.raises(StoreError, match="not a results file of the workbench"):
        ResultStore(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("length", [1, 15, 16, 17, 99])
def test_the_start_of_a_header_is_not_taken_for_a_new_file(path, length):
    ResultStore(path).close()
    content = path.read_bytes()[:length]
    path.write_bytes(content)
    with pytest.raises(StoreError, match="its header is damaged"):
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


def test_the_innermost_mount_decides_wherever_it_is_listed(tmp_path, monkeypatch):
    def mounted(*places):
        found = [SimpleNamespace(mountpoint=str(at), fstype=kind) for at, kind in places]
        monkeypatch.setattr(
            "psutil.disk_partitions", lambda **how: found if how["all"] else found[:1]
        )
        return filesystem(tmp_path / "results.db")

    inner, root = (tmp_path, "nfs4"), (tmp_path.anchor, "ext4")
    assert mounted(root, inner, (tmp_path / "other", "tmpfs")) == "nfs4"
    assert mounted(inner, root) == "nfs4"
    assert mounted(root, (tmp_path, "ext4"), inner) == "nfs4"  # mounted over the one before


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -1e-9])
def test_times_that_no_clock_gives_are_refused(value):
    body = row(1).to_dict()
    assert Row.from_dict({**body, "n": 0}).n == 0
    with pytest.raises(ValueError, match="median_s"):
        Row.from_dict({**body, "median_s": value})


def test_a_copy_of_the_file_is_the_whole_store(path, tmp_path):
    with ResultStore(path) as store:
        for number in range(20):
            store.put(row(number))
    shutil.copy(path, tmp_path / "copy.db")
    with ResultStore(tmp_path / "copy.db") as copy:
        assert len(copy.rows()) == 20
