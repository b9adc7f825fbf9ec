"""Kernel sweeps ready to start: on GPUs here or of a cluster, or small in the interpreter.

`wb.measure("flex", "results.db").run()` measures a kernel's settings into one results file.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

from workbench.core.arithmetic import LARGEST_INT32
from workbench.core.errors import ScenarioError, check_integer, shown
from workbench.sweeps.kernels import flex, tables
from workbench.sweeps.kernels.execute import Progress, Sweep
from workbench.sweeps.kernels.fitting import Candidates
from workbench.sweeps.kernels.place import Place, here
from workbench.sweeps.kernels.winners import Winner, keys, winner, winners
from workbench.sweeps.store import ResultStore, Row

EVERY = "all batches together"
"""Bucket of the best single configuration, by geometric mean over all buckets."""


@dataclass(frozen=True, slots=True)
class KernelWinners:
    """Bucket -> its winner, for one device and version of a kernel; EVERY is a bucket, too."""

    device: str
    kernel_hash: str
    winners: Mapping[str, Winner]


@dataclass(frozen=True, slots=True)
class SweptKernel:
    """A kernel that sweeps know."""

    name: str
    title: str
    fields: tuple[str, ...]
    """What is chosen for it, in the order of a table."""
    one_for_all: bool
    """A program picks its configuration once, so one has to win over all batches; otherwise only in
    bitwise mode."""
    measure: str
    choose: Callable[[str | None, bool, int | None], Candidates]
    hash_of: Callable[[], str]
    point: Mapping[str, type]
    """What its rows have in their keys; a row without it is of another program, or forged."""

    def chosen(
        self, place: Place, *, bitwise: bool = False, first: int | None = None
    ) -> Candidates:
        """Return what is worth measuring at a place; first: only so many configurations of it.

        For a GPU this compiles, everything for a minute or more; the GPU need not be here.
        """
        return self.choose(place.target, bitwise, first)

    def sweep(
        self,
        store: ResultStore,
        chosen: Candidates,
        place: Place,
        on_row: Callable[[Row], None] | None = None,
    ) -> Sweep:
        """Return the sweep over these at a place."""
        wanted = keys(self.name, chosen.configs, chosen.batches, place.device, self.hash_of())
        return Sweep(store, wanted, self.measure, place.lanes, on_row=on_row)

    def rows(self, store: ResultStore) -> tuple[Row, ...]:
        """Return what a store holds of this kernel, whichever device and version."""
        return tuple(filter(self.has_measured, store.rows()))

    def has_measured(self, row: Row) -> bool:
        """Return whether a row is of this kernel, with everything that its keys have."""
        config = row.key.config_values
        kinds = {"shared_bytes": int, **self.point} if "shared_bytes" in config else self.point
        is_point = all(type(config.get(name)) is kind for name, kind in kinds.items())
        return is_point and config.get("kernel") == self.name

    def winners(self, rows: Iterable[Row], *, bitwise: bool = False) -> tuple[KernelWinners, ...]:
        """Return the winners per device and version of the kernel; nothing without any times."""
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            mode = row.key.config_values.get("bitwise", bitwise)
            if mode == bitwise:
                groups.setdefault((row.key.device, row.key.kernel_hash), []).append(row)
        found = []
        for (device, version), own in sorted(groups.items()):
            buckets = tuple(dict.fromkeys(row.key.config_values["bucket"] for row in own))
            best = winners(own, buckets, bitwise=bitwise or self.one_for_all)
            if best and not (bitwise or self.one_for_all):
                one = winner(own, buckets)
                best |= {} if one is None else {EVERY: one}
            if best:
                found.append(KernelWinners(device, version, best))
        return tuple(found)


def _kinds(axes: Mapping[str, tuple[Any, ...]], *values: Mapping[str, Any]) -> dict[str, type]:
    """Return name -> type of the fields of a key, from examples."""
    examples = {"bucket": ""} | {name: tried[0] for name, tried in axes.items()}
    for more in values:
        examples |= more
    return {name: type(value) for name, value in examples.items()}


KERNELS: Mapping[str, SweptKernel] = {
    kernel.name: kernel
    for kernel in (
        SweptKernel(
            "flex",
            title="paged flex attention",
            fields=tuple(flex.AXES),
            one_for_all=False,
            measure="workbench.sweeps.kernels.flex:measure",
            choose=flex.candidates,
            hash_of=flex.kernel_hash,
            point=_kinds(flex.AXES, flex.MODEL, flex.BATCHES[0].fields, {"bitwise": False}),
        ),
        SweptKernel(
            "block-table",
            title="block tables, fast path",
            fields=tuple(tables.AXES),
            one_for_all=True,
            measure="workbench.sweeps.kernels.tables:measure",
            choose=tables.candidates,
            hash_of=tables.kernel_hash,
            point=_kinds(tables.AXES, {"reduced": False}),
        ),
    )
}
"""Name -> kernel."""


def kernel_named(name: str) -> SweptKernel:
    """Return the kernel of this name. Errors: ValueError with the names that there are."""
    if isinstance(name, str) and name in KERNELS:
        return KERNELS[name]
    near = get_close_matches(str(name), KERNELS, 1)
    hint = f" Nearest: {near[0]}." if near else ""
    raise ValueError(f"No kernel {shown(name)} is swept.{hint} Kernels: {', '.join(KERNELS)}.")


def _refused(message: str) -> ScenarioError:
    return ScenarioError("not_measured", message)


class Measurement:
    """A sweep of one kernel's settings on this machine. What the file has is not measured again.

    kernel: "flex" or "block-table". results: path of a SQLite file. configurations: only the first
    so many. `run` here, or `start` in a thread and `stop`, as often as needed; `close` (or `with`)
    ends the processes that measure. Without a GPU the kernel is interpreted, checked, and not
    timed. Errors: ValueError for an unknown kernel, ScenarioError for other arguments and after
    `close`. A script needs `if __name__ == "__main__":` around it, as around all that starts
    processes.

    >>> with wb.measure("block-table", "results.db", configurations=1) as sweep:
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
        if configurations is not None:
            check_integer("configurations", configurations, 1, LARGEST_INT32, "the largest number")
        if bitwise and self.kernel.one_for_all:
            raise _refused(f"bitwise is of flex alone: {kernel} always has one setting for all.")
        if not isinstance(results, str | Path):
            raise _refused(f"Invalid results file {shown(results)}. Expected a path.")
        if place is not None and not isinstance(place, Place):
            raise _refused(f"Invalid place {shown(place)}. Expected a Place, or None: here.")
        self.place = place or here()
        self.chosen = self.kernel.chosen(self.place, bitwise=bitwise, first=configurations)
        self._store = ResultStore(Path(results))
        self._is_closed = False
        self._sweep = self._new_sweep()

    def _new_sweep(self) -> Sweep:
        self._check_open()
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
        self._check_open()
        return self.kernel.rows(self._store)

    @property
    def winners(self) -> tuple[KernelWinners, ...]:
        """Return the best setting per device and kernel version; nothing without any times."""
        return self.kernel.winners(self.rows)

    def close(self) -> None:
        """End the processes that measure, and close the file."""
        self._is_closed = True
        self.place.close()
        self._store.close()

    def _check_open(self) -> None:
        if self._is_closed:
            file = self._store.path
            raise _refused(f"This measurement is closed. Its rows are in {file}: open it again.")

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
