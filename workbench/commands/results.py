"""The commands `workbench results list`, `compare` and `export`."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.access.files import removed_if_cut
from workbench.commands.csv_text import csv_text
from workbench.commands.options import AsJson, argument, fail, flag, option
from workbench.commands.sweep_kernel import standings, time_text
from workbench.core.errors import cut, cut_path

if TYPE_CHECKING:
    from workbench.sweeps.store import Row

File = Annotated[Path, typer.Argument(help="A results file.")]
Device = Annotated[str | None, typer.Option(help="Show only this device.")]
Kernel = Annotated[str | None, typer.Option("--kernel", help="Show only this kernel hash.")]
MOST_GROUPS = 5


def list_results(
    file: File, device: Device = None, kernel: Kernel = None, as_json: AsJson = False
) -> None:
    """Show what a results file holds, best times first, and which kernel settings win.

    The file is only read; a GPU is not needed. --json: one object per row. Exit status: 0, also if
    damaged rows were skipped or no row fits (reported on stderr); 2 if the file does not exist.
    """
    from workbench.sweeps.kernels.kernel_session import KERNELS

    rows = _rows(file, device, kernel)
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row.to_dict()))
        return
    groups = Counter((row.key.device, row.key.kernel_hash, row.status) for row in rows)
    for (name, version, status), count in sorted(groups.items()):
        typer.echo(f"{count:7,}  {status:13} {name}, kernel {version}")
    for row in sorted(rows, key=lambda row: row.median_s or float("inf"))[:20]:
        typer.echo(f"{time_text(row)}  {row.status:13} {row.key.config}  {row.message[:80]}")
    for swept in KERNELS.values():
        own = [row for row in rows if swept.has_measured(row)]
        modes = (False,) if swept.one_for_all else (False, True)
        for bitwise in modes:
            for line in standings(swept, own, bitwise=bitwise):
                typer.echo(f"bitwise: {line}" if bitwise else line)


def compare_results(
    file: File,
    other: Path | None = argument("File to compare with; default: the same file."),
    device: Device = None,
    with_device: str | None = option("Device of the other side."),
    kernel: Kernel = None,
    with_kernel: str | None = option("Kernel hash of the other side."),
    across_kernels: bool = flag("--across-kernels", "Allow the comparison of different kernels."),
) -> None:
    """Compare times of the same configurations between two files, devices or kernels.

    Exit status: 0; 2 if the kernels differ without the option that allows it.
    """
    from workbench.sweeps.kernels.winners import compare
    from workbench.sweeps.store import StoreError

    one = _rows(file, device, kernel)
    two = _rows(other or file, with_device or device, with_kernel or kernel)
    try:
        pairs = compare(one, two, across_kernels=across_kernels)
    except StoreError as error:
        fail(
            f"{error} One kernel of both sides: --kernel HASH; another one of the other side: "
            "--with-kernel HASH; times of different kernels: --across-kernels."
        )
    for pair in pairs:
        ratio = "    -" if pair.ratio is None else f"{pair.ratio:5.2f}"
        typer.echo(
            f"{ratio}x  {time_text(pair.one)} -> {time_text(pair.other)}  {json.dumps(pair.config)}"
        )
    typer.echo(f"{len(pairs)} configurations on both sides")


def export_results(
    file: File,
    target: Path = argument(
        "A new file: .jsonl (one row per line) or .csv. With --best: a folder.", default=...
    ),
    device: Device = None,
    kernel: Kernel = None,
    best: bool = flag("--best", "Write the best flex settings, one JSON file per device."),
    bitwise: bool = flag(
        "--bitwise", "With --best: one setting for all batches, bitwise equal in all of them."
    ),
) -> None:
    """Write the intact rows into a file that other programs read; nothing is overwritten.

    With --best: for each device the flex settings that win, with what has to be the same for them
    to hold. Exit status: 0; 2 if there is nothing to write, or the file exists already.
    """
    if bitwise and not best:
        fail("--bitwise requires --best.")
    rows = _rows(file, device, kernel)
    if best:
        _export_best(rows, file, target, bitwise=bitwise)
        return
    if target.suffix not in {".jsonl", ".csv"}:
        fail(f"Invalid file name {cut(target.name)}. Expected a name that ends in .jsonl or .csv.")
    if not rows:
        raise typer.Exit(2)  # said by what read them
    published = [row.to_dict() for row in rows]
    lines = (json.dumps(row) + "\n" for row in published)
    _write_new(target, csv_text(published) if target.suffix == ".csv" else "".join(lines))
    typer.echo(f"{len(rows)} rows written to {target}")


def _export_best(rows: tuple[Row, ...], file: Path, folder: Path, *, bitwise: bool) -> None:
    from workbench.interop.exchange import best_flex_settings

    found = best_flex_settings(rows, store=file.name, bitwise=bitwise)
    if not found:
        fail(
            f"{file.name} has no {'bitwise ' if bitwise else ''}flex configuration with a time on "
            "every batch. Measure on a GPU: workbench sweep --kernel flex --results "
            f"{file.name}{' --bitwise' if bitwise else ''}"
        )
    if not folder.is_dir():
        fail(f"{cut_path(folder)} is not a folder. Pass an existing one with --best.")
    for one in found:
        _write_new(folder / one.file_name, one.to_json())
        typer.echo(f"{folder / one.file_name}: {len(one.best)} settings")


def _write_new(path: Path, text: str) -> None:
    """Write all of the text into a new file."""
    try:
        with path.open("x", encoding="utf-8", newline="") as out, removed_if_cut(path):
            out.write(text)
            out.flush()
    except FileExistsError:
        fail(
            f"{cut_path(path)} exists already; results are never overwritten. Choose another file."
        )
    except OSError as error:
        fail(f"{cut_path(path)} cannot be written: {error.strerror}.")


def _rows(file: Path, device: str | None, kernel: str | None) -> tuple[Row, ...]:
    from workbench.sweeps.store import ResultStore

    with ResultStore(file, read_only=True) as store:
        rows = store.rows(device, kernel)
        if not rows:
            typer.echo(_no_row(file, store.rows(), device, kernel), err=True)
        for note in store.notes:
            typer.echo(note, err=True)
    return rows


def _no_row(file: Path, there: tuple[Row, ...], device: str | None, kernel: str | None) -> str:
    """Return that no row fits the filter, and which there are."""
    if not there:
        return f"{cut(file.name)} has no rows. Measure on a GPU: workbench sweep --kernel flex."
    given = {"--device": device, "--kernel": kernel}
    requested = " ".join(f"{name} {cut(text)}" for name, text in given.items() if text is not None)
    groups = Counter((row.key.device, row.key.kernel_hash) for row in there)
    some = [
        f"--device {cut(shlex.quote(name))} --kernel {cut(version)} ({count:,})"
        for (name, version), count in groups.most_common(MOST_GROUPS)
    ]
    more = f" and {len(groups) - MOST_GROUPS} more" if len(groups) > MOST_GROUPS else ""
    return f"{cut(file.name)} has no row for {requested}. It has: {'; '.join(some)}{more}."
