"""Test the kernels with the oldest torch and Triton that pyproject.toml allows.

    tools/lowest.py [FOLDER] [PYTEST ARGUMENTS]

Makes an environment in FOLDER (test-output/lowest) with these two, the newest numpy, pytest and
hypothesis, and runs tests/kernels there without the packages of the notebooks. Takes half an hour.
"""

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

from workbench.kernels.gpu.pieces import TESTS, pytest_command

ROOT = Path(__file__).resolve().parents[1]
OLDEST = ("torch", "triton")
NEWEST = ("numpy", "pytest", "hypothesis")


def oldest(project: dict[str, object], name: str) -> str:
    """Return `name==lowest.*` of what a project or one of its extras requires."""
    found = re.search(rf"\b{name}>=([0-9.]+)", str(project))
    assert found, f"pyproject.toml requires no {name}>=..."
    return f"{name}=={found.group(1)}.*"


def main() -> int:
    """Install, and return pytest's exit code."""
    folder, *arguments = sys.argv[1:] or [str(ROOT / "test-output" / "lowest")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    python = Path(folder) / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    needed = [*(oldest(project, name) for name in OLDEST), *NEWEST]
    subprocess.run([python, "-m", "pip", "install", "-q", *needed], check=True)
    _this_python, *command = pytest_command(*(arguments or [TESTS]))
    return subprocess.run([python, *command], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
