"""Open a results file, read-only if needed, and handle a damaged one."""

import os
import sqlite3
import time
from pathlib import Path

from workbench.access.files import FileError, FileUse, read_start
from workbench.core.errors import cut_path
from workbench.sweeps.store.row import StoreError

RESULTS = FileUse("results file", 64 * 2**30)
"""SQLite reads the pages that it needs, so a large file costs nothing by itself."""
APPLICATION_ID = 0x57424B56
SCHEMA_VERSION = 1
BUSY_S = 30.0
POLL_S = 0.01
PRIMARY_CODE = 0xFF
"""The bits of an extended SQLite error code that give the primary code."""
IDENTITY = """SELECT (SELECT user_version FROM pragma_user_version),
    (SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_schema)"""
"""One statement, because another process may create the file between two statements."""
DAMAGE = (sqlite3.Error, UnicodeDecodeError)
"""What a damaged file raises: the second where SQLite's own message quotes it."""
HEADER_BYTES = 100
NETWORK = ("nfs", "cifs", "smb", "9p", "ceph", "glusterfs", "lustre", "beegfs", "gpfs", "afs")
"""How the types of file systems start on which WAL's shared memory does not work."""
NETWORK_FUSE = ("fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "fuse.glusterfs")
SCHEMA = """
CREATE TABLE results (
    config_hash TEXT NOT NULL, device TEXT NOT NULL, kernel_hash TEXT NOT NULL,
    round INTEGER NOT NULL, body TEXT NOT NULL, checksum TEXT NOT NULL,
    PRIMARY KEY (config_hash, device, kernel_hash, round)) WITHOUT ROWID;
CREATE TABLE claims (
    config_hash TEXT NOT NULL, device TEXT NOT NULL, kernel_hash TEXT NOT NULL,
    round INTEGER NOT NULL, worker TEXT NOT NULL, expires_at REAL NOT NULL,
    PRIMARY KEY (config_hash, device, kernel_hash, round)) WITHOUT ROWID;
CREATE TABLE quarantine (
    config_hash, device, kernel_hash, round, body, checksum, found_at REAL NOT NULL);
CREATE TABLE totals (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO totals VALUES ('results', 0);
"""


def opened(path: Path, *, read_only: bool) -> tuple[sqlite3.Connection, bool, list[str]]:
    """Open a results file, or create it: the connection, whether it is read-only, notes for you.

    A file of a newer schema, or one that cannot be written, is opened read-only, with a note.
    Errors: StoreError, with what to do about it.
    """
    read_only, notes = _as_allowed(path, read_only)
    if path.exists() and not _starts_like_a_database(path):
        raise _foreign(path)
    connection = None
    try:
        connection = _readable(path, notes) if read_only else _connect(path, "rwc")
        version = _version(connection, path)
        if read_only:
            _check_has_tables(path, version, notes)
        if version > SCHEMA_VERSION:
            why = (
                f"{path.name} has schema {version}, this workbench knows {SCHEMA_VERSION}: opened "
                "read-only. Update the workbench to add results."
            )
        elif not read_only and (fault := _fault(connection)):
            why = (
                f"{path.name} is damaged ({fault}): opened read-only. Rows with a right checksum "
                f"are shown; continue in a new file, or recover: sqlite3 {path.name} .recover"
            )
        else:
            if not read_only:
                notes += _prepare(connection, path, version)
            return connection, read_only, notes
        connection.close()
        return _readable(path, notes), True, [*notes, why]
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, DAMAGE):
            raise damaged(path, error) from error
        raise


def _check_has_tables(path: Path, version: int, notes: list[str]) -> None:
    """Refuse an empty file, from which nothing can be read. Errors: StoreError."""
    if version == 0:
        raise StoreError(" ".join([f"{path.name} does not have any results yet.", *notes]))


def _as_allowed(path: Path, read_only: bool) -> tuple[bool, list[str]]:
    """Decide whether the file is opened read-only, as requested or by necessity, and why."""
    if not path.exists():
        if read_only:
            raise StoreError(f"There is no results file at {cut_path(path)}.")
        if not path.parent.is_dir():
            raise StoreError(f"The folder {cut_path(path.parent)} does not exist; create it first.")
        if not os.access(path.parent, os.W_OK):
            raise StoreError(
                f"The folder {cut_path(path.parent)} cannot be written: name a results file in "
                "another one."
            )
    elif not read_only and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        return True, [f"{path.name} or its folder cannot be written: opened read-only."]
    return read_only, []


