"""The command `workbench sweep`."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands.options import INTERRUPTED, fail

if TYPE_CHECKING:
    from workbench.sweeps.sweep import SweepResult

SHOWN = 20
RESULTS = Path("results.db")


def sweep(
    model: Annotated[str | None, typer.Argument(help="Catalog name, path, or hub id.")] = None,
    axis: Annotated[
        list[str] | None,
        typer.Option("--axis", "-a", help="A field to vary, e.g. tensor_parallel=1,2,4."),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="A fixed field: field=value.")
    ] = None,
    prompt_tokens: Annotated[
        int, typer.Option(min=1, help="Prompt length used to report waste.")
    ] = 4096,
    front: Annotated[
        bool, typer.Option("--front", help="Only points on the Pareto front per GPU.")
    ] = False,
    output: Annotated[
        str, typer.Option("--format", help="text, jsonl (one point per line), or csv.")
    ] = "text",
    why: Annotated[
        int | None,
        typer.Option(help="Number of a point to compare with the scenario, with reasons."),
    ] = None,
    serve_params: Annotated[
        Path | None,
        typer.Option(help="Write the Pareto front as a file for `vllm bench sweep serve`."),
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(help="Measure a kernel instead: flex or block-table.")
    ] = None,
    results: Annotated[
        Path, typer.Option(help="With --kernel: the results file; existing results are reused.")
    ] = RESULTS,
    bitwise: Annotated[
        bool,
        typer.Option("--bitwise", help="With --kernel flex: one configuration for all batches."),
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, help="With --kernel: largest number of configurations.")
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(help="Resolve or measure on the workers of this Dask scheduler."),
    ] = None,
    dask_workers: Annotated[
        int | None,
        typer.Option(min=1, help="With --dask: wait until this many workers have joined."),
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="With --kernel: print stored rows without measuring.")
    ] = False,
) -> None:
    """Resolve every combination of some fields; illegal and identical points are counted.

    Points are compared per GPU: concurrency is divided by tensor_parallel.

    With --kernel: measure configurations of a kernel, stored row by row; Ctrl-C pauses, and
    the same command resumes. Exit status: 0 for a table; 2 for a field or a value that no
    scenario has, for options that do not go together, and for a file that cannot be used; 130
    after Ctrl-C.
    """
    if output not in {"text", "jsonl", "csv"}:
        fail(f"Invalid --format {output!r}. Expected text, jsonl or csv.")
    if kernel is not None:
        from workbench.commands.sweep_kernel import KernelSweepRequest, sweep_kernel

        others: dict[str, Any] = {
            "MODEL": model,
            "--axis": axis,
            "--set": setting,
            "--front": front,
        }
        others |= {"--why": why is not None, "--serve-params": serve_params}
        others["--format csv (see `workbench results export`)"] = output == "csv"
        _refuse(others, "--kernel cannot be combined with")
        request = KernelSweepRequest(
            results=results,
            bitwise=bitwise,
            limit=limit,
            dask=dask,
            dask_workers=dask_workers,
            replay=replay,
            as_json=output == "jsonl",
        )
        sweep_kernel(kernel, request)
        return
    own = {"--results": results != RESULTS, "--bitwise": bitwise, "--limit": limit}
    _refuse(own | {"--replay": replay}, "--kernel is required for")
    if why is not None:
        _refuse(
            {"--serve-params": serve_params}, "--why shows one point and cannot be combined with"
        )
    with _executor(dask, dask_workers) as executor:
        found = _resolved(model, axis or [], setting or [], prompt_tokens, executor)
    if why is not None:
        _print_why(found, why)
        return
    if serve_params is not None:
        _write_serve_params(found, serve_params)
    rows = found.rows(found.front if front else None)
    if output == "jsonl":
        for row in rows:
            typer.echo(json.dumps(row))
    elif output == "csv":
        _write_csv(rows)
    else:
        from workbench.views.sweeps.rows import counts_text, sweep_text

        typer.echo(counts_text(found.table.counts, found.table.reasons))
        typer.echo("\n".join(found.notes))
        typer.echo(sweep_text(rows[:SHOWN], found.front))
        if len(rows) > SHOWN:
            typer.echo(f"... and {len(rows) - SHOWN:,} more: --format jsonl prints them")


def _refuse(given: dict[str, Any], why: str) -> None:
    if named := [name for name, value in given.items() if value]:
        fail(f"{why} {', '.join(named)}.")


def _resolved(
    model: str | None,
    axis: list[str],
    setting: list[str],
    prompt_tokens: int,
    executor: Executor | None,
) -> SweepResult:
    from workbench.commands.options import resolved
    from workbench.core.errors import WorkbenchError
    from workbench.sweeps.axes import parse_axes
    from workbench.sweeps.sweep import sweep as sweep_scenario

    start = resolved(model, setting).scenario
    try:
        return sweep_scenario(
            start,
            parse_axes("\n".join(axis)),
            prompt_tokens=prompt_tokens,
            progress=_print_progress if sys.stderr.isatty() else None,
            executor=executor,
        )
    except KeyboardInterrupt:
        typer.echo("Stopped.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except WorkbenchError as error:
        fail(f"error [{error.code}] {error}")


def _print_why(found: SweepResult, point: int) -> None:
    """Print one point compared with the scenario."""
    from workbench.core.errors import WorkbenchError
    from workbench.resolution import resolve
    from workbench.views.sweeps.why import why_text

    try:
        typer.echo(why_text(resolve(found.scenario), found.plan_of(point)))
    except (WorkbenchError, IndexError) as error:
        code = getattr(error, "code", "out_of_range")
        fail(f"error [{code}] {error}")


@contextmanager
def _executor(address: str | None, workers: int | None) -> Iterator[Executor | None]:
    """Yield the workers of a Dask scheduler; None without an address."""
    if address is None:
        if workers is not None:
            fail("--dask-workers requires --dask with the address of a Dask scheduler.")
        yield None
        return
    from workbench.sweeps.kernels.cluster import ClusterError, connect

    try:
        client = connect(address, workers)
    except ClusterError as error:
        fail(str(error))
    with client:
        yield client.get_executor(pure=False, retries=0)


def _print_progress(done: int, points: int) -> None:
    typer.echo(f"\r{done:,} of {points:,}", err=True, nl=done == points)


def _write_serve_params(found: SweepResult, path: Path) -> None:
    """Write the front as vLLM's file, and print the command that reads it on stderr."""
    from workbench.core.errors import WorkbenchError
    from workbench.exchange import sweep_file
    from workbench.interop.commands.sweep_params import sweep_command
    from workbench.models import repository

    try:
        names = [f"point-{point}" for point in found.front]
        text = sweep_file([found.scenario_of(point) for point in found.front], names)
        path.write_text(text, encoding="utf-8")
    except WorkbenchError as error:
        fail(f"error [{error.code}] {error.message}")
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}.")
    plan = found.plan_of(found.front[0])
    typer.echo(sweep_command(plan, repository(plan.scenario.model), str(path)), err=True)


def _write_csv(rows: tuple[dict[str, Any], ...]) -> None:
    from workbench.views.sweeps.rows import MEASURES

    if not rows:
        return
    fields = list(rows[0]["sets"])
    writer = csv.writer(sys.stdout)
    writer.writerow(["point", *(f"set_{name}" for name in fields), "backend_used", *MEASURES])
    for row in rows:
        results = [row["backend_used"], *(row[name] for name in MEASURES)]
        writer.writerow([row["point"], *(row["sets"][name] for name in fields), *results])
