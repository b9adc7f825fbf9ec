"""The only reader and writer of user-named files: it reads regular ones of a limited size.

A device, a named pipe or a sparse file of gigabytes is refused before anything is read from it.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

from workbench.core.errors import ScenarioError, check_kind, shown

FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY")
)
"""Without O_NONBLOCK, opening a named pipe waits until another process writes to it."""
KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
MAX_SKIPPED_BYTES = 2**30
"""A longer line has no end: it is an endless stream."""

FilePath = str | os.PathLike[str]


class FileError(ScenarioError):
    """A file that cannot be used: `file_not_readable`, `file_not_writable` and others."""


@dataclass(frozen=True, slots=True)
class FileUse:
    """The purpose and the limits of reading a file.

    title: its name in messages; most_bytes: the largest size that is read; field: the input
    that names the file; advice: what to do with a larger one.
    """

    title: str
    most_bytes: int
    field: str | None = None
    advice: str = "Choose a smaller file."


def read_bytes(path: FilePath, use: FileUse) -> bytes:
    """Return the content of a regular file. Errors: FileError."""
    with opened(path, use) as file:
        return file.read(use.most_bytes + 1)


def read_text(path: FilePath, use: FileUse) -> str:
    """Return the UTF-8 text of a regular file, without its byte order mark. Errors: FileError."""
    try:
        return read_bytes(path, use).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unreadable(path, use, f"it is not UTF-8 text ({error.reason})") from None


def read_start(path: FilePath, count: int, use: FileUse) -> bytes:
    """Return the first `count` bytes of a regular file. Errors: FileError."""
    with opened(path, use) as file:
        return file.read(count)


@contextmanager
def opened(path: FilePath, use: FileUse) -> Iterator[BinaryIO]:
    """Open a regular file of at most `use.most_bytes` for reading. Errors: FileError."""
    check_kind(f"Reading a {use.title}", path, str | bytes | os.PathLike, "its path")
    try:
        handle = os.open(path, FLAGS)
    except (OSError, ValueError) as error:  # ValueError: a null character, a lone surrogate
        raise _unreadable(path, use, reason_of(error)) from None
    try:
        _check(os.fstat(handle), path, use)
        with BufferedReader(_Bounded(handle, path, use)) as file:
            yield file
    finally:
        os.close(handle)


def is_file(text: str) -> bool:
    """Return whether a text of one line is the path of a file; any other text is not."""
    with suppress(OSError, ValueError):  # longer than any name, a null character
        return "\n" not in text and Path(text).is_file()
    return False


def is_folder(path: FilePath) -> bool:
    """Return whether a path names a folder; a name that is too long for a file names none."""
    return os.path.isdir(path)  # noqa: PTH112  (Path.is_dir raises for such a name)


def write_file(path: FilePath, text: str) -> None:
    """Write a whole file, or leave the one that was there. Errors: FileError.

    A link, a device and a named pipe are written to and stay. A pipe that is not open for reading
    is an error.
    """
    check_kind("Writing a file", path, str | os.PathLike, "its path")
    target = Path(path)
    try:
        stays = target.is_symlink() or (target.exists() and not target.is_file())
        part = None if stays else target.with_name(f"{target.name}.part")
        flags = FLAGS | os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        handle = os.open(part or target, flags, 0o666)
        with os.fdopen(handle, "wb") as file, removed_if_cut(part):
            if stays:
                os.set_blocking(file.fileno(), True)
            file.write(text.encode(errors="replace"))
            file.flush()
        if part is not None:
            part.replace(target)
    except (OSError, ValueError) as error:  # as in `opened`
        reason = reason_of(error)
        message = f"{shown(os.fspath(path))} cannot be written: {reason}. Choose another file."
        raise FileError("file_not_writable", message) from None


@contextmanager
def removed_if_cut(path: Path | None) -> Iterator[None]:
    """Remove a new file that could not be written to its end, as on a full disk."""
    try:
        yield
    except OSError:
        if path is not None:
            with suppress(OSError):
                path.unlink()
        raise


def lines(file: BinaryIO, most_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a stream; of a longer one its first `most_bytes + 1` bytes.

    The rest of a long line is skipped. Errors: FileError for a line that does not end.
    """
    while line := file.readline(most_bytes + 1):
        yield line
        skipped = 0
        while len(line) > most_bytes and not line.endswith(b"\n"):
            skipped += len(line)
            if skipped > MAX_SKIPPED_BYTES:
                size = size_text(MAX_SKIPPED_BYTES)
                problem = f"A line has more than {size} and does not end."
                raise FileError("line_too_long", f"{problem} Use a stream with line feeds.")
            line = file.readline(most_bytes + 1)


def size_text(count: int) -> str:
    """Return a number of bytes in its largest whole unit."""
    for unit, name in UNITS:
        if count >= unit and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count:,} bytes"


class _Bounded(RawIOBase):
    """An opened file that ends with an error past its limit: /proc reports no sizes, logs grow."""

    def __init__(self, handle: int, path: FilePath, use: FileUse) -> None:
        self._handle, self._path, self._use = handle, path, use
        self._left = use.most_bytes

    def readable(self) -> bool:
        """Return True: it is read only."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer. Errors: FileError past the limit, and for what cannot be read now."""
        try:
            data = os.read(self._handle, len(buffer))
        except BlockingIOError:  # a kernel file that waits for data
            raise _unreadable(self._path, self._use, "it has no data now") from None
        except OSError as error:
            raise _unreadable(self._path, self._use, reason_of(error)) from None
        self._left -= len(data)
        if self._left < 0:
            raise _too_large(self._path, self._use)
        buffer[: len(data)] = data
        return len(data)


def _check(found: os.stat_result, path: FilePath, use: FileUse) -> None:
    """Check the opened file itself: the path may name another one by now."""
    if not stat.S_ISREG(found.st_mode):
        kind = next((words for test, words in KINDS if test(found.st_mode)), "not a regular file")
        advice = f"Expected a regular file of at most {size_text(use.most_bytes)}."
        raise _error("not_regular", path, use, f"it is {kind}", advice)
    if found.st_size > use.most_bytes:
        raise _too_large(path, use)


def reason_of(error: Exception) -> str:
    """Return why a file cannot be opened or started, without its path."""
    return str(getattr(error, "strerror", None) or error)


def _unreadable(path: FilePath, use: FileUse, reason: str) -> FileError:
    advice = "Expected the path of a file that you may read."
    return _error("not_readable", path, use, reason, advice)


def _too_large(path: FilePath, use: FileUse) -> FileError:
    reason = f"it has more than {size_text(use.most_bytes)}, the limit"
    return _error("too_large", path, use, reason, use.advice)


def _error(code: str, path: FilePath, use: FileUse, reason: str, advice: str) -> FileError:
    name = f"The {use.title} {shown(os.fspath(path))}"
    message = f"{name} cannot be read: {reason}. {advice}"
    return FileError(f"file_{code}", message, field=use.field)
