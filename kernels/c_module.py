"""C files of the kernels, compiled as Triton compiles its own launchers."""

import functools
import subprocess
import sysconfig
from pathlib import Path
from types import ModuleType


@functools.cache
def c_module(source: Path) -> ModuleType | None:
    """Return the module; None where nothing compiles C, which Triton needs on every GPU."""
    from triton.runtime.build import compile_module_from_src

    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return None
    try:
        return compile_module_from_src(source.read_text(encoding="utf-8"), source.stem)
    except (RuntimeError, OSError, ImportError, subprocess.CalledProcessError):
        return None
