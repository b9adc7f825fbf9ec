"""`workbench sweep --kernel`: measure what is missing, and print rows as they arrive."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from workbench.commands.options import INTERRUPTED, fail

if TYPE_CHECKING:
    from collections.abc import Iterable

    from workbench.sweeps.kernels.kernel_session import SweptKernel
    from workbench.sweeps.kernels.place import Place
    from workbench.sweeps.store import ResultStore, Row


@dataclass(frozen=True, slots=True)
class KernelSweepRequest:
    """The options that go with a kernel."""

    results: Path
    bitwise: bool
    limit: int | None
    dask: str | None
    dask_workers: int | None
    replay: bool
    as_json: bool


def sweep_kernel(name: str, request: KernelSweepRequest) -> None:
    """Measure, or print stored rows; then print the winners."""
    from workbench.sweeps.kernels.kernel_session import kernel_named
    from workbench.sweeps.store import ResultStore, StoreError

    try:
        kernel = kernel_named(name)
    except ValueError as error:
        fail(str(error))
    _check_options(kernel, request)
    try:
        with ResultStore(request.results, read_only=request.replay) as store:
            for note in store.notes:
                typer.echo(note, err=True)
            if request.replay:
                for row in kernel.rows(store):
                    _print_row(row, kernel, request)
            elif store.read_only:
                fail(f"{request.results} is read-only. Use --replay to print its rows.")
            else:
                _measure(store, kernel, request)
            rows = kernel.rows(store)
    except StoreError as error:
        fail(str(error))
    for line in standings(kernel, rows, bitwise=request.bitwise):
        typer.echo(line, err=request.as_json)


def _check_options(kernel: SweptKernel, request: KernelSweepRequest) -> None:
    if request.replay and request.dask:
        fail("--replay does not measure and cannot be combined with --dask.")
    if request.dask_workers and not request.dask:
        fail("--dask-workers requires --dask with the address of a Dask scheduler.")
    if request.bitwise and kernel.one_for_all:
        fail(
            f"--bitwise applies to flex only; {kernel.name} "
            "always has one configuration for all batches."
        )


def _measure(store: ResultStore, kernel: SweptKernel, request: KernelSweepRequest) -> None:
    from workbench.sweeps.kernels.lanes import LaneLostError
    from workbench.views.sweeps.progress import progress_text

    try:
        with _place(request.dask, request.dask_workers) as place:
            count = len(place.lanes)
            typer.echo(f"Measuring on {place.device}, {count} at a time", err=True)
            chosen = kernel.chosen(place, bitwise=request.bitwise)
            typer.echo(chosen.skipped_text, err=True)
            if request.limit is not None:
                chosen = chosen.first(request.limit)
            on_row = partial(_print_row, kernel=kernel, request=request)
            sweep = kernel.sweep(store, chosen, place=place, on_row=on_row)
            sweep.run()
    except KeyboardInterrupt:
        typer.echo("Paused. Run the same command to resume.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except LaneLostError as error:
        fail(f"{error} Run the same command to resume.")
    at = sweep.progress
    summary = progress_text(at.done, at.total, at.per_second, at.remaining_s, at.failed)
    resumed = f"; {at.resumed} were stored already" if at.resumed else ""
    elsewhere = f"; {at.elsewhere} are measured by another session" if at.elsewhere else ""
    typer.echo(f"{summary}{resumed}{elsewhere}", err=True)


def _place(address: str | None, workers: int | None) -> Place:
    from workbench.sweeps.kernels.cluster import ClusterError, cluster
    from workbench.sweeps.kernels.place import here

    if workers:
        typer.echo(f"Waiting until {workers} workers have joined {address}", err=True)
    try:
        return cluster(address, workers) if address else here()
    except ClusterError as error:
        fail(str(error))


def _print_row(row: Row, kernel: SweptKernel, request: KernelSweepRequest) -> None:
    if request.as_json:
        typer.echo(json.dumps(row.to_dict()))
        return
    config = row.key.config_values
    named = " ".join(f"{name}={config[name]}" for name in kernel.fields if name in config)
    typer.echo(
        f"{time_text(row)}  {row.status:13} {config['bucket']:18} {named} {row.message[:80]}"
    )


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
