"""Write constraints.txt: version and hashes of every package that `make` and CI install.

constraints-site.txt has those that only `make site` installs, the group `site` of pyproject.toml.

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
SITE = ROOT / "constraints-site.txt"
OF_TORCH = re.compile(r"(torch|triton|cuda-[\w-]+|nvidia-(?!ml-py)[\w-]+)==")
"""torch, and the libraries that it installs and pins itself."""
HEADER = """\
# What {who} install, exactly: `make lock` writes this file, `make lock LOCK_ARGS=--upgrade`
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
    more = ["--upgrade"] if parser.parse_args().upgrade else []
    whole = [str(ROOT / "pyproject.toml"), "--all-extras", "-c", str(TORCH)]
    return lock(LOCK, "`make` and CI", [*whole, *more]) or lock(
        SITE, "`make site` and its tests", ["--group", "site", *more]
    )


def lock(file: Path, who: str, arguments: list[str]) -> int:
    """Write one file; return the exit code of uv."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / file.name
        output.write_bytes(file.read_bytes())  # the versions that are kept
        command = [sys.executable, "-m", "uv", "pip", "compile", "-q", *arguments]
        command += ["--universal", "--python-version=3.11", "--generate-hashes"]
        command += ["--no-header", "--no-annotate", f"--output-file={output}"]
        done = subprocess.run(command, cwd=ROOT, check=False)
        if not done.returncode:
            text = HEADER.format(who=who) + without_torch(output.read_text("utf-8"))
            file.write_text(text, encoding="utf-8")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
