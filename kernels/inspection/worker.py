"""The process that compiles: reads one request as JSON from stdin, writes reports to stdout.

Started by `api`, which sets the variable that keeps triton out of its interpreter.
"""

import importlib
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from workbench.kernels.inspection import report
from workbench.kernels.inspection.targets import TARGETS, Target
from workbench.kernels.kernel_spec import KernelSpec
from workbench.kernels.language import triton


def compiled(spec: KernelSpec, target: Target) -> Any:
    """Compile the kernel as its launcher would on `target`."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = spec.signature
    positions = {name: (index,) for index, name in enumerate(signature)}
    aligned = [["tt.divisibility", 16]]
    source = ASTSource(
        spec.function,
        signature,
        {positions[name]: value for name, value in spec.constexprs.items()},
        {positions[name]: aligned for name in spec.multiples_of_16},
    )
    place = GPUTarget(target.backend, target.arch, target.warp_size)
    return triton.compile(source, target=place, options={"num_warps": spec.num_warps})


def report_of(spec: KernelSpec, target: Target) -> report.KernelReport:
    """Compile the kernel and read its report."""
    kernel = compiled(spec, target)
    if target.backend == "cuda":
        assembly = kernel.asm["ptx"]
        registers, spill_bytes = report.cuda_resources(_resource_usage(kernel.asm["cubin"]))
        loads, stores = report.ptx_accesses(assembly)
    else:
        assembly = kernel.asm["amdgcn"]
        registers, spill_bytes = report.amd_resources(assembly)
        loads, stores = report.amd_accesses(assembly)
    return report.KernelReport(
        kernel=spec.name,
        target=target.name,
        registers=registers,
        spill_bytes=spill_bytes,
        shared_bytes=kernel.metadata.shared,
        loads=loads,
        stores=stores,
        wide_divisions=report.wide_divisions(kernel.asm["llir"]),
        instructions=report.instructions(assembly),
        assembly=assembly,
    )


def _resource_usage(cubin: bytes) -> str:
    """Return the output of cuobjdump, which comes with triton, for a compiled kernel."""
    import triton.backends.nvidia

    tool = Path(triton.backends.nvidia.__file__).parent / "bin" / "cuobjdump"
    # cuobjdump reads files only
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run(
            [tool, "--dump-resource-usage", file.name], check=True, capture_output=True, text=True
        )
    return done.stdout


def main() -> None:
    """Compile the module's kernels, or only the named ones, for every requested target."""
    request = json.load(sys.stdin)
    specs = importlib.import_module(request["module"]).INSPECTED
    wanted = request["kernels"] or [spec.name for spec in specs]
    reports = [
        asdict(report_of(spec, TARGETS[name]))
        for name in request["targets"]
        for spec in specs
        if spec.name in wanted
    ]
    json.dump(reports, sys.stdout)


if __name__ == "__main__":
    main()