def damaged(path: Path, error: Exception) -> StoreError:
    """Build the error for a file that SQLite cannot read or write."""
    if _primary(error) in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}:
        return StoreError(
            f"{path.name} cannot be written: {error}. What was stored is whole. Free space on its "
            "disk, then run the same command to resume."
        )
    if _primary(error) == sqlite3.SQLITE_BUSY:
        return StoreError(
            f"{path.name} has been written by another process for more than {BUSY_S:g} seconds. "
            "It is whole: end that process, or try again."
        )
    return StoreError(
        f"{path.name} cannot be used: {error}. It is left as it is. Copy it away, then either "
        f"start a new file or salvage what can be read: sqlite3 {path.name} .recover"
    )


def _readable(path: Path, notes: list[str]) -> sqlite3.Connection:
    """Open a file to read, also where SQLite cannot create the files that it keeps next to it."""
    connection = _connect(path, "ro")
    try:
        connection.execute(IDENTITY).fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        if _primary(error) not in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}:
            raise
        recent = path.with_name(f"{path.name}-wal")
        if recent.exists() and recent.stat().st_size:
            notes.append(
                f"The newest rows are in {recent.name}, which cannot be read here: copy both files "
                "into a folder that you can write to."
            )
        return _connect(path, "ro&immutable=1")
    return connection


def _primary(error: Exception) -> int | None:
    """Return SQLite's primary code of an error; None for others."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & PRIMARY_CODE


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another process uses the file."""
    return _primary(error) == sqlite3.SQLITE_BUSY


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    location = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(
        location, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
    connection.text_factory = bytes  # a damaged row may hold invalid text
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema version; 0 for an empty file. StoreError for another program's file."""
    version, owner, tables = map(int, connection.execute(IDENTITY).fetchone())
    if owner == APPLICATION_ID and version >= SCHEMA_VERSION:
        return version
    if owner or version or tables:
        raise _foreign(path)
    return 0


def _starts_like_a_database(path: Path) -> bool:
    """Check the header: SQLite takes a too short file as new, and would overwrite it."""
    try:
        start = read_start(path, HEADER_BYTES, RESULTS)
    except FileError as error:
        raise StoreError(error.message) from None
    return not start or (len(start) == HEADER_BYTES and start.startswith(b"SQLite format 3\0"))


def _foreign(path: Path) -> StoreError:
    return StoreError(
        f"{path.name} is not a results file of the workbench, or its header is damaged. It is left "
        "as it is; name another file."
    )


def _fault(connection: sqlite3.Connection) -> str:
    """Return what SQLite finds wrong with the structure of the file; empty if nothing."""
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    text = found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
    return "" if text == "ok" else " ".join(text.split())[:120]


def _prepare(connection: sqlite3.Connection, path: Path, version: int) -> list[str]:
    """Set journal and durability, create tables in a new file; return notes about deviations."""
    kind = filesystem(path)
    wanted = "DELETE" if is_network(kind) else "WAL"
    found = _set_journal(connection, wanted)
    connection.execute("PRAGMA synchronous = FULL")
    if version == 0:
        _create(connection)
    if found.upper() == wanted == "WAL":
        return []
    note = (
        f"{path.name} is on {kind or 'an unknown file system'}: WAL needs one host and shared "
        "memory, so a rollback journal is used. Let one machine write at a time."
    )
    return [note]


def _set_journal(connection: sqlite3.Connection, wanted: str) -> str:
    """Request a journal mode, and return the one in use.

    SQLite itself does not wait here for another process that writes, such as one that is just
    creating the same file.
    """
    end = time.monotonic() + BUSY_S
    while True:
        try:
            found: bytes = connection.execute(f"PRAGMA journal_mode = {wanted}").fetchone()[0]
            return found.decode()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > end:
                raise
        time.sleep(POLL_S)


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")  # another process may be creating the same file
    if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
        for statement in SCHEMA.split(";"):
            if statement.strip():
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def filesystem(path: Path) -> str:
    """Return the type of a path's file system, such as "ext4"; empty if unknown."""
    import psutil

    place = path.resolve().parent
    found, depth = "", -1
    for partition in psutil.disk_partitions(all=True):
        mount = Path(partition.mountpoint)
        if place.is_relative_to(mount) and len(mount.parts) >= depth:
            found, depth = partition.fstype, len(mount.parts)
    return found


def is_network(kind: str) -> bool:
    """Return whether several machines may share a file system."""
    name = kind.lower()
    return name.startswith(NETWORK) or name in NETWORK_FUSE
