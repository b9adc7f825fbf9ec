"""The results store: committed as soon as measured, resumed by measuring what is missing.

SQLite with a write-ahead log and `synchronous=FULL`: a row that `put` returned for is on the disk.
One store may be used by several processes; each opens its own.
"""

import os
import socket
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import uniform
from typing import Any, Self

from workbench.sweeps.store.file import BUSY_S, DAMAGE, damaged, is_busy, opened
from workbench.sweeps.store.row import Key, Row, StoreError, checksum, packed
from workbench.sweeps.store.turns import turn

LEASE_S = 120.0
LONGEST_LEASE_S = 3600.0
"""A claim that would last longer is void: the clock of its machine is wrong."""
PAUSE_S = 0.0005, 0.002
"""Between two tries to write, and after a commit that follows another one at once: SQLite's own
pauses grow to 100 ms, so a process that writes without a pause would starve all others."""
KEY = "WHERE config_hash = ? AND device = ? AND kernel_hash = ? AND round = ?"
HAS_RESULT = f"SELECT 1 FROM results {KEY}"  # noqa: S608  (constants only, as below)
HOLDERS = f"SELECT worker, expires_at FROM claims {KEY} AND worker <> ?"  # noqa: S608
CLAIM = "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?, ?)"
UNCLAIM = f"DELETE FROM claims {KEY}"  # noqa: S608
READ = "SELECT config_hash, device, kernel_hash, round, body, checksum FROM results "
COUNT = "UPDATE totals SET value = value + ? WHERE name = 'results'"
COUNTS = """SELECT (SELECT value FROM totals WHERE name = 'results'),
    (SELECT count(DISTINCT quote(config_hash) || quote(device) || quote(kernel_hash) || round)
        FROM results)"""
"""One statement, because another process may write between two. A damaged file can show a row
twice, and counts it twice without `DISTINCT`, of which SQLite would make nothing for bare keys."""
NAMES = ("config_hash", "device", "kernel_hash", "round")


