"""Write constraints.txt: version and hashes of every package that `make` and CI install.

    python tools/lock.py             # keeps the versions that pyproject.toml still accepts
    python tools/lock.py --upgrade   # chooses the newest

One file serves every supported Python and platform. torch and what comes with a build of it are
omitted: builds for CUDA, ROCm and CPUs differ, so constraints-torch.txt pins its version alone.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK, TORCH = ROOT / "constraints.txt", ROOT / "constraints-torch.txt"
OF_TORCH = re.compile(r"(torch|triton|cuda-[\w-]+|nvidia-(?!ml-py)[\w-]+)==")
"""torch, and the libraries that it installs and pins itself."""
HEADER = """\
# What `make` and CI install, exactly: `make lock` writes this file, `make lock LOCK_ARGS=--upgrade`
# with the newest versions. pyproject.toml says what the project accepts.
"""


def without_torch(lock: str) -> str:
    """Return a lock without the packages of torch; the hashes of one are indented below it."""
    blocks = re.split(r"(?m)^(?=\S)", lock)
    return "".join(block for block in blocks if not OF_TORCH.match(block))


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--upgrade", action="store_true", help="choose the newest versions")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / LOCK.name
        output.write_bytes(LOCK.read_bytes())  # the versions that are kept
        command = [sys.executable, "-m", "uv", "pip", "compile", "-q", str(ROOT / "pyproject.toml")]
        command += ["--all-extras", "--universal", "--python-version=3.11", "--generate-hashes"]
        command += ["--no-header", "--no-annotate", f"--output-file={output}", "-c", str(TORCH)]
        command += ["--upgrade"] if options.upgrade else []
        done = subprocess.run(command, check=False)
        if done.returncode:
            return done.returncode
        LOCK.write_text(HEADER + without_torch(output.read_text("utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
