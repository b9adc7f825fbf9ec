"""Measure a kernel's settings into one results file: `wb.measure("flex", "results.db").run()`."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from workbench.sweeps.kernels.execute import Progress, Sweep
from workbench.sweeps.kernels.kernel_session import KernelWinners, kernel_named
from workbench.sweeps.kernels.place import Place, here
from workbench.sweeps.store import ResultStore, Row


class Measurement:
    """A sweep of one kernel's settings on this machine. What the file has is not measured again.

    kernel: "flex" or "block-table". results: path of a SQLite file. configurations: only the first
    so many. `run` here, or `start` in a thread and `stop`, as often as needed; `close` (or `with`)
    ends the processes that measure. Without a GPU the kernel is interpreted, checked, and not
    timed. Errors: ValueError for an unknown kernel.

    >>> with wb.measure("block-table", tmp_path / "results.db", configurations=1) as sweep:
    ...     sweep.chosen.configs[0]["num_warps"]
    4
    """

    def __init__(
        self,
        kernel: str,
        results: str | Path,
        *,
        configurations: int | None = None,
        bitwise: bool = False,
        place: Place | None = None,
    ) -> None:
        self.kernel = kernel_named(kernel)
        self.place = place or here()
        chosen = self.kernel.chosen(self.place, bitwise=bitwise)
        self.chosen = chosen.first(configurations) if configurations else chosen
        self._store = ResultStore(Path(results))
        self._sweep = self._new_sweep()

    def _new_sweep(self) -> Sweep:
        return self.kernel.sweep(self._store, self.chosen, place=self.place)

    @property
    def progress(self) -> Progress:
        """Return how many points are done, how many of them were in the file, and the total."""
        return self._sweep.progress

    def run(self) -> Progress:
        """Measure what the file lacks. Errors: LaneLostError when no process is left."""
        self._sweep = self._new_sweep()
        return self._sweep.run()

    def start(self) -> None:
        """Begin to measure in a thread."""
        self._sweep = self._new_sweep()
        self._sweep.start()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the thread; return whether it has ended."""
        return self._sweep.join(timeout_s)

    def stop(self) -> bool:
        """Stop before the next point, and keep every row; return whether the thread has ended."""
        return self._sweep.stop()

    @property
    def rows(self) -> tuple[Row, ...]:
        """Return every row of this kernel in the file, also of other devices and versions."""
        return self.kernel.rows(self._store)

    @property
    def winners(self) -> tuple[KernelWinners, ...]:
        """Return the best setting per device and kernel version; nothing without any times."""
        return self.kernel.winners(self.rows)

    def close(self) -> None:
        """End the processes that measure, and close the file."""
        self.place.close()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        done, total = self.progress.done, self.progress.total
        settings = f"{len(self.chosen.configs)} settings, {len(self.chosen.batches)} batches"
        return f"{self.kernel.title} on {self.place.device}: {settings}; {done} of {total} done"

    def _repr_html_(self) -> str:
        from workbench.views.sweeps.progress import measured_html

        return measured_html([row.to_dict() for row in self.rows], ("bucket", *self.kernel.fields))
