"""Limits on kernel starts: how many, how long each may take, and where its sockets are.

The path of a Unix socket has at most 107 bytes on Linux and 103 on macOS, so the output folder of
a run is not used: it can be as deep as its owner likes.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

START_TIMEOUT_S = 120.0
"""Seconds until a kernel is ready, on a busy machine too."""
STARTS = 2
"""Most kernel starts: a second one after one that never became ready."""
CONNECTION_FILE = "k{start}.json"
"""File name per kernel start; jupyter_client adds sockets next to it: k0-ipc-1 to k0-ipc-5."""
_SOCKET = "k0-ipc-0"
_SHORT_BASE = "/tmp"  # noqa: S108 - the folder made in it is private


@contextlib.contextmanager
def socket_folder() -> Iterator[str | None]:
    """Make a private folder and remove it at the end; None if no folder supports sockets.

    Windows has none that jupyter_client can use; a folder can be too deep, or on a file system
    without sockets.
    """
    for base in dict.fromkeys((tempfile.gettempdir(), _SHORT_BASE)):
        if not Path(base).is_dir():
            continue
        with tempfile.TemporaryDirectory(
            prefix="wb-kernel-", dir=base, ignore_cleanup_errors=True
        ) as folder:
            if _takes_sockets(Path(folder)):
                yield folder
                return
    yield None


def _takes_sockets(folder: Path) -> bool:
    """Return whether a socket with a path as long as a kernel's can be bound there."""
    if not hasattr(socket, "AF_UNIX"):
        return False
    path = folder / _SOCKET
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.bind(str(path))
        except OSError:
            return False
    path.unlink()
    return True
