"""Launch a learner's kernel on a case: its result, every access in the interpreter, or a fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from workbench.exercises.grade import own_line
from workbench.exercises.kernels.case import KernelCase, Place
from workbench.exercises.kernels.memory import CaseMemory, Entry
from workbench.kernels.block_table.traffic import Access, OutOfBounds, counted_traffic
from workbench.kernels.mode import triton_mode

Touched = Mapping[tuple[str, str, int, int], tuple[int, ...]]
"""("load" or "store", array, row, column) -> the programs that did it, each once, in order."""


class Fault(NamedTuple):
    """Why a launch ended early."""

    summary: str
    rows: tuple[tuple[str, str], ...]
    entry: Entry | None = None
    """Where an array was left; None for other errors."""
    by: str = ""
    """"r" or "w", and the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What one launch did."""

    case: KernelCase
    result: list[list[int]]
    touched: Touched = field(default_factory=dict)
    """Every entry that was read or written; empty on a GPU, which does not report it."""
    fault: Fault | None = None
    is_watched: bool = False
    """Whether accesses were recorded."""

    def programs(self, kind: str, array: str, place: Place) -> tuple[int, ...]:
        """Return the programs that read ("load") or wrote ("store") an entry, each once."""
        return self.touched.get((kind, array, *place), ())

    def writers(self, place: Place) -> tuple[int, ...]:
        """Return the programs that wrote an entry of the output, each once."""
        return self.programs("store", self.case.output, place)


def launch(kernel: Any, case: KernelCase) -> Launch:
    """Run a kernel on fresh memory; whatever it raises becomes the launch's fault."""
    memory = CaseMemory(case)
    accesses: list[Access] = []
    fault = None
    watched = triton_mode().mode == "interpreter"
    try:
        with _watched(memory, accesses) if watched else _plain():
            kernel[(case.programs,)](**memory.tensors, **case.numbers)
        result = memory.result()
    except OutOfBounds as error:
        fault, result = _left(error, kernel, memory), memory.result()
    except Exception as error:  # noqa: BLE001  (shown to the learner, whatever it is)
        fault, result = _failed(error, kernel), []
    if fault is None and (stray := memory.stray_store()) is not None:
        fault = _stray(stray, case)
    return Launch(
        case=case,
        result=result,
        touched=_touched(accesses, memory),
        fault=fault,
        is_watched=watched,
    )


@contextmanager
def _watched(memory: CaseMemory, accesses: list[Access]) -> Iterator[None]:
    with counted_traffic(memory.allowed(), accesses):
        yield


@contextmanager
def _plain() -> Iterator[None]:
    yield


def _touched(accesses: list[Access], memory: CaseMemory) -> Touched:
    found: dict[tuple[str, str, int, int], dict[int, None]] = {}
    for access in accesses:
        for address in access.addresses.tolist():
            entry = memory.locate(address)
            assert entry is not None, "a checked access is inside of an array"
            key = (access.kind, entry.array, entry.row, entry.column)
            found.setdefault(key, {})[access.program] = None
    return {key: tuple(programs) for key, programs in found.items()}


def _left(error: OutOfBounds, kernel: Any, memory: CaseMemory) -> Fault:
    verb = "read" if error.access == "load" else "write"
    entry = memory.locate(error.address)
    rows = [("program", f"{error.program}, of {memory.case.programs}")]
    if entry is None:
        rows.append(("element", "an address that is far from every array: was it computed right?"))
    else:
        array = memory.case.arrays[entry.array]
        named = array.name_of(entry.array, entry.row, entry.column)
        rows.append(("element", f"{named}, {entry.where}"))
    rows += own_line(error, kernel)
    summary = f"A program is about to {verb} memory that does not belong to the array."
    return Fault(summary, tuple(rows), entry, f"{verb[0]}{error.program}")


def _stray(entry: Entry, case: KernelCase) -> Fault:
    """Return the fault of a store that a fence found afterwards."""
    named = case.arrays[entry.array].name_of(entry.array, entry.row, entry.column)
    place = entry.where or "which is an input"
    rows = (("element", f"{named}, {place}"),)
    return Fault("A program wrote memory that is not part of the output.", rows, entry, "w")


def _failed(error: Exception, kernel: Any) -> Fault:
    cause: BaseException = error
    # the interpreter wraps what a kernel raises
    while type(cause).__name__ in {"InterpreterError", "CompilationError"} and cause.__cause__:
        cause = cause.__cause__
    lines = str(cause).strip().splitlines() or [""]
    rows = [("got", f"{type(cause).__name__}: {lines[-1][:300]}"), *own_line(cause, kernel)]
    if "CUDA" in str(cause):
        rows.append(("next", "The GPU cannot be used any more in this process: restart the kernel"))
    return Fault("The kernel does not run to its end.", tuple(rows))
