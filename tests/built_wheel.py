"""The wheel of this checkout, and an empty environment with it: made once per run of the tests."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path
from venv import EnvBuilder

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LEFT = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
SOURCES = ("pyproject.toml", "setup.py", "LICENSE", "README.md")


def once(tmp_path_factory, name, make):
    """The folder that `make` fills; every worker of pytest-xdist gets the same one."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder = base / name
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (done := base / f"{name}.done").exists():
            make(folder)
            done.touch()
    return folder


def run(command, **more):
    """Run a command that has to succeed; its output is in the failure."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wheel(tmp_path_factory) -> Path:
    """A wheel built from a source archive built from a copy, so that both are proved."""

    def make(work):
        source = work / "source"
        source.mkdir(parents=True)
        for name in ("workbench", "kernels"):
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=LEFT)
        for name in SOURCES:
            shutil.copy(ROOT / name, source / name)
        run([sys.executable, "-m", "build", "--no-isolation", "--outdir", work / "dist", source])

    (path,) = (once(tmp_path_factory, "wheel", make) / "dist").glob("*.whl")
    return path


def bare(tmp_path_factory) -> Path:
    """The folder of programs of an environment that has the wheel and what it requires alone.

    The requirements are those of the wheel's own metadata, in the locked versions that are
    installed here; nothing is downloaded.
    """
    built = wheel(tmp_path_factory)

    def make(folder):
        EnvBuilder(symlinks=os.name != "nt").create(folder)
        python = folder / "bin" / "python"
        (site,) = folder.glob("lib/python*/site-packages")
        uv = [sys.executable, "-m", "uv", "pip", "install", "--offline", "--no-deps"]
        run([*uv, "--python", python, built])
        (own,) = site.glob("hybrid_kv_workbench-*.dist-info")
        needed = required(Distribution.at(own))
        for name in needed:
            for file in distribution(name).files or ():
                if file.parts[0] != ".." and "__pycache__" not in file.parts:
                    target = site / file
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(file.locate(), target)

    return once(tmp_path_factory, "bare", make) / "bin"


def required(installed: Distribution) -> set[str]:
    """The names of what a distribution requires without extras, and of what that requires."""
    found: set[str] = set()
    left = [installed]
    while left:
        for text in left.pop().requires or ():
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            marker = requirement.marker
            if name not in found and (marker is None or marker.evaluate({"extra": ""})):
                found.add(name)
                left.append(distribution(name))
    return found
