"""What a sweep comes to: one entry a point in every column, and which points are worth a look."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core.problems import ERROR
from workbench.run.sweeps.space import Space

Bools = npt.NDArray[np.bool_]
MISSING = -2
GPUS = "tensor_parallel"
"""The setting that says how many GPUs a point takes."""
PER_GPU = "concurrency_per_gpu"
"""Requests that fit, divided by the GPUs that hold them."""


@dataclass(frozen=True)
class SweepTable:
    """The points of a space in order; every array has one entry a point.

    Sizes in tokens, bytes and blocks per rank; -1 or NaN where a point has none, and everywhere
    where `refused_by` tells a code (-1: not refused; MISSING: the sweep was stopped before).
    page_size_bytes: of the states where the model has any, padded, else of the attention.
    problem_bits: bit -> (code, severity) of `problems`. is_copy: an earlier point decides
    everything in the same way.
    """

    space: Space
    refused_by: npt.NDArray[np.int16]
    codes: tuple[str, ...]
    problem_bits: npt.NDArray[np.int64]
    problems: tuple[tuple[str, str], ...]
    backend: npt.NDArray[np.int16]
    backends: tuple[str | None, ...]
    block_size: npt.NDArray[np.int64]
    kernel_block_size: npt.NDArray[np.int64]
    page_size_bytes: npt.NDArray[np.int64]
    num_blocks: npt.NDArray[np.int64]
    max_concurrency: npt.NDArray[np.float64]
    smallest_prefix_tokens: npt.NDArray[np.int64]
    waste_share: npt.NDArray[np.float64]
    is_copy: Bools
    evaluations: int

    def __len__(self) -> int:
        return self.space.size

    @property
    def is_missing(self) -> Bools:
        """Points that were not reached before the sweep was stopped."""
        return self.refused_by == MISSING

    @property
    def is_illegal(self) -> Bools:
        """Points that vLLM refuses, or does not start with."""
        errors = sum(
            1 << bit for bit, (_, severity) in enumerate(self.problems) if severity == ERROR
        )
        return (self.refused_by >= 0) | ((self.problem_bits & errors) != 0)

    @property
    def is_kept(self) -> Bools:
        """Points that start and that no earlier point equals."""
        return ~(self.is_illegal | self.is_copy | self.is_missing)

    @property
    def counts(self) -> dict[str, int]:
        """Points in all, illegal ones, further ones that equal an earlier one, and those kept.

        missing: not reached before the sweep was stopped.
        """
        illegal, missing = self.is_illegal, self.is_missing
        return {
            "points": len(self),
            "illegal": int(illegal.sum()),
            "identical": int((self.is_copy & ~(illegal | missing)).sum()),
            "kept": int((~(self.is_copy | illegal | missing)).sum()),
            "missing": int(missing.sum()),
        }

    @property
    def reasons(self) -> dict[str, int]:
        """Code -> how many points it makes illegal, most frequent first."""
        found = {
            code: int((self.refused_by == number).sum()) for number, code in enumerate(self.codes)
        }
        for bit, (code, severity) in enumerate(self.problems):
            if severity == ERROR:
                count = int(((self.problem_bits >> bit) & 1).sum())
                found[code] = found.get(code, 0) + count
        return dict(sorted(found.items(), key=lambda entry: -entry[1]))

    def gpus(self, points: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return how many GPUs each of these points takes: its tensor_parallel."""
        axes = tuple(self.space.axes)
        if GPUS not in axes:
            return np.full(len(points), getattr(self.space.settings, GPUS), dtype=np.int64)
        places = np.unravel_index(points, self.space.shape)[1 + axes.index(GPUS)]
        return np.array(self.space.axes[GPUS], dtype=np.int64)[places]

    def values(self, name: str, points: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return a column of numbers at these points; -1 or NaN where there is none."""
        if name == PER_GPU:
            return self.max_concurrency[points] / self.gpus(points)
        return np.asarray(getattr(self, name)[points])

    def has(self, name: str) -> Bools:
        """Points with a value in a column of numbers."""
        values = getattr(self, "max_concurrency" if name == PER_GPU else name)
        return (values != -1) & ~np.isnan(values)

    def row(self, index: int) -> dict[str, Any]:
        """One point by name: what it `sets`, and what follows; None where it has no such thing."""
        refused, nothing = int(self.refused_by[index]), self.refused_by[index] != -1
        told: dict[str, Any] = {"point": index, "sets": self.space.changes(index)}
        told["refused"] = self.codes[refused] if refused >= 0 else None
        told["problems"] = self.problems_of(index)
        for name in NUMBERS:
            value = self.values(name, np.array([index]))[0].item()
            told[name] = None if nothing or isnan(value) or value == -1 else value
        told["backend_used"] = None if nothing else self.backends[self.backend[index]]
        return told

    def problems_of(self, index: int) -> tuple[tuple[str, str], ...]:
        """(code, severity) of the problems of one point, errors first."""
        bits = int(self.problem_bits[index])
        found = [problem for bit, problem in enumerate(self.problems) if bits >> bit & 1]
        return tuple(sorted(found, key=lambda problem: (problem[1] != ERROR, problem[0])))


NUMBERS = (
    "block_size",
    "kernel_block_size",
    "page_size_bytes",
    "num_blocks",
    "max_concurrency",
    PER_GPU,
    "smallest_prefix_tokens",
    "waste_share",
)
"""The columns of numbers."""
