"""Inside the kernel: stop a cell whose output floods, at its source.

What a kernel prints or displays is buffered there, sent, stored in the notebook and turned into a
page: each holds it once more. Standard library only, as the guard.
"""

import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType
from typing import Any

_SHOWN = {"display_data", "update_display_data", "execute_result", "comm_open", "comm_msg"}
_OF_ERRORS = {"error", "execute_reply"}
_OF_CELLS = "ipykernel_"
"""Part of the name of the file that a cell pretends to be."""
_STOP = getattr(signal, "SIGURG", None)
"""Interrupts a cell, and nothing but a cell: a late SIGINT would end ipykernel's reply, for which
a run then waits. Python on Windows has no such signal; the time limit ends the cell there."""
_SIGNALS, _BETWEEN_SIGNALS_S = 20, 0.5
_LINE_BYTES = 10
"""What a notebook adds to each line of a stream, which it stores as text of its own."""
_LONGEST_ERROR = 20_000
"""Characters of each line of an error whose message is as long as an output may be."""


class OutputLimitError(RuntimeError):
    """Raised when code prints or displays more than a notebook may; nothing more is shown."""


class OutputLimit:
    """Counts what all cells print and display; what is past the limit is refused.

    record: called once, with the error.
    """

    def __init__(self, most_bytes: int, record: Callable[[BaseException], None]) -> None:
        self._most = self._left = most_bytes
        self._record = record
        self._lock = threading.Lock()

    def install(self, session: Any) -> None:
        """Count the streams of this kernel, and what its session sends."""
        for stream in (sys.stdout, sys.stderr):
            stream.write = partial(self._write, stream.write)  # type: ignore[method-assign]
        session.send = partial(self._send, session.send)
        if _STOP is not None:
            signal.signal(_STOP, _interrupt_cell)

    def _write(self, write: Callable[..., int], text: str) -> int:
        self.take(len(text) + _LINE_BYTES * text.count("\n"))
        return write(text)

    def _send(
        self,
        send: Callable[..., Any],
        stream: Any,
        message: Any,
        content: Any = None,
        *rest: Any,
        **more: Any,
    ) -> Any:
        is_whole = isinstance(message, Mapping)
        kind = message["header"]["msg_type"] if is_whole else message
        shown = message["content"] if is_whole else content
        if kind in _SHOWN:
            self.take(size_of(shown) + size_of(more.get("buffers")))
        elif kind in _OF_ERRORS and not is_whole and size_of(shown) > self._most:
            content = _cut(shown)
        return send(stream, message, content, *rest, **more)

    def take(self, size: int) -> None:
        """Count so many characters more. Errors: OutputLimitError past the limit."""
        with self._lock:
            first = self._left >= 0
            self._left -= size
            if self._left >= 0:
                return
        most = f"{self._most / 2**20:,.0f} MiB"
        error = OutputLimitError(f"more than {most} of output: show less, or write it to a file")
        if first:
            self._record(error)
            main = threading.main_thread()
            if threading.current_thread() is not main and _STOP is not None:
                # The cell waits for what floods: another thread, or a program that writes here.
                threading.Thread(target=_interrupt, args=(main.ident, _STOP), daemon=True).start()
        raise error


def _interrupt(thread: int, number: int) -> None:
    """Interrupt a thread until it runs no cell any more."""
    # A signal that comes right before a wait for a lock does not end that wait.
    for _ in range(_SIGNALS):
        signal.pthread_kill(thread, number)
        time.sleep(_BETWEEN_SIGNALS_S)
        if not _is_of_a_cell(sys._current_frames().get(thread)):  # noqa: SLF001  (no other way)
            return


def _interrupt_cell(_number: int, frame: FrameType | None) -> None:
    """Do what SIGINT does, unless the cell has ended meanwhile."""
    handler = signal.getsignal(signal.SIGINT)
    # The handler that ipykernel sets for a cell with `await` ends nothing but that cell.
    if callable(handler) and (handler is not signal.default_int_handler or _is_of_a_cell(frame)):
        handler(signal.SIGINT, frame)


def _is_of_a_cell(frame: FrameType | None) -> bool:
    while frame is not None:
        if _OF_CELLS in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def size_of(value: object) -> int:
    """Return characters and bytes in a value of any depth."""
    if isinstance(value, str | bytes | bytearray):
        return len(value)
    if isinstance(value, memoryview):
        return value.nbytes
    if isinstance(value, Mapping):
        return sum(map(size_of, value)) + sum(map(size_of, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(size_of, value))
    return 1


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_LONGEST_ERROR]
    if isinstance(value, Mapping):
        return {name: _cut(one) for name, one in value.items()}
    return [_cut(one) for one in value] if isinstance(value, list | tuple) else value
