"""How long a soak goes on, and how much memory it may keep."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

LENGTH = os.environ.get("WORKBENCH_SOAK_SECONDS")
SECONDS = float(LENGTH or 2)
"""Of each soak; `make soak` sets minutes."""
ANY_SEED = random.randrange(1, 2**31) if LENGTH else 1
SEED = int(os.environ.get("WORKBENCH_SOAK_SEED", ANY_SEED))
"""Another one in every `make soak`, and a failure prints it; `make test` repeats one."""
MOST_GROWTH_BYTES = 64 * 2**20
WARM = 12
"""The turn after which everything is loaded that is loaded once."""

soak = pytest.mark.soak
LONG_SOAK = [soak, pytest.mark.skipif(SECONDS < 60, reason="takes minutes: make soak")]
"""The marks of a parameter that is too much for `make test`."""


def turns(least: int = WARM + 1) -> Iterator[tuple[int, random.Random]]:
    """Yield (number, its random numbers) until the time is over; at least so many."""
    print(f"WORKBENCH_SOAK_SEED={SEED}")  # noqa: T201  (pytest shows it after a failure)
    end = time.monotonic() + SECONDS
    turn = 0
    while turn < least or time.monotonic() < end:
        yield turn, random.Random(SEED + turn)
        turn += 1


def held() -> tuple[int, int]:
    """Return the resident bytes and the open descriptors of this process."""
    descriptors = Path("/proc/self/fd")
    opened = len(list(descriptors.iterdir())) if descriptors.exists() else 0
    return psutil.Process().memory_info().rss, opened