class ResultStore:
    """A results file. Usable from several threads; close it, or use it in a `with`.

    path: created when missing. read_only: nothing is written, not even a quarantine. notes: what a
    person has to know, such as why the file is read-only. Errors: StoreError.
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False) -> None:
        self.path = Path(path)
        self._connection, self.read_only, self.notes = opened(self.path, read_only=read_only)
        self._lock = threading.RLock()
        self.quarantined = 0
        self._has_reported = False
        self._written_at = 0.0
        self.worker = f"{_process(os.getpid())}:{id(self):x}"

    def put(self, row: Row) -> bool:
        """Commit one row; it is on the disk when this returns. False: the key is already there.

        The first result of a key stays: measuring twice is another round. Errors: StoreError.
        """
        columns = row.key.columns
        with self._writing() as connection:
            added = connection.execute(
                "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", packed(row)
            ).rowcount
            connection.execute(COUNT, (added,))
            connection.execute(UNCLAIM, columns)
        return bool(added)

    def claim(self, key: Key, lease_s: float = LEASE_S) -> bool:
        """Reserve a key for this store object until the lease ends.

        False: done, or claimed elsewhere. The claim of a process of this machine ends with it.

        Claiming again prolongs the lease: that is the heartbeat. Errors: StoreError.
        """
        columns, now = key.columns, time.time()
        with self._writing() as connection:
            if connection.execute(HAS_RESULT, columns).fetchone():
                return False
            holders = connection.execute(HOLDERS, (*columns, self.worker)).fetchall()
            if any(_is_held(worker, until, now) for worker, until in holders):
                return False
            until = now + min(lease_s, LONGEST_LEASE_S)
            connection.execute(CLAIM, (*columns, self.worker, until))
        return True

    def release(self, key: Key) -> None:
        """Give a claim of this store object back without a result."""
        with self._writing() as connection:
            connection.execute(UNCLAIM + " AND worker = ?", (*key.columns, self.worker))

    def missing(self, keys: Iterable[Key]) -> tuple[Key, ...]:
        """Return the keys without an intact row, in order: what a resumed sweep measures."""
        present = {row.key for row in self._intact()}
        return tuple(key for key in keys if key not in present)

    def rows(self, device: str | None = None, kernel_hash: str | None = None) -> tuple[Row, ...]:
        """Return every intact row, or those of a device and a kernel, in the order of their keys.

        Damaged rows go into quarantine (`quarantined` counts them) and are never returned.
        """
        requested = {"device": device, "kernel_hash": kernel_hash}
        given = {name: value for name, value in requested.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in given)
        return tuple(self._intact(f"WHERE {where}" if given else "", tuple(given.values())))

    def lost(self) -> int:
        """Count committed rows that are neither there nor in quarantine: the file is damaged."""
        with self._reading() as connection:
            [[written, there]] = connection.execute(COUNTS)
        if not isinstance(written, int):
            raise damaged(self.path, ValueError("its count of rows is not a number"))
        return max(0, written - there)

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _intact(self, where: str = "", values: tuple[Any, ...] = ()) -> Iterator[Row]:
        """Yield every row with a valid checksum, and quarantine the others at the end.

        A damaged file can show the same row twice: it is returned once.
        """
        self._report_lost()
        checksums: dict[Key, bytes] = {}
        bad = []
        with self._reading() as connection:
            for raw in connection.execute(READ + where, values):
                row = _row(raw)
                if row is None or checksums.get(row.key, raw[-1]) != raw[-1]:
                    bad.append(raw)
                elif row.key not in checksums:
                    checksums[row.key] = raw[-1]
                    yield row
        self._put_away(bad)

    def _report_lost(self) -> None:
        """Say once that rows are gone: the file still opens after a page of it was overwritten."""
        if not self._has_reported and (lost := self.lost()):
            self._has_reported = True
            self.notes.append(
                f"{lost} stored rows are gone: {self.path.name} was damaged. Their points count as "
                "missing, so the same command measures them again."
            )

    def _put_away(self, bad: list[tuple[Any, ...]]) -> None:
        if not bad:
            return
        self.quarantined += len(bad)
        note = f"{len(bad)} damaged rows are omitted; their points count as missing."
        self.notes += [] if note in self.notes else [note]  # a read-only file keeps them
        if self.read_only:
            return
        with self._writing() as connection:
            for raw in bad:
                connection.execute(
                    "INSERT INTO quarantine VALUES (?, ?, ?, ?, ?, ?, ?)", (*raw, time.time())
                )
                same = [_is_stored(name, value) for name, value in zip(NAMES, raw, strict=False)]
                query = f"DELETE FROM results WHERE {' AND '.join(same)}"  # noqa: S608  (names)
                removed = connection.execute(query, raw[: len(NAMES)]).rowcount > 0
                connection.execute(COUNT, (-removed,))

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._connection
            except DAMAGE as error:
                raise damaged(self.path, error) from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Hold one transaction that excludes other processes."""
        if self.read_only:
            why = " ".join(self.notes) or "it was opened read-only."
            raise StoreError(f"{self.path.name} cannot store results: {why}")
        with self._reading() as connection:
            if time.monotonic() - self._written_at < PAUSE_S[1]:
                time.sleep(uniform(*PAUSE_S))  # noqa: S311  (no secret)
            end = time.monotonic() + BUSY_S
            with turn(self.path, BUSY_S):
                _begin(connection, end)
                try:
                    yield connection
                    connection.execute("COMMIT")
                    self._written_at = time.monotonic()
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise


def _begin(connection: sqlite3.Connection, end: float) -> None:
    """Begin to write, with short pauses of random length while another process does."""
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > end:
                    raise
            else:
                return
            time.sleep(uniform(*PAUSE_S))  # noqa: S311  (no secret)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_S * 1000:.0f}")


def _process(number: int) -> str:
    """Name a process of this machine; another one that gets its number later has another name."""
    import psutil

    try:
        began = psutil.Process(number).create_time()
    except psutil.Error:
        return ""
    return f"{socket.gethostname()}:{number}:{began:.2f}"


def _is_held(worker: object, expires_at: object, now: float) -> bool:
    """Return whether a claim counts: it has time left, and so has its process if it is here."""
    if not (isinstance(expires_at, float) and isinstance(worker, bytes)):
        return False  # not of this program
    if not now < expires_at <= now + LONGEST_LEASE_S:
        return False
    process = worker.decode("utf-8", "replace").rpartition(":")[0]
    host, number, _began = [*process.rsplit(":", 2), "", ""][:3]
    is_here = host == socket.gethostname() and number.isdecimal()
    return not is_here or _process(int(number)) == process


def _row(raw: tuple[Any, ...]) -> Row | None:
    """Return the row in the columns of the file; None if they were damaged or forged."""
    config_hash, device, kernel_hash, number, body, written = raw
    try:
        identity = b"%b\0%b\0%b\0%d" % (config_hash, device, kernel_hash, number)
        if type(number) is not int or checksum(identity, body) != written:
            return None
        row = Row.from_json(body)
    except (AttributeError, TypeError, ValueError, OverflowError):
        return None  # text for a number, an infinite round, another body
    return row if row.key.identity == identity else None


def _is_stored(name: str, value: Any) -> str:
    """Return SQL that finds a value as it was read, damaged or not, without the index."""
    return f"+{name} IS CAST(? AS TEXT)" if isinstance(value, bytes) else f"+{name} IS ?"
