"""A process of its own in which kernels are compiled and not interpreted: no GPU is needed."""

import json
import os
import subprocess
import sys

from workbench.kernels.mode import COMPILE_VARIABLE, INTERPRET_VARIABLE


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
