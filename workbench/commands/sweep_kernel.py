"""`workbench sweep --kernel`: measure what is missing, and print rows as they arrive."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from workbench.commands.options import INCOMPLETE, ended_in_order, fail
from workbench.extras import require

if TYPE_CHECKING:
    from workbench.sweeps.kernels.kernel_session import SweptKernel
    from workbench.sweeps.kernels.place import Place
    from workbench.sweeps.store import ResultStore, Row


@dataclass(frozen=True, slots=True)
class KernelSweep:
    """A kernel by name, the file of its results, and how they are printed."""

    name: str
    results: Path
    bitwise: bool
    as_json: bool

    def run(
        self, *, replay: bool, dask: str | None, dask_workers: int | None, limit: int | None
    ) -> None:
        """Measure, or print stored rows; then print the winners."""
        if replay and dask:
            fail("--replay does not measure and cannot be combined with --dask.")
        require(*(["distributed"] if dask else []), *([] if replay else ["torch", "triton"]))
        from workbench.sweeps.kernels.cluster import cluster
        from workbench.sweeps.kernels.kernel_session import kernel_named
        from workbench.sweeps.kernels.place import here
        from workbench.sweeps.store import ResultStore

        try:
            kernel = kernel_named(self.name)
        except ValueError as error:
            fail(str(error))
        if self.bitwise and kernel.one_for_all:
            fail(
                f"--bitwise applies to flex only; {kernel.name} "
                "always has one configuration for all batches."
            )
        with ResultStore(self.results, read_only=replay) as store:
            shown = list(store.notes)
            _print_notes(shown)
            elsewhere = 0
            if replay:
                for row in kernel.rows(store):
                    self._print_row(kernel, row)
            elif store.read_only:
                fail(f"{self.results} is read-only. Use --replay to print its rows.")
            else:
                if dask_workers:
                    waiting = f"Waiting until {dask_workers} workers have joined {dask}"
                    typer.echo(waiting, err=True)
                at = cluster(dask, dask_workers) if dask else here()
                elsewhere = self._measure(store, kernel, at, limit)
            rows = kernel.rows(store)
            _print_notes(store.notes[len(shown) :])
        for line in standings(kernel, rows, bitwise=self.bitwise):
            typer.echo(line, err=self.as_json)
        if elsewhere:
            typer.echo(
                f"Incomplete: another session measures {elsewhere} points. Run the same command "
                "again when it has ended.",
                err=True,
            )
            raise typer.Exit(INCOMPLETE)

    def _measure(
        self, store: ResultStore, kernel: SweptKernel, at: Place, limit: int | None
    ) -> int:
        """Measure what is missing; return how many points another session has claimed."""
        from workbench.sweeps.kernels.lanes import LaneLostError
        from workbench.views.sweeps.progress import progress_text

        try:
            with ended_in_order("Paused. Run the same command to resume."), at as place:
                count = len(place.lanes)
                typer.echo(f"Measuring on {place.device}, {count} at a time", err=True)
                chosen = kernel.chosen(place, bitwise=self.bitwise, first=limit)
                typer.echo(chosen.skipped_text, err=True)
                on_row = partial(self._print_row, kernel)
                sweep = kernel.sweep(store, chosen, place=place, on_row=on_row)
                sweep.run()
        except LaneLostError as error:
            fail(f"{error} Run the same command to resume.")
        done = sweep.progress
        summary = progress_text(
            done.done, done.total, done.per_second, done.remaining_s, done.failed
        )
        resumed = f"; {done.resumed} were stored already" if done.resumed else ""
        typer.echo(f"{summary}{resumed}", err=True)
        return done.elsewhere

    def _print_row(self, kernel: SweptKernel, row: Row) -> None:
        if self.as_json:
            typer.echo(json.dumps(row.to_dict()))
            return
        config = row.key.config_values
        named = " ".join(f"{name}={config[name]}" for name in kernel.fields if name in config)
        typer.echo(
            f"{time_text(row)}  {row.status:13} {config['bucket']:18} {named} {row.message[:80]}"
        )


def _print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        typer.echo(note, err=True)


def time_text(row: Row) -> str:
    """Return the median in microseconds, or that there is no time."""
    return "no time    " if row.median_s is None else f"{1e6 * row.median_s:8.1f} us"


def standings(kernel: SweptKernel, rows: Iterable[Row], *, bitwise: bool = False) -> list[str]:
    """Return lines about the winners, one paragraph per device and version."""
    from workbench.views.sweeps.progress import winners_rows

    lines = []
    for one in kernel.winners(rows, bitwise=bitwise):
        lines.append(f"Winners of {kernel.name} on {one.device}, kernel {one.kernel_hash}:")
        best = {bucket: asdict(found) for bucket, found in one.winners.items()}
        for buckets, time, *values, ties in winners_rows(best, kernel.fields):
            pairs = zip(kernel.fields, values, strict=True)
            named = " ".join(f"{name}={value}" for name, value in pairs)
            lines.append(f"  {time}  {named}  ({ties}) on {buckets}")
    return lines
