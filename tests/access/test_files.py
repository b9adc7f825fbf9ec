"""The reader of files that a person names."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.small_disk import files_of_at_most
from workbench.access.files import (
    FileError,
    FileUse,
    is_folder,
    lines,
    opened,
    read_bytes,
    read_start,
    read_text,
    size_text,
    write_file,
)

USE = FileUse("design", 100, "design")


def refused(path, use=USE):
    with pytest.raises(FileError) as caught:
        read_bytes(path, use)
    assert caught.value.field == use.field
    assert len(caught.value.message) < 400
    return caught.value


def test_a_regular_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "some"
    path.write_bytes(b"a" * 100)
    assert read_bytes(path, USE) == b"a" * 100
    assert read_start(path, 3, USE) == b"aaa"
    path.write_bytes(b"a" * 101)
    error = refused(path)
    assert error.code == "file_too_large"
    assert "100 bytes" in error.message


def test_a_byte_order_mark_is_removed(tmp_path):
    path = tmp_path / "some"
    path.write_bytes(b"\xef\xbb\xbfx")
    assert read_text(path, USE) == "x"
    path.write_bytes(b"\xff")
    with pytest.raises(FileError, match="not UTF-8"):
        read_text(path, USE)


@pytest.mark.parametrize("name", ["none", "a\0b", "\ud800", "x" * 5000])
def test_an_error_of_opening_a_file_cuts_a_long_name(tmp_path, name):
    error = refused(str(tmp_path / name) if "\0" not in name else name)
    assert error.code == "file_not_readable"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_what_is_not_a_regular_file_is_named(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    kinds = {pipe: "a named pipe", "/dev/zero": "a device", tmp_path: "a folder"}
    for path, words in kinds.items():
        error = refused(path)
        assert error.code == "file_not_regular"
        assert words in error.message


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc on this system")
def test_a_file_that_says_it_is_empty_is_bounded_too():
    assert refused("/proc/self/maps").code == "file_too_large"


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_stream_of_lines_ends_at_the_limit_of_the_file(tmp_path):
    """The size was checked when the file was opened; another process may append to it."""
    path = tmp_path / "growing"
    path.write_bytes(b"line\n")
    with opened(path, FileUse("log", 10**5)) as file, path.open("ab", buffering=0) as more:
        following = (more.write(line * 10) for line in file)
        with pytest.raises(FileError) as caught:
            sum(following)
    assert caught.value.code == "file_too_large"


@pytest.mark.parametrize("error", [BlockingIOError, OSError("the disk is gone")])
def test_a_file_that_cannot_be_read_now_is_not_an_empty_one(tmp_path, monkeypatch, error):
    """Such as /proc/kmsg, which another program reads."""

    def read(*_):
        raise error

    path = tmp_path / "some"
    path.write_bytes(b"line\n")
    monkeypatch.setattr(os, "read", read)
    for content in (lambda file: file.read(9), lambda file: list(lines(file, 9))):
        with opened(path, USE) as file, pytest.raises(FileError, match=r"no data now|disk is gone"):
            content(file)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc on this system")
def test_no_descriptor_is_left_open(tmp_path):
    before = descriptors()
    for path in ("/dev/zero", tmp_path):
        refused(path)
    assert descriptors() == before


def test_a_file_is_written_whole_or_left_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    write_file(path, "one \ud800")
    assert path.read_text(encoding="utf-8") == "one ?"
    assert path.stat().st_mode & 0o111 == 0

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(FileError, match=r"page.html. cannot be written: No space left"):
        write_file(path, "two")
    assert path.read_text(encoding="utf-8") == "one ?"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_links_and_pipes_are_not_replaced(tmp_path):
    pipe, link, target = (tmp_path / name for name in ("pipe", "link", "target"))
    os.mkfifo(pipe)
    link.symlink_to(target)
    write_file(link, "text")
    assert link.is_symlink()
    assert target.read_text() == "text"
    with pytest.raises(FileError, match="pipe' cannot be written"):  # not open for reading
        write_file(pipe, "text")
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_file(pipe, "text")
    assert os.read(end, 9) == b"text"
    os.close(end)
    assert pipe.is_fifo()
    for path in (tmp_path, "", "a\0b", "/none/x", "/dev/full"):
        with pytest.raises(FileError, match="cannot be written"):
            write_file(path, "text")


@given(st.lists(st.binary(max_size=30).map(lambda part: part.replace(b"\n", b"")), max_size=8))
def test_every_line_comes_once_and_none_is_longer_than_the_limit(parts):
    found = list(lines(io.BytesIO(b"".join(part + b"\n" for part in parts)), 10))
    assert [line.rstrip(b"\n") for line in found] == [
        (part + b"\n")[:11].rstrip(b"\n") for part in parts
    ]
    assert all(len(line) <= 11 for line in found)


class Endless(io.RawIOBase):
    """A stream without a line feed."""

    def readable(self):
        return True

    def readinto(self, buffer):
        buffer[:] = bytes(len(buffer))  # else it holds what was in memory, line feeds too
        return len(buffer)


def test_a_line_that_does_not_end_is_an_error():
    stream = io.BufferedReader(Endless(), buffer_size=2**24)
    with pytest.raises(FileError, match="does not end"):
        list(lines(stream, 2**22))


@pytest.mark.parametrize(
    ("count", "text"), [(2**30, "1 GiB"), (3 * 2**20, "3 MiB"), (7, "7 bytes")]
)
def test_sizes_are_printed_with_their_unit(count, text):
    assert size_text(count) == text


def test_only_a_folder_is_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    assert is_folder(tmp_path)
    assert not any(map(is_folder, (tmp_path / "file", tmp_path / "none", "x" * 300, "a\0b")))


def test_a_file_that_does_not_fit_on_the_disk_leaves_nothing_of_it(tmp_path):
    path = tmp_path / "some"
    write_file(path, "before")
    with files_of_at_most(100), pytest.raises(FileError, match="cannot be written"):
        write_file(path, "x" * 10_000)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
