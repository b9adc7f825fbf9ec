"""Memory for one launch: every array between fences, every unused entry filled with garbage."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from workbench.exercises.compare import entries
from workbench.exercises.kernels.case import GARBAGE, UNWRITTEN, Array, KernelCase
from workbench.kernels.mode import triton_mode
from workbench.views.units import counted

FENCE = 4096
"""Entries before and after every array, so that a small slip meets garbage and no foreign data."""
DTYPES = {32: torch.int32, 64: torch.int64}


class Entry(NamedTuple):
    """An entry of an array, or of the memory around it."""

    array: str
    row: int
    column: int
    where: str
    """Words for a place outside of the rows; empty for an entry."""


class CaseMemory:
    """The tensors of a case, by parameter; `buffers` include the fences."""

    def __init__(self, case: KernelCase) -> None:
        self.case = case
        self.tensors: dict[str, torch.Tensor] = {}
        self.buffers: dict[str, torch.Tensor] = {}
        for name, array in case.arrays.items():
            values = _filled(array, is_output=name == case.output)
            self.buffers[name] = torch.tensor(
                values, dtype=DTYPES[array.bits], device=triton_mode().torch_device
            )
            self.tensors[name] = self.buffers[name][FENCE : len(values) - FENCE]
        self._before = {name: buffer.cpu().numpy() for name, buffer in self.buffers.items()}
        self._before = {name: values.copy() for name, values in self._before.items()}

    def allowed(self) -> list[torch.Tensor]:
        """Return every row of every array: the memory that a program may use."""
        return [
            self.tensors[name][start : start + len(row)]
            for name, array in self.case.arrays.items()
            for start, row in zip(_starts(array), array.rows, strict=True)
            if len(row)
        ]

    def result(self) -> list[list[int]]:
        """Return the rows of the output, as the launch left them."""
        array, found = self.case.arrays[self.case.output], self.tensors[self.case.output].cpu()
        return [
            found[start : start + len(row)].tolist()
            for start, row in zip(_starts(array), array.rows, strict=True)
        ]

    def stray_store(self) -> Entry | None:
        """Return the first entry that changed and does not belong to the output's rows."""
        for name, buffer in self.buffers.items():
            changed = np.flatnonzero(buffer.cpu().numpy() != self._before[name])
            for at in changed:
                entry = self._entry(name, int(at) - FENCE)
                if entry.where or name != self.case.output:
                    return entry
        return None

    def locate(self, address: int) -> Entry | None:
        """Return the entry at an address; None far from every array."""
        for name, buffer in self.buffers.items():
            offset = address - buffer.data_ptr()
            if 0 <= offset < buffer.numel() * buffer.element_size():
                return self._entry(name, offset // buffer.element_size() - FENCE)
        return None

    def _entry(self, name: str, at: int) -> Entry:
        array = self.case.arrays[name]
        stride = array.stride or max(len(array.rows[0]), 1)
        row, column = divmod(at, stride)
        if at < 0:
            return Entry(name, row, at, "before its first entry")
        if array.stride is None:
            length = len(array.rows[0])
            place = f"past its end: it has {entries(length)}"
            return Entry(name, 0, at, place if at >= length else "")
        if row >= len(array.rows):
            place = f"past its end: it has {counted(len(array.rows), 'row')}"
            return Entry(name, row, column, place)
        length = len(array.rows[row])
        place = f"past the end of row {row}: it has {entries(length)}"
        return Entry(name, row, column, place if column >= length else "")


def _starts(array: Array) -> range:
    stride = array.stride or max(len(array.rows[0]), 1)
    return range(0, stride * len(array.rows), stride)


def _filled(array: Array, *, is_output: bool) -> np.ndarray:
    """Return the array between its fences; other garbage in every entry, to tell them apart."""
    starts = _starts(array)
    values = GARBAGE - np.arange(2 * FENCE + len(array.rows) * starts.step, dtype=np.int64) % 9973
    for start, row in zip(starts, array.rows, strict=True):
        for column, value in enumerate(row):
            if is_output:
                values[FENCE + start + column] = UNWRITTEN
            elif value is not None:
                values[FENCE + start + column] = value
    return values
