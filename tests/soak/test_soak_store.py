"""A torture of the store: writers that are killed, claims and rows that no sweep wrote, damage."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from contextlib import suppress

import pytest

from tests.soak.duration import MOST_GROWTH_BYTES, WARM, held, soak, turns
from tests.sweeps.test_store_proofs import damage, look_at, started
from workbench.sweeps.store import Key, ResultStore, Row, StoreError
from workbench.sweeps.store.row import checksum

pytestmark = [soak, pytest.mark.slow]
POINTS = 60
HOSTILE = (
    *(None, -1, 2**63 - 1, float("inf"), -0.0, "", "x" * 5000, b"\xff\0", "9" * 400),
    *("NaN", '{"config": 1}', "[" * 3000, '{"a":' * 3000, "null", "[]", "tcp://", ":::"),
)


def test_killed_writers_lose_nothing_that_was_acknowledged(tmp_path):
    for turn, chance in turns(least=1):
        file, log = tmp_path / f"{turn}.db", tmp_path / f"{turn}.txt"
        workers = [started(file, log, POINTS, name) for name in ("killed", "one", "two")]
        time.sleep(chance.random() * 0.8)
        killed = chance.sample(workers, 2)
        for worker in killed:
            worker.kill()
        outputs = [worker.communicate()[0] for worker in workers]
        acknowledged = {int(line) for text in outputs for line in text.split(b"\n")[:-1]}
        last = started(file, log, POINTS, "last")  # at once: the claims of the killed are void
        last.communicate()
        assert last.returncode == 0
        with ResultStore(file) as store:
            stored = [row.key.config_values["point"] for row in store.rows()]
            assert sorted(stored) == list(range(POINTS))
            assert acknowledged <= set(stored)
            assert (store.lost(), store.quarantined, store.notes) == (0, 0, [])
        for left in tmp_path.iterdir():
            left.unlink()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The content of a whole file, and its rows by number."""
    file = tmp_path_factory.mktemp("whole") / "whole.db"
    rows = {
        number: Row(Key.of({"number": number}, "device", "kernel"), n=3, median_s=number + 0.5)
        for number in range(POINTS)
    }
    with ResultStore(file) as store:
        for row in rows.values():
            store.put(row)
    return file.read_bytes(), rows


def forge(file, chance: random.Random) -> None:
    """Write values that no sweep writes into random columns, with right checksums for bodies."""
    connection = sqlite3.connect(file, isolation_level=None)
    for _ in range(chance.randrange(1, 6)):
        table, column = chance.choice(
            [
                *(("results", name) for name in ("body", "checksum", "device", "round")),
                *(("claims", "worker"), ("claims", "expires_at")),
                *(("totals", "value"), ("totals", "name")),
            ]
        )
        with suppress(sqlite3.Error):
            (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
            place = f"(SELECT {column} FROM {table} LIMIT 1 OFFSET {int(count * chance.random())})"
            changed = f"UPDATE {table} SET {column} = ? WHERE {column} = {place}"
            connection.execute(changed, (chance.choice(HOSTILE),))
    key = Key.of({"number": chance.randrange(POINTS)}, "device", "kernel")
    body = json.dumps({"config": {"number": 0}, "median_s": chance.choice([-1, "x", None])})
    right = checksum(key.identity, body.encode()).decode()
    with suppress(sqlite3.Error):
        row = (*key.columns, body, right)
        connection.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?)", row)
        claim = (*key.columns, chance.choice(HOSTILE), chance.choice(HOSTILE))
        connection.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?, ?)", claim)
    connection.close()


def test_no_forged_or_damaged_file_gives_a_wrong_number(tmp_path, whole):
    content, rows = whole
    memory, descriptors = 0, 0
    for turn, chance in turns():
        file = tmp_path / f"{turn}.db"
        file.write_bytes(content if turn % 2 else damage(content, chance))
        if turn % 2:
            forge(file, chance)
        said = look_at(file, rows)
        assert said in {"whole", "rows gone", "quarantined", "refused"}, (turn, said)
        with suppress(StoreError), ResultStore(file) as store:
            claimed = [store.claim(row.key) for row in rows.values()]
            assert not store.read_only
            assert sum(claimed) <= len(rows)
        for left in tmp_path.iterdir():
            left.unlink()
        if turn == WARM:
            memory, descriptors = held()
    after, still_open = held()
    assert after - memory < MOST_GROWTH_BYTES
    assert still_open == descriptors
