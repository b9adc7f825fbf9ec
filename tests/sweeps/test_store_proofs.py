"""Kill it, write from eight processes, damage it: nothing acknowledged is lost, nothing is wrong.

The quick runs take seconds; the full numbers run in `make thorough` and in `make soak`.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.soak.duration import LONG_SOAK
from workbench.sweeps.store import Key, ResultStore, Row, StoreError

WORKER = Path(__file__).with_name("store_worker.py")
ROOT = Path(__file__).parents[2]
full = (pytest.mark.slow, pytest.mark.thorough)


def started(file, log, count, name):
    command = [sys.executable, str(WORKER), str(file), str(log), str(count), name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env={"PYTHONPATH": "."})


def measured(log):
    """Whole lines only: the last one may be cut."""
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    return Counter(int(line) for line in lines)


@pytest.mark.parametrize(
    "kills", [5, pytest.param(25, marks=full), pytest.param(100, marks=LONG_SOAK)]
)
def test_killed_at_random_points_it_loses_nothing(tmp_path, kills):
    file, log = tmp_path / "results.db", tmp_path / "measured.txt"
    chance = random.Random(kills)
    acknowledged = set()
    points = 40 * kills
    for turn in range(kills):
        before = measured(log)
        time.sleep(0.06)  # the claim of the killed process expires
        process = started(file, log, points, "killed")
        for _ in range(chance.randrange(1, 40)):
            if line := process.stdout.readline():
                acknowledged.add(int(line))
        time.sleep(chance.random() * 0.003)
        process.kill()
        rest = process.stdout.read().split(b"\n")[:-1]
        acknowledged |= {int(line) for line in rest}
        process.wait()
        with ResultStore(file) as store:
            rows = store.rows()
            stored = [row.key.config_values["point"] for row in rows]
            assert store.quarantined == 0
            assert store.lost() == 0
        assert acknowledged <= set(stored), turn
        assert len(set(stored)) == len(stored)
        again = measured(log) - before
        assert sum(1 for point in again if before[point]) <= 1
        assert max(measured(log).values()) <= kills
    time.sleep(0.06)
    finished = started(file, log, points, "last")
    finished.communicate()
    assert finished.returncode == 0
    with ResultStore(file) as store:
        assert len(store.rows()) == points
    assert sum(measured(log).values()) - points <= kills


@pytest.mark.parametrize("count", [60, pytest.param(500, marks=full)])
def test_eight_processes_write_one_store(tmp_path, count):
    file, log = tmp_path / "results.db", tmp_path / "measured.txt"
    workers = [started(file, log, count, f"worker {n}") for n in range(8)]
    outputs = [worker.communicate()[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 8
    points = [int(line) for text in outputs for line in text.split()]
    assert sorted(points) == list(range(count))
    assert max(measured(log).values()) == 1
    with ResultStore(file) as store:
        assert len(store.rows()) == count


def damage(content, chance):
    """A copy with flipped bytes, a zeroed page, a page moved, or an end that is missing."""
    copy = bytearray(content)
    kind = chance.randrange(5)
    if kind == 0:
        return copy[: chance.randrange(len(copy))]
    if kind == 1:
        start = chance.randrange(len(copy))
        copy[start : start + 4096] = bytes(min(4096, len(copy) - start))
    elif kind == 2:
        one, two = (chance.randrange(len(copy) // 4096) * 4096 for _ in range(2))
        copy[one : one + 4096] = content[two : two + 4096]
    else:
        for _ in range(1 if kind == 3 else 64):
            copy[chance.randrange(len(copy))] ^= 1 << chance.randrange(8)
    return copy


@pytest.mark.parametrize("cases", [120, pytest.param(1000, marks=full)])
def test_a_damaged_file_never_gives_a_wrong_number(tmp_path, cases):
    whole = tmp_path / "whole.db"
    rows = {
        number: Row(
            Key.of({"number": number}, "device", "kernel"),
            n=3,
            median_s=number + 0.5,
            provenance={"driver": "550", "torch": "2.11", "notes": "x" * 200},
        )
        for number in range(120)
    }
    with ResultStore(whole) as store:
        for row in rows.values():
            store.put(row)
    content = whole.read_bytes()
    chance = random.Random(cases)
    ends = Counter()
    for case in range(cases):
        file = tmp_path / f"{case}.db"
        file.write_bytes(damage(content, chance))
        ends[look_at(file, rows)] += 1
        for left in tmp_path.glob(f"{case}.db*"):
            left.unlink()
    assert set(ends) <= {"whole", "rows gone", "quarantined", "refused"}
    assert ends["refused"]
    assert ends["quarantined"]
    assert ends["whole"]


def look_at(file, rows):
    """How a damaged file ends: every returned row was written, and what is gone is reported."""
    try:
        with ResultStore(file) as store:
            found = store.rows()
            for row in found:
                assert row == rows[row.key.config_values["number"]]
            assert len({row.key for row in found}) == len(found)
            missing = store.missing([row.key for row in rows.values()])
            assert len(missing) == len(rows) - len(found)
            assert store.notes or not missing, "rows vanish without a word"
            if not store.read_only and missing:
                store.put(rows[missing[0].config_values["number"]])
            if store.quarantined:
                return "quarantined"
            return "whole" if len(found) == len(rows) else "rows gone"
    except StoreError as error:
        return "refused" if file.name in str(error) else f"refused without the file: {error}"
