"""The command `workbench inspect`: what the compiler makes of a kernel, with no GPU."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from workbench.commands.options import fail
from workbench.core.errors import unknown_name_message


def inspect(
    kernels: Annotated[
        str, typer.Argument(help="Kernels to compile: block-table or paged-flex.")
    ] = "block-table",
    target: Annotated[
        list[str] | None,
        typer.Option("--target", "-t", help="Target such as sm_90 or gfx942; default: all."),
    ] = None,
    kernel: Annotated[list[str] | None, typer.Option(help="Only the kernel of this name.")] = None,
    assembly: Annotated[bool, typer.Option("--assembly", help="Print PTX or AMDGCN.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the reports as JSON.")] = False,
) -> None:
    """Compile kernels without the target GPU and show registers, spills and copy widths."""
    from workbench.kernels.inspection import (
        INSPECTED_MODULES,
        TARGETS,
        InspectionError,
        KernelReport,
        inspect_kernels,
    )
    from workbench.views.inspection import inspection_text

    if kernels not in INSPECTED_MODULES:
        fail(unknown_name_message("Kernels", kernels, INSPECTED_MODULES))
    reports: list[KernelReport] = []
    try:
        for module in INSPECTED_MODULES[kernels]:
            reports += inspect_kernels(module, target or tuple(TARGETS))
    except InspectionError as error:
        fail(str(error))
    names = dict.fromkeys(report.kernel for report in reports)
    for name in kernel or ():
        if name not in names:
            fail(unknown_name_message("Kernel", name, names))
    reports = [report for report in reports if report.kernel in (kernel or names)]
    if as_json:
        entries = [asdict(report) for report in reports]
        for entry in entries:
            entry.pop("assembly")
        typer.echo(json.dumps(entries, indent=2))
    elif assembly:
        for report in reports:
            typer.echo(f"# {report.kernel}, {report.target}\n{report.assembly}")
    else:
        typer.echo(inspection_text(reports))
