"""A disk on which no file can be long."""

from __future__ import annotations

from contextlib import contextmanager

import pytest


@contextmanager
def files_of_at_most(count):
    """Let a file of this process have so many bytes; a longer one fails as on a full disk."""
    resource = pytest.importorskip("resource", reason="there is no such limit on Windows")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
