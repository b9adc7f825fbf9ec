"""A writer that never ends, another thread, and the round of a key that has no number."""

from __future__ import annotations

import sqlite3
import threading

from workbench.sweeps.store import Key, ResultStore, Row, StoreError
from workbench.sweeps.store import file as store_file
from workbench.sweeps.store import store as store_module

LIMIT_S = 60
"""Reached by what is broken, never by a busy machine."""
FIRST = Key.of({"block_m": 16}, "H100", "abc")
ROW = Row(FIRST, n=3, median_s=0.5)


def test_without_a_number_it_is_the_first_round_however_the_key_is_built():
    assert Key(FIRST.config, FIRST.device, FIRST.kernel_hash) == FIRST
    assert FIRST.columns[-1] == 0


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
