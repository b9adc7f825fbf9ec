"""What the compiler makes of a kernel, for any target; no GPU is needed.

`inspect_kernels` compiles in a process of its own, since one process cannot both interpret and
compile.
"""

from workbench.kernels.inspection.api import (
    INSPECTED_MODULES,
    PEER_MODULES,
    InspectionError,
    inspect_kernels,
    inspected_names,
)
from workbench.kernels.inspection.report import KernelReport
from workbench.kernels.inspection.targets import TARGETS, Target

__all__ = [
    "INSPECTED_MODULES",
    "PEER_MODULES",
    "TARGETS",
    "InspectionError",
    "KernelReport",
    "Target",
    "inspect_kernels",
    "inspected_names",
]
