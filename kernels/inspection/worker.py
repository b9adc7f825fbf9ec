"""The process that compiles: reads one request as JSON from stdin, writes reports to stdout.

Started by `api`, which sets the variable that keeps triton out of its interpreter.
"""

import importlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from workbench.kernels.inspection import report
from workbench.kernels.inspection.binary import cuda_resources, sass
from workbench.kernels.inspection.loops import Loop, inner_loops
from workbench.kernels.inspection.targets import TARGETS, Target
from workbench.kernels.kernel_spec import KernelSpec, PublicCall
from workbench.kernels.language import triton


def compiled(spec: KernelSpec, target: Target) -> Any:
    """Compile the kernel as its launcher would on `target`."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = spec.signature
    positions = {name: (index,) for index, name in enumerate(signature)}
    # The launcher finds such arguments at each launch; without it loads and stores stay narrow.
    aligned = [["tt.divisibility", 16]]
    source = ASTSource(
        spec.function,
        signature,
        {positions[name]: value for name, value in spec.constexprs.items()},
        {positions[name]: aligned for name in spec.multiples_of_16},
    )
    place = GPUTarget(target.backend, target.arch, target.warp_size)
    return triton.compile(source, target=place, options={"num_warps": spec.num_warps})


def reports_of(entry: KernelSpec | PublicCall, target: Target) -> list[report.KernelReport]:
    """Compile an entry of INSPECTED and report on each of its kernels once."""
    if isinstance(entry, KernelSpec):
        made = compiled(entry, target)
        return [_report(entry.name, target, made.asm, made.metadata, entry.constexprs)]
    from workbench.kernels.inspection.dry_driver import dry_launches

    with dry_launches(target, limited=entry.limited) as launches:
        entry.run()
    found: list[report.KernelReport] = []
    for launch in {launch.binary.code: launch for launch in launches}.values():
        # the first kernel of a call has the call's name
        name = f"{entry.name}: {launch.binary.name.removesuffix('_kernel')}"
        name = name if found else entry.name
        found.append(_report(name, target, launch.binary, launch.metadata, launch.constants))
    return found


def _report(
    name: str, target: Target, code: Any, metadata: Any, constants: Mapping[str, Any]
) -> report.KernelReport:
    """Read a report from the levels of a kernel's code: "ptx", "cubin", "llir" ..."""
    loops: tuple[Loop, ...] = ()
    if target.backend == "cuda":
        assembly = code["ptx"]
        registers, spill_bytes = cuda_resources(code["cubin"])
        loads, stores = report.ptx_accesses(assembly)
        loops = inner_loops(sass(code["cubin"]))
    else:
        assembly = code["amdgcn"]
        registers, spill_bytes = report.amd_resources(assembly)
        loads, stores = report.amd_accesses(assembly)
    # vLLM's attention calls the keys of a tile TILE_SIZE
    rows, keys = constants.get("BLOCK_M"), constants.get("BLOCK_N", constants.get("TILE_SIZE"))
    return report.KernelReport(
        kernel=name,
        target=target.name,
        registers=registers,
        spill_bytes=spill_bytes,
        shared_bytes=metadata.shared,
        loads=loads,
        stores=stores,
        wide_divisions=report.wide_divisions(code["llir"]),
        instructions=report.instructions(assembly),
        assembly=assembly,
        num_warps=metadata.num_warps,
        num_stages=metadata.num_stages,
        tile=(rows, keys) if rows and keys else None,
        rest_keys=constants.get("REST"),
        loops=loops,
    )


def main() -> None:
    """Compile the module's kernels, or only the named ones, for every requested target.

    Without targets only the names are written.
    """
    request = json.load(sys.stdin)
    module = importlib.import_module(request["module"])
    if "targets" not in request:
        json.dump([spec.name for spec in module.INSPECTED], sys.stdout)
        return
    made = [spec for config in request["configs"] for spec in module.specs_of(config)]
    # equal ones have one name, however many configurations they are of
    specs = {spec.name: spec for spec in made}.values() if made else module.INSPECTED
    wanted = request["kernels"] or [spec.name for spec in specs]
    reports = [
        asdict(found)
        for name in request["targets"]
        for spec in specs
        if spec.name in wanted
        for found in reports_of(spec, TARGETS[name])
    ]
    json.dump(reports, sys.stdout)


if __name__ == "__main__":
    main()
