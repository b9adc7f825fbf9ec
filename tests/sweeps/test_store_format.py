"""What a results file is to other programs and versions, and which claims count."""

from __future__ import annotations

import socket
import sqlite3
import time

import pytest

from workbench.sweeps.store import Key, ResultStore, Row
from workbench.sweeps.store.file import _connect
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
