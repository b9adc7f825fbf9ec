"""The commands `workbench results list`, `compare` and `export`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands.options import fail

if TYPE_CHECKING:
    from workbench.run.store import Row

File = Annotated[Path, typer.Argument(help="A results file.")]
Device = Annotated[str | None, typer.Option(help="Only this device.")]
Kernel = Annotated[str | None, typer.Option("--kernel", help="Only this kernel hash.")]


def list_results(
    file: File,
    device: Device = None,
    kernel: Kernel = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a row.")] = False,
) -> None:
    """Show what a results file holds, best times first; the file is only read.

    Exit status: 0, also where damaged rows were left out (said on stderr); 2 for no such file.
    """
    rows = _rows(file, device, kernel)
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row.to_dict()))
        return
    groups = Counter((row.key.device, row.key.kernel_hash, row.status) for row in rows)
    for (name, version, status), count in sorted(groups.items()):
        typer.echo(f"{count:7,}  {status:13} {name}, kernel {version}")
    for row in sorted(rows, key=lambda row: row.median_s or float("inf"))[:20]:
        typer.echo(f"{_time(row)}  {row.status:13} {row.key.config}  {row.message[:80]}")


def compare_results(
    file: File,
    other: Annotated[
        Path | None, typer.Argument(help="The file to compare with; the same if not given.")
    ] = None,
    device: Device = None,
    with_device: Annotated[str | None, typer.Option(help="Device of the other side.")] = None,
    kernel: Kernel = None,
    with_kernel: Annotated[str | None, typer.Option(help="Kernel hash of the other side.")] = None,
    across_kernels: Annotated[
        bool, typer.Option("--across-kernels", help="Different kernels are what is compared.")
    ] = False,
) -> None:
    """Compare times of the same configurations on two sides: two files, devices or kernels.

    Exit status: 0; 2 where the sides are different kernels and that was not asked for.
    """
    from workbench.run.store import StoreError
    from workbench.run.sweeps.replay import compare

    one = _rows(file, device, kernel)
    two = _rows(other or file, with_device or device, with_kernel or kernel)
    try:
        pairs = compare(one, two, across_kernels=across_kernels)
    except StoreError as error:
        fail(str(error))
    for pair in pairs:
        ratio = "    -" if pair.ratio is None else f"{pair.ratio:5.2f}"
        typer.echo(f"{ratio}x  {_time(pair.one)} -> {_time(pair.other)}  {json.dumps(pair.config)}")
    typer.echo(f"{len(pairs)} configurations on both sides")


def export_results(
    file: File,
    target: Annotated[Path, typer.Argument(help="A new file: .jsonl, one row a line, or .csv.")],
    device: Device = None,
    kernel: Kernel = None,
) -> None:
    """Write the intact rows into a file that other programs read; nothing is overwritten."""
    import csv

    if target.exists():
        fail(f"{target} is already there, and results are never overwritten: name another file.")
    rows = [row.to_dict() for row in _rows(file, device, kernel)]
    if target.suffix == ".jsonl":
        text = "".join(json.dumps(row) + "\n" for row in rows)
        target.write_text(text, encoding="utf-8")
    elif target.suffix == ".csv":
        with target.open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out)
            names = list(rows[0]) if rows else []
            writer.writerow(names)
            for row in rows:
                writer.writerow(
                    json.dumps(row[n]) if isinstance(row[n], dict) else row[n] for n in names
                )
    else:
        fail(f"{target.name} has to end in .jsonl or .csv.")
    typer.echo(f"{len(rows)} rows written to {target}")


def _rows(file: Path, device: str | None, kernel: str | None) -> tuple[Row, ...]:
    from workbench.run.store import ResultStore, StoreError

    try:
        with ResultStore(file, read_only=True) as store:
            rows = store.rows(device, kernel)
            for note in store.notes:
                typer.echo(note, err=True)
    except StoreError as error:
        fail(str(error))
    return rows


def _time(row: Row) -> str:
    return "no time    " if row.median_s is None else f"{1e6 * row.median_s:8.1f} us"
