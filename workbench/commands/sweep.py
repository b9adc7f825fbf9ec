"""The command `workbench sweep`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from workbench.access.files import write_file
from workbench.commands.csv_text import csv_text
from workbench.commands.options import (
    AnyModel,
    Settings,
    ended_in_order,
    fail,
    flag,
    option,
    progress_line,
    scenario_fields,
)
from workbench.commands.scenarios import resolved
from workbench.core.errors import shown

if TYPE_CHECKING:
    from workbench.sweeps.sweep import SweepResult

SHOWN = 20
RESULTS = Path("results.db")
EXAMPLE = "`-a tensor_parallel=1,2,4`"


def sweep(
    model: AnyModel = None,
    axis: list[str] | None = option(
        "A field and its values: tensor_parallel=1,2,4.",
        "--axis",
        "-a",
        autocompletion=scenario_fields,
    ),
    setting: Settings = None,
    prompt_tokens: int = option("Prompt length used to report waste.", default=4096, min=1),
    front: bool = flag("--front", "Only points on the Pareto front per GPU."),
    output: str = option("text, jsonl (one point per line), or csv.", "--format", default="text"),
    why: int | None = option("Number of a point to compare with the scenario, with reasons."),
    serve_params: Path | None = option(
        "Write the Pareto front as a file for `vllm bench sweep serve`."
    ),
    kernel: str | None = option("Measure a kernel instead: flex or block-table."),
    results: Path = option(
        "With --kernel: the results file; existing results are reused.", default=RESULTS
    ),
    bitwise: bool = flag("--bitwise", "With --kernel flex: one configuration for all batches."),
    limit: int | None = option("With --kernel: largest number of configurations.", min=1),
    dask: str | None = option("Resolve or measure on the workers of this Dask scheduler."),
    dask_workers: int | None = option(
        "With --dask: wait until this many workers have joined.", min=1
    ),
    replay: bool = flag("--replay", "With --kernel: print stored rows without measuring."),
) -> None:
    """Resolve every combination of some fields; illegal and identical points are counted.

    Points are compared per GPU: concurrency is divided by the ranks of an engine.

    With --kernel: measure configurations of a kernel, stored row by row; Ctrl-C pauses, and
    the same command resumes. Exit status: 0 for a table; 1 if another process is measuring some
    of the points; 2 for an invalid field, value or combination of options, and for a file that
    cannot be used; 130 after Ctrl-C, 143 after SIGTERM.
    """
    if output not in {"text", "jsonl", "csv"}:
        fail(f"Invalid --format {shown(output)}. Expected text, jsonl or csv.")
    if dask_workers is not None and dask is None:
        fail("--dask-workers requires --dask with the address of a Dask scheduler.")
    if kernel is not None:
        from workbench.commands.sweep_kernel import KernelSweep

        others: dict[str, Any] = {"MODEL": model, "--axis": axis, "--set": setting}
        others |= {"--front": front, "--why": why is not None, "--serve-params": serve_params}
        others["--format csv (see `workbench results export`)"] = output == "csv"
        _refuse(others, "--kernel cannot be combined with")
        KernelSweep(kernel, results, bitwise=bitwise, as_json=output == "jsonl").run(
            replay=replay, dask=dask, dask_workers=dask_workers, limit=limit
        )
        return
    own = {"--results": results != RESULTS, "--bitwise": bitwise, "--limit": limit}
    _refuse(own | {"--replay": replay}, "--kernel is required for")
    if why is not None and serve_params is not None:
        fail("--why shows one point and cannot be combined with --serve-params.")
    with _executor(dask, dask_workers) as executor:
        found = _swept(model, axis or [], setting, prompt_tokens, executor)
    if why is not None:
        _print_why(found, why)
        return
    if serve_params is not None:
        _write_serve_params(found, serve_params)
    _print_rows(found, found.rows(found.front if front else None), output)


def _print_rows(found: SweepResult, rows: tuple[dict[str, Any], ...], output: str) -> None:
    if output == "jsonl":
        for row in rows:
            typer.echo(json.dumps(row))
    elif output == "csv":
        sys.stdout.write(csv_text([_flat(row) for row in rows]))
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


def _swept(
    model: str | None,
    axis: list[str],
    setting: list[str] | None,
    prompt_tokens: int,
    executor: Executor | None,
) -> SweepResult:
    from workbench.sweeps.language import parse_axes
    from workbench.sweeps.sweep import sweep as sweep_scenario

    if empty := [text for text in axis if not parse_axes(text, EXAMPLE)]:
        fail(f"Invalid --axis {shown(empty[0])}. Expected a field and its values: {EXAMPLE}.")
    with ended_in_order("Stopped."):
        return sweep_scenario(
            resolved(model, setting).scenario,
            parse_axes("\n".join(axis)),
            prompt_tokens=prompt_tokens,
            progress=progress_line("points"),
            executor=executor,
        )


def _print_why(found: SweepResult, point: int) -> None:
    """Print one point compared with the scenario."""
    from workbench.scenario.resolution import resolve
    from workbench.views.sweeps.why import why_text

    try:
        typer.echo(why_text(resolve(found.scenario), found.plan_of(point)))
    except IndexError as error:
        fail(f"error [out_of_range] {error}")


@contextmanager
def _executor(address: str | None, workers: int | None) -> Iterator[Executor | None]:
    """Yield the workers of a Dask scheduler; None without an address."""
    if address is None:
        yield None
        return
    from workbench.sweeps.kernels.cluster import connect

    with connect(address, workers) as client:
        yield client.get_executor(pure=False, retries=0)


def _write_serve_params(found: SweepResult, path: Path) -> None:
    """Write the front as vLLM's file, and print the command that reads it on stderr."""
    from workbench.interop.commands.sweep_params import sweep_command
    from workbench.interop.exchange import sweep_file

    names = [f"point-{point}" for point in found.front]
    write_file(path, sweep_file([found.scenario_of(point) for point in found.front], names))
    plan = found.plan_of(found.front[0])
    typer.echo(sweep_command(plan, str(path)), err=True)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose cells are single values."""
    from workbench.views.sweeps.rows import MEASURES

    return {
        "point": row["point"],
        **{f"set_{name}": value for name, value in row["sets"].items()},
        "backend_used": row["backend_used"],
        **{name: row[name] for name in MEASURES},
    }
