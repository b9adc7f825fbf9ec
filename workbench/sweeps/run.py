"""Run a sweep: a loop over `resolve`, here, in processes, or on any executor such as Dask's."""

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core.errors import shown
from workbench.sweeps.row import Numbers, Resolver, Row, Verdict
from workbench.sweeps.space import Space
from workbench.sweeps.table import SweepTable, column, empty_table

HERE_POINTS = 10_000
"""With more points than that, processes save more time than they take to start."""
CHUNK_HERE, CHUNK_AWAY = 256, 2048
"""Points between two looks at `stop`, and points that another process gets at once."""
IN_FLIGHT = 256
"""Chunks that are sent ahead: more would only take memory."""
Stop = Event | Callable[[], bool] | None
Progress = Callable[[int, int], None]
"""(points that are done, points in all)."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive points: the columns of `SweepTable`, with verdicts of its own."""

    start: int
    verdicts: tuple[Verdict, ...]
    verdict: npt.NDArray[np.int32]
    numbers: dict[str, npt.NDArray[Any]]
    identity: npt.NDArray[np.int64]


def evaluate(
    space: Space,
    prompt_tokens: int,
    *,
    stop: Stop = None,
    progress: Progress | None = None,
    earlier: SweepTable | None = None,
    executor: Executor | None = None,
) -> SweepTable:
    """Return the table of a space. prompt_tokens: of the request whose waste is reported.

    stop: may be set from another thread; the table then has the points that were done by then.
    progress: called in this thread. earlier: the table of the same space that was stopped before;
    only what is missing is resolved. executor: where points are resolved, such as Dask's
    `Client.get_executor()`; without one here, or in processes if there are many.
    Errors: ValueError for a prompt below one token, and for the table of another space.
    """
    if prompt_tokens < 1:
        raise ValueError(f"prompt_tokens must be at least 1; got {shown(prompt_tokens)}.")
    if earlier is not None and earlier.space != space:
        raise ValueError("The earlier table is of another sweep: its models or axes differ.")
    table = empty_table(space) if earlier is None else earlier.copied()
    missing = np.flatnonzero(table.is_missing)
    done = space.size - len(missing)
    verdicts = {verdict: at for at, verdict in enumerate(table.verdicts)}
    with _place(executor, len(missing)) as place:
        is_stopped = stop.is_set if isinstance(stop, Event) else stop or (lambda: False)
        for chunk in _chunks(place, space, prompt_tokens, missing, is_stopped):
            _write(table, verdicts, chunk)
            done += len(chunk.verdict)
            if progress is not None:
                progress(done, space.size)
    return replace(table, verdicts=tuple(verdicts))


def _write(table: SweepTable, verdicts: dict[Verdict, int], chunk: Chunk) -> None:
    """Copy a chunk into the arrays of a table."""
    points = slice(chunk.start, chunk.start + len(chunk.verdict))
    places = [verdicts.setdefault(verdict, len(verdicts)) for verdict in chunk.verdicts]
    table.verdict[points] = np.array(places, dtype=np.int32)[chunk.verdict]
    table.identity[points] = chunk.identity
    for name, values in chunk.numbers.items():
        table.numbers[name][points] = values


def resolve_points(space: Space, prompt_tokens: int, start: int, stop: int) -> Chunk:
    """Resolve consecutive points, one after the other."""
    resolver = Resolver(prompt_tokens, tuple(space.axes))
    per_model = space.size // len(space.models)
    verdicts: dict[Verdict, int] = {}
    places, rows, identities = [], [], []
    for index, (model, settings) in enumerate(space.points(start, stop), start):
        code = space.illegal_code(settings)
        row = resolver.row(model, settings) if code is None else Row(Verdict(code), Numbers())
        places.append(verdicts.setdefault(row.verdict, len(verdicts)))
        rows.append(row.numbers)
        identities.append(hash((index // per_model, row.identity)))
    columns = zip(Numbers._fields, zip(*rows, strict=True), strict=True)
    return Chunk(
        start,
        tuple(verdicts),
        np.array(places, dtype=np.int32),
        {name: column(name, values) for name, values in columns},
        np.array(identities, dtype=np.int64),
    )


def _chunks(
    place: Executor | None,
    space: Space,
    prompt_tokens: int,
    missing: npt.NDArray[np.intp],
    is_stopped: Callable[[], bool],
) -> Iterator[Chunk]:
    """Yield the missing points until it is stopped, in any order."""
    if place is None:
        yield from _here(space, prompt_tokens, _ranges(missing, CHUNK_HERE), is_stopped)
        return
    waiting = deque(_ranges(missing, CHUNK_AWAY))
    running: dict[Future[Chunk], tuple[int, int]] = {}
    try:
        while (waiting or running) and not is_stopped():
            while waiting and len(running) < IN_FLIGHT:
                points = waiting.popleft()
                running[place.submit(resolve_points, space, prompt_tokens, *points)] = points
            for future in wait(running, timeout=0.2, return_when=FIRST_COMPLETED).done:
                yield future.result()
                del running[future]
    except (BrokenExecutor, CancelledError):  # a process or the cluster is gone: the rest here
        left = [*running.values(), *waiting]
        yield from _here(space, prompt_tokens, left, is_stopped)
    finally:
        for future in running:
            future.cancel()


def _here(
    space: Space,
    prompt_tokens: int,
    ranges: Sequence[tuple[int, int]],
    is_stopped: Callable[[], bool],
) -> Iterator[Chunk]:
    for start, stop in ranges:
        if is_stopped():
            return
        yield resolve_points(space, prompt_tokens, start, stop)


def _ranges(points: npt.NDArray[np.intp], longest: int) -> list[tuple[int, int]]:
    """Return ascending points as ranges (start, stop) of at most `longest` points."""
    found = []
    for run in np.split(points, np.flatnonzero(np.diff(points) != 1) + 1):
        if len(run):
            start, stop = int(run[0]), int(run[-1]) + 1
            found += [(at, min(at + longest, stop)) for at in range(start, stop, longest)]
    return found


def _place(executor: Executor | None, points: int) -> AbstractContextManager[Executor | None]:
    """Return where points are resolved; None: here.

    Processes are forked where that is safe (one thread, Linux): a script needs no main guard then.
    """
    cores = _cores()
    if executor is not None or points <= HERE_POINTS or cores < 2:
        return nullcontext(executor)
    forks = sys.platform == "linux" and threading.active_count() == 1
    context = multiprocessing.get_context("fork" if forks else "spawn")
    return ProcessPoolExecutor(cores, context, initializer=_belong_to_a_sweep)


def _belong_to_a_sweep() -> None:
    """Leave Ctrl-C to the process that runs the sweep, and end with it.

    A process of a pool would wait for ever for work after that one was killed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_sweep, daemon=True).start()


def _end_with_the_sweep() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None  # runs in a process of a pool only
    parent.join()
    os._exit(1)


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
