"""A process of its own in which kernels are compiled and not interpreted: no GPU is needed."""

import json
import os
import subprocess
import sys
from importlib.metadata import version

from workbench.kernels.inspection import TARGETS
from workbench.kernels.mode import COMPILE_VARIABLE, INTERPRET_VARIABLE

OF_EACH_MAKER = ("sm_90", "gfx942")
UNREADABLE = ("sm_103",) if version("triton").startswith("3.6.") else ()
"""Targets whose binaries the nvdisasm of the oldest Triton does not know."""
OTHERS = tuple(target for target in TARGETS if target not in OF_EACH_MAKER + UNREADABLE)


def printed_there(*arguments):
    """The JSON that Python prints with these arguments; its errors are in the failure."""
    others = {name: value for name, value in os.environ.items() if name != INTERPRET_VARIABLE}
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**others, COMPILE_VARIABLE: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)
