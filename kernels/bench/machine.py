"""What a run ran on and which code it ran; neither host names nor paths."""

import hashlib
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from workbench.kernels.mode import triton_mode

KERNELS = Path(__file__).parents[1]
SOURCES = {".py", ".c"}
NO_GPU = "no GPU: Triton's interpreter"

Machine = dict[str, str | None]


def this_machine(operation: str) -> Machine:
    """Ask the driver, the packages and the clock. operation: whose files are hashed.

    `mode` is that of workbench.kernels.mode; `driver` is None where there is no GPU.
    """
    import torch

    decided = triton_mode()
    return {
        "device": device_name(),
        "mode": decided.mode,
        "driver": _driver() if decided.mode == "gpu" else None,
        "cpu": cpu_model(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": decided.triton_version,
        "numpy": version("numpy"),
        "source_hash": source_hash(operation),
        "date": datetime.now(UTC).date().isoformat(),
    }


def device_name() -> str:
    """Return what results are filed under: the GPU's name, or that there is none."""
    return triton_mode().device or NO_GPU


def source_hash(operation: str, *more: Path) -> str:
    """Return twelve hex digits over names and contents of an operation's files, and of others.

    The files that all operations share belong to it.
    """
    digest = hashlib.sha256()
    shared = [file for folder in (KERNELS, KERNELS / operation) for file in folder.iterdir()]
    found = [file for file in shared if file.suffix in SOURCES]
    for file in sorted([*found, *more], key=lambda path: path.name):
        # The zero keeps name and content apart: a renamed file is another one.
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def _driver() -> str | None:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        text = subprocess.check_output(command, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return text.split("\n")[0].strip() or None


def cpu_model() -> str:
    """Return the processor's own model name."""
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text(encoding="utf-8").splitlines() if listing.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
