"""Runs a target on one input after the other, and keeps what was found, how often and how fast."""

from __future__ import annotations

import hashlib
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from pathlib import Path
from random import Random

from tests.fuzz.targets import LONGEST_MESSAGE, FaultError, Target

TOKENS = (
    *(b"0 1 -1 16 528 1e999 -0.0 NaN Infinity null true false [] {} \\ud800 \\u0000".split()),
    *(b"", b"\0", b"\n", b" ", b'"', b"'", b"\xff", b"--", b"-s", b"=", b"9" * 19, b"1_0"),
)
"""Pieces that readers treat in a way of their own."""
LONG = (b"9" * 400, b"9" * 5000, b"[" * 3000, b'{"a":' * 200, b"q" * 5000, b"1" * 4300)
BITS = (4, 8, 16, 64, 128)
"""Sizes of drawn integers."""
MARKS = b" \t\n\"',:={}[]()"
"""Bytes that end a word."""
FORBIDDEN = {"socket.connect", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"}
"""What no reader may do (events of `sys.addaudithook`)."""


class ForbiddenError(AssertionError):
    """A reader started a program or opened a connection."""


@dataclass
class Tally:
    """What a run of a target found."""

    times: Counter[int] = field(default_factory=Counter)
    """Tenths of a millisecond of this thread -> executions that took so long."""
    faults: dict[str, bytes] = field(default_factory=dict)
    """Where it was raised -> the shortest input that did."""

    @classmethod
    def of(cls, target: Target) -> Tally:
        """Return an empty tally, after a first input: what the reader needs is imported then."""
        cls().execute(target, next(iter(target.seeds()), b""))
        return cls()

    @property
    def executions(self) -> int:
        """Return how many inputs were read."""
        return self.times.total()

    @property
    def p99_ms(self) -> float:
        """Return the milliseconds that 99 of 100 executions took at most."""
        left = self.executions * 99 // 100
        for tenths, count in sorted(self.times.items()):
            left -= count
            if left < 0:
                return tenths / 10
        return 0.0

    @property
    def summary(self) -> str:
        """Return how many inputs were read, and how fast."""
        return f"{self.executions:>10,} executions, p99 {self.p99_ms:.1f} ms"

    def add(self, other: Tally) -> None:
        """Add what another run found."""
        self.times += other.times
        self.faults |= other.faults

    def execute(self, target: Target, data: bytes) -> None:
        """Read an input; whatever is raised and is not an error of ours is a fault."""
        start = time.thread_time()
        try:
            _read(target, data)
        except Exception as error:  # noqa: BLE001 - which one is the question
            place = _place(error)
            if len(data) < len(self.faults.get(place, data + b"+")):
                self.faults[place] = data
        finally:
            self.times[ceil((time.thread_time() - start) * 1e4)] += 1

    def write_faults(self, target: Target, folder: Path) -> None:
        """Write the input of every fault, and where it was raised."""
        for place, data in self.faults.items():
            path = folder / target.name / "faults" / hashlib.sha256(data).hexdigest()[:16]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.with_suffix(".txt").write_text(place + "\n", encoding="utf-8")


def kept_inputs(target: Target, folder: Path) -> list[bytes]:
    """Return the inputs of former runs: those that reached new code, and those that failed."""
    found = (path for path in sorted(folder.glob(f"{target.name}/*/*")) if path.suffix != ".txt")
    return [*target.kept, *(path.read_bytes() for path in found)]


def search(target: Target, seconds: float, first: int, kept: Sequence[bytes]) -> Tally:
    """Read kept inputs, and then for so many seconds changes of these and of valid ones."""
    tally, random = Tally.of(target), Random(first)
    for data in kept:
        tally.execute(target, data)
    draw = edited([*kept, *target.seeds()])
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        tally.execute(target, draw(random))
    return tally


def edited(seeds: Sequence[bytes]) -> Callable[[Random], bytes]:
    """Return what draws a seed with a few places removed, repeated, or replaced by other words."""
    words = sorted({word for one in seeds for word in one.split()[:400] if len(word) < 60})
    pieces: tuple[Callable[[Random], bytes], ...] = (
        lambda random: random.choice(TOKENS + LONG),
        lambda random: random.choice(words or [b""]),
        lambda random: random.randbytes(random.randint(0, 4)),
        lambda random: (
            b"-"[random.randint(0, 1) :] + b"%d" % random.getrandbits(random.choice(BITS))
        ),
    )

    def change(random: Random) -> bytes | tuple[int, int]:
        if random.randint(0, 1):
            return random.choice(pieces)(random)
        return random.randint(1, 40), random.choice([0, 2, 400, 5000])

    def draw(random: Random) -> bytes:
        edits = [(random.randrange(2**16), change(random)) for _ in range(random.randint(0, 5))]
        return _edited(random.choice(seeds), edits)

    return draw


def _edited(data: bytes, edits: Sequence[tuple[int, bytes | tuple[int, int]]]) -> bytes:
    """Replace the word at a place, or repeat the bytes there; 0 times removes them."""
    for place, change in edits:
        begin = place % (len(data) + 1)
        if isinstance(change, bytes):
            begin, end = _word(data, begin)
            data = data[:begin] + change + data[end:]
        else:
            length, times = change
            end = begin + max(1, length // times) if times > 2 else begin + length
            data = data[:begin] + data[begin:end] * times + data[end:]
    return data


def _word(data: bytes, at: int) -> tuple[int, int]:
    begin = end = at
    while begin and data[begin - 1] not in MARKS:
        begin -= 1
    while end < len(data) and data[end] not in MARKS:
        end += 1
    return begin, end


def _read(target: Target, data: bytes) -> None:
    from workbench.core.errors import Unusable, WorkbenchError

    try:
        with _watched():
            target.read(data)
    except (WorkbenchError, Unusable) as error:
        if len(str(error)) > LONGEST_MESSAGE:
            raise FaultError("a message of more than 4000 characters") from error


def _place(error: Exception) -> str:
    """Return the kind of the exception and the last function of ours that it came through."""
    kind = str(error)[:60] if isinstance(error, FaultError) else type(error).__name__
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/workbench/" in frame.filename]
    if not ours:
        return f"{kind}: {str(error)[:200]}"
    return f"{kind} in {Path(ours[-1].filename).name}, {ours[-1].name}"


_reading: list[bool] = []


@contextmanager
def _watched() -> Iterator[None]:
    _watch()
    _reading.append(True)
    try:
        yield
    finally:
        _reading.pop()


@cache
def _watch() -> None:
    """Install the audit hook, once: it cannot be removed."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if _reading and event in FORBIDDEN:
            raise ForbiddenError(f"{event} {arguments}")

    sys.addaudithook(hook)
