"""The command `workbench inspect`: what the compiler makes of a kernel, with no GPU."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from workbench.commands.options import AsJson, argument, fail, flag, option
from workbench.core.devices import device_named
from workbench.core.errors import cut, unknown_name_message
from workbench.extras import require

if TYPE_CHECKING:
    from workbench.core.devices import Device
    from workbench.kernels.inspection import KernelReport


def inspect(
    kernels: str = argument(
        "Kernels to compile: block-table or paged-flex.", default="block-table"
    ),
    target: list[str] | None = option(
        "Target such as sm_90 or gfx942; default: all.", "--target", "-t"
    ),
    kernel: list[str] | None = option("Compile only the kernel of this name."),
    assembly: bool = flag("--assembly", "Print PTX or AMDGCN."),
    as_json: AsJson = False,
) -> None:
    """Compile kernels without the target GPU and show registers, spills, loops and copies.

    The attention kernel is compiled as each target launches it by default. VLLM_SRC=FOLDER, of an
    unpacked vLLM or the environment that has it installed, adds vLLM's own attention kernels.
    """
    require("torch", "triton")
    from workbench.kernels.inspection import INSPECTED_MODULES, TARGETS
    from workbench.views.inspection import inspection_text

    if kernels not in INSPECTED_MODULES:
        fail(unknown_name_message("Kernels", kernels, INSPECTED_MODULES))
    for name in target or ():
        if name not in TARGETS and (device := device_named(name)) is not None:
            own = _target_of(device)
            what = f"its target is {own}: -t {own}" if own in TARGETS else "it has no target here"
            known = ", ".join(TARGETS)
            fail(f"{cut(repr(name))} is a device; {what}. Targets: {known}.")
    reports = _compiled(kernels, tuple(target or TARGETS), tuple(kernel or ()))
    names = dict.fromkeys(report.kernel for report in reports)
    for name in kernel or ():
        if name not in names:  # a part of a call is known once that is compiled
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


def _target_of(device: Device) -> str:
    """Return what a target of this device is called, whether or not it can be compiled for."""
    number = device.architecture.replace(".", "")
    return f"sm_{number}" if device.platform == "cuda" else number


def _compiled(kernels: str, targets: Sequence[str], wanted: Sequence[str]) -> list[KernelReport]:
    """Return the reports of the wanted kernels, or all; exit with 2 where one does not compile."""
    from workbench.kernels.inspection import (
        INSPECTED_MODULES,
        PEER_MODULES,
        TARGETS,
        InspectionError,
        inspect_kernels,
        inspected_names,
    )

    modules = (*INSPECTED_MODULES[kernels], *PEER_MODULES.get(kernels, ()))
    known = [name for module in modules for name in inspected_names(module)] if wanted else []
    calls = {name: [one for one in known if f"{name}: ".startswith(f"{one}: ")] for name in wanted}
    for name in (name for name in wanted if not calls[name]):
        fail(unknown_name_message("Kernel", name, known))
    chosen = [one for found in calls.values() for one in found]
    if TARGETS.keys() >= {*targets}:
        typer.echo(f"Compiling {kernels} for {', '.join(targets)} ...", err=True)
    reports: list[KernelReport] = []
    try:
        for module in modules:
            reports += inspect_kernels(module, targets, chosen)
    except InspectionError as error:
        fail(str(error))
    return reports
