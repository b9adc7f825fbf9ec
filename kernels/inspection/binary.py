"""What the tools that come with triton read from a compiled binary."""

import subprocess
import tempfile
from pathlib import Path

from workbench.kernels.inspection import report


def cuda_tool(name: str, cubin: bytes, *options: str) -> str:
    """Return the output of cuobjdump or nvdisasm for a compiled CUDA kernel."""
    import triton.backends.nvidia

    tool = Path(triton.backends.nvidia.__file__).parent / "bin" / name
    # these tools read files only
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run(
            [tool, *options, file.name], check=True, capture_output=True, text=True
        )
    return done.stdout


def cuda_resources(cubin: bytes) -> tuple[int, int]:
    """Return registers of a thread and its bytes of local memory."""
    return report.cuda_resources(cuda_tool("cuobjdump", cubin, "--dump-resource-usage"))


def sass(cubin: bytes) -> str:
    """Return the instructions of the device, with the labels of branches."""
    return cuda_tool("nvdisasm", cubin, "--print-code", "--no-dataflow")
