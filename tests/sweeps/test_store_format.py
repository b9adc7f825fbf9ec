"""What a results file is to other programs and versions, and which claims count."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from workbench.access.json_text import MAX_DEPTH
from workbench.sweeps.store import Key, ResultStore, Row, StoreError
from workbench.sweeps.store import file as store_file
from workbench.sweeps.store.file import SCHEMA_VERSION, _connect
from workbench.sweeps.store.row import checksum
from workbench.sweeps.store.store import LONGEST_LEASE_S, _is_held

KEY = Key.of({"point": 0}, "device", "kernel")


def values(path, query):
    connection = sqlite3.connect(path)
    found = connection.execute(query).fetchall()
    connection.close()
    return found


def test_a_file_names_its_program_and_its_schema(tmp_path):
    with ResultStore(tmp_path / "results.db") as store:
        store.put(Row(KEY, median_s=1.0))
    # Files of former versions have them: another number would refuse them all.
    assert values(store.path, "PRAGMA application_id") == [(0x57424B56,)]
    assert values(store.path, "PRAGMA user_version") == [(1,)]


def test_a_result_ends_the_claim_of_its_key(tmp_path):
    with ResultStore(tmp_path / "results.db") as store:
        assert store.claim(KEY)
        assert values(store.path, "SELECT count(*) FROM claims") == [(1,)]
        store.put(Row(KEY, median_s=1.0))
        assert values(store.path, "SELECT count(*) FROM claims") == [(0,)]


def test_a_schema_is_not_trusted(tmp_path):
    with ResultStore(tmp_path / "results.db") as store:
        connection = _connect(store.path, "ro")
        assert connection.execute("PRAGMA trusted_schema").fetchone() == (0,)
        connection.close()


@pytest.mark.parametrize("host", ["another-host", "another-host:7"])
def test_a_claim_of_another_host_counts_until_it_expires(host):
    now = time.time()
    worker = f"{host}:{2**22 + 1}:12.00:token".encode()
    assert _is_held(worker, now + LONGEST_LEASE_S / 2, now)
    assert not _is_held(worker, now - 1, now)


def test_a_claim_of_this_host_without_a_process_number_counts():
    now = time.time()
    worker = f"{socket.gethostname()}:tcp:12.00:token".encode()
    assert _is_held(worker, now + LONGEST_LEASE_S / 2, now)


def test_a_host_may_have_colons_in_its_name(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "fe80::1")
    now = time.time()
    worker = f"fe80::1:{2**22 + 1}:12.00:token".encode()
    assert not _is_held(worker, now + LONGEST_LEASE_S / 2, now)


def test_what_sqlite_finds_is_one_short_line():
    answers = (b"ok", b"page 7:\n  " + b"x" * 500)
    whole, fault = (store_file._fault(answering(one)) for one in answers)
    assert whole == ""
    assert fault == "page 7: " + "x" * 112


def answering(answer):
    found = SimpleNamespace(fetchone=lambda: (answer,))
    return SimpleNamespace(execute=lambda _: found)


def test_keys_and_checksums_are_those_of_every_version():
    # Rows of files that exist have these: others would measure all again, and put them all away.
    columns = Key.of({"tile": 16}, "H100", "abc", 2).columns
    assert columns == ("96facfffbfd8381689a215454dd0ddab", "H100", "abc", 2)
    assert checksum(b"identity", b"{}") == b"e493bee97720df81"


@pytest.mark.parametrize("name", ["measured_at", "median_s", "spread_s"])
def test_a_time_is_of_this_age(name):
    body = Row(KEY, median_s=1.0, spread_s=0.1).to_dict()
    last = 2.0**36
    assert Row.from_dict({**body, name: last - 1}) is not None
    with pytest.raises(ValueError, match=name):
        Row.from_dict({**body, name: last})


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "[[-1e999]]"])
@pytest.mark.parametrize("name", ["config", "limits", "values", "provenance"])
def test_every_number_of_a_row_is_finite(name, number):
    whole = {**Row(KEY, median_s=1.0).to_dict(), name: {"a": "number"}}
    with pytest.raises(ValueError, match=r"finite|JSON compliant|valid number"):
        Row.from_json(json.dumps(whole).replace('"number"', number).encode())


@pytest.mark.parametrize("name", ["values", "provenance"])
def test_a_row_may_nest_as_deep_as_other_json(name):
    deepest = json.loads("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1))
    for deep in (deepest, [{"[": "{" * MAX_DEPTH}]):
        row = Row(KEY, **{name: {"deep": deep}})
        assert Row.from_dict(row.to_dict()) == row
    with pytest.raises(ValueError, match="nested more than"):
        Row.from_dict(Row(KEY, **{name: {"deep": [deepest]}}).to_dict())


@pytest.mark.parametrize("times", [{"median_s": 0.5}, {"spread_s": 0.5}])
@pytest.mark.parametrize("fact", [{"correct": False}, {"provenance": {"mode": "interpreter"}}])
def test_each_time_alone_is_refused_where_none_can_be(times, fact):
    with pytest.raises(ValueError, match="omit median_s and spread_s"):
        Row(KEY, **times, **fact)


@pytest.fixture
def connections(monkeypatch):
    """Connections that were made, and those that were closed."""
    made, closed, real = [], [], sqlite3.connect

    class Connection(sqlite3.Connection):
        def close(self):
            closed.append(self)
            super().close()

    def connect(*arguments, **options):
        made.append(real(*arguments, factory=Connection, **options))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", connect)
    return made, closed


@pytest.fixture
def path(tmp_path):
    """A results file with one row."""
    with ResultStore(tmp_path / "results.db") as store:
        store.put(Row(KEY, median_s=1.0))
    return store.path


@pytest.mark.parametrize("why", ["newer", "damaged", "unreadable log"])
def test_a_file_that_is_opened_read_only_instead_has_one_handle(
    why, path, connections, monkeypatch
):
    made, closed = connections
    if why == "newer":
        values(path, f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    if why == "damaged":
        monkeypatch.setattr(store_file, "_fault", lambda _: "a page is missing")
    if why == "unreadable log":
        path = Path(shutil.copy(path, path.with_name("copy.db")))
        path.with_name("copy.db-wal").mkdir()
    made.clear()
    closed.clear()
    with ResultStore(path, read_only=why == "unreadable log") as store:
        assert store.read_only
        assert store.rows() == (Row(KEY, median_s=1.0),)
        assert len(made) == 2
        assert closed == made[:1]
    assert closed == made


def test_a_file_of_another_program_is_let_go(path, connections):
    made, closed = connections
    values(path, "PRAGMA application_id = 7")
    with pytest.raises(StoreError, match="not a results file"):
        ResultStore(path)
    assert closed == made


def test_a_file_of_more_than_64_gib_is_not_opened(path):
    os.truncate(path, 64 * 2**30 + 1)  # it takes no place
    with pytest.raises(StoreError, match="64 GiB"):
        ResultStore(path)
