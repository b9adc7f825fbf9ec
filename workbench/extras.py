"""What an installation without extras lacks, and the extra that brings it.

The distribution itself needs pydantic and typer. `pyproject.toml` says which packages an extra has;
here is which modules the source imports of them.
"""

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from workbench.core.errors import WorkbenchError

DISTRIBUTION: Final = "hybrid-kv-workbench"
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "sweep": ("numpy", "psutil", "pynvml"),
    "lab": (
        *("IPython", "anywidget", "huggingface_hub", "ipywidgets", "jinja2", "jsonschema"),
        *("jupyter_client", "jupyterlab", "nbclient", "nbconvert", "nbformat", "papermill"),
        *("plotly", "pygments", "traitlets"),
    ),
    "kernels": ("torch", "triton"),
    "app": ("jupyter_server", "tornado", "voila"),
    "dask": ("distributed",),
}
"""Extra -> the modules that come with it, each with the smallest extra that has it."""

EXTRA_OF: Final = {module: extra for extra, modules in EXTRAS.items() for module in modules}


def missing_package(*modules: str | None) -> WorkbenchError | None:
    """Return the error for modules that are not installed; None if no extra brings them."""
    lacking = [module.partition(".")[0] for module in modules if module]
    extras = ",".join(sorted({EXTRA_OF[module] for module in lacking if module in EXTRA_OF}))
    if not extras:
        return None
    only = " Triton exists for Linux only." if not _has_triton() and "triton" in lacking else ""
    return WorkbenchError(
        "package_missing",
        f"This needs {', '.join(lacking)}, which {'are' if lacking[1:] else 'is'} not "
        f"installed.{only} Install: pip install '{DISTRIBUTION}[{extras}]'",
        operands={"modules": lacking, "extras": extras},
    )


def require(*modules: str) -> None:
    """Refuse to go on without these modules. Errors: WorkbenchError, `package_missing`."""
    error = missing_package(*(module for module in modules if find_spec(module) is None))
    if error is not None:
        raise error


def _has_triton() -> bool:
    return sys.platform == "linux"
