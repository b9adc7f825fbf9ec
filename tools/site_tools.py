"""The generators of the site: installed once, apart from what `make` installs."""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "constraints-site.txt"
LOCKED = re.compile(r"(?m)^([\w.-]+)(==\S+).*((?:\n[ #].*)*)")
"""A package of a lock: name, version and, below a marker for some Pythons, its hashes."""
BROWSER = (
    *("--python-version", "3.14", "--implementation", "cp", "--abi", "cp314"),
    *("--platform", "pyemscripten_2026_0_wasm32"),
)
"""What Pyodide is to pip."""


def installed() -> Path:
    """Return the folder with the packages of constraints-site.txt; installs them if it is new."""
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    folder = Path(sys.prefix) / f"site-tools-{digest}"
    if not folder.exists():
        draft = folder.with_name(f"{folder.name}-{os.getpid()}")
        uv = [sys.executable, "-m", "uv", "pip", "install", "-q", "--no-deps", "--require-hashes"]
        run([*uv, "--python", sys.executable, "--target", draft, "-r", LOCK])
        draft.replace(folder)
    return folder


def run_module(
    name: str, *arguments: str | Path, settings: Mapping[str, str] | None = None
) -> None:
    """Run a module of these packages, with settings as environment variables."""
    environment = os.environ | {"PYTHONPATH": str(installed())} | dict(settings or {})
    # JupyterLite leaves a database where it runs
    with tempfile.TemporaryDirectory() as work:
        run([sys.executable, "-m", name, *arguments], env=environment, cwd=work)


def download(names: Iterable[str], folder: Path) -> None:
    """Put the wheels of packages for Pyodide into a folder, in the locked versions."""
    locks = (ROOT / "constraints.txt", LOCK)
    text = "\n".join(path.read_text(encoding="utf-8") for path in locks)
    found = {one[1]: f"{one[1]}{one[2]} \\{one[3]}" for one in reversed([*LOCKED.finditer(text)])}
    with tempfile.TemporaryDirectory() as work:
        requirements = Path(work) / "requirements.txt"
        requirements.write_text("\n".join(found[name] for name in names), encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "download"]
        only = ("--no-deps", "--only-binary=:all:", "--require-hashes", *BROWSER)
        run([*pip, *only, "--dest", folder, "-r", requirements])


def run(
    command: list[str | Path], env: Mapping[str, str] | None = None, cwd: str | None = None
) -> str:
    """Run a command and return its output. Errors: SystemExit with it."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=env, cwd=cwd
        )
    except FileNotFoundError:
        raise SystemExit(f"{command[0]} is not installed, and the site needs it.") from None
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout
