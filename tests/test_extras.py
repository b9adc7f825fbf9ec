"""What each part of the source may import, which extra brings it, and what a start loads."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.core.test_architecture import ROOMS, ROOT, imported_modules, sources
from tests.test_packaging import extra
from workbench.extras import DISTRIBUTION, EXTRA_OF, EXTRAS, missing_package, require

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SMALL = {"pydantic", "typer"}
"""What the distribution needs without extras."""
OURS = {"workbench", "kernels"}
LIGHT = {
    "core": set(),
    "access": set(),
    "models": set(),
    "scenario": {"pydantic"},
    "interop": {"pydantic"},
    "door": set(),
    "site": set(),
    "commands": {"typer"},
}
"""Folder -> packages that it may import; what an extra brings only as in LATE."""
LATE = {
    "models/hub_file.py": {"huggingface_hub"},
    "commands/app_server.py": {"jupyter_server", "tornado", "traitlets", "voila"},
}
"""Module of a light folder -> what it uses if it is installed, or is not imported without."""
STARTED = {"jupyterlab"}
"""Programs that a command starts; pytest is there where its plugin is imported."""
ELSEWHERE = "workbench/verify/vllm_probe"
"""Runs in the Python that has vLLM."""


def foreign(path):
    """The packages outside the standard library that a module imports anywhere."""
    names = {module.partition(".")[0] for module in imported_modules(path)}
    return names - set(sys.stdlib_module_names) - OURS


def all_sources():
    """Every module of the distribution but those that another Python runs."""
    files = [*(ROOT / "workbench").glob("*.py")]
    files += [path for room in ROOMS for path, _ in sources(room)]
    return [path for path in files if not path.relative_to(ROOT).as_posix().startswith(ELSEWHERE)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("room", LIGHT)
def test_a_light_folder_needs_nothing_of_an_extra(room):
    found = {}
    for path, _ in sources(room):
        name = path.relative_to(ROOT / "workbench").as_posix()
        if wrong := foreign(path) - LIGHT[room] - LATE.get(name, set()):
            found[name] = wrong
    assert found == {}


def test_hub_file_imports_the_library_in_functions_only():
    tree = ast.parse((ROOT / "workbench/models/hub_file.py").read_text(encoding="utf-8"))
    at_once = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert not any(module.startswith("huggingface_hub") for module in at_once)


def test_every_package_that_the_source_imports_is_declared():
    used = set().union(*map(foreign, all_sources()))
    assert used - SMALL - {"pytest"} | STARTED == set(EXTRA_OF)
    small = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert small == SMALL


def required_by(name, seen=None):
    """The distributions that one brings, itself included."""
    seen = set() if seen is None else seen
    name = canonicalize_name(name)
    if name in seen:
        return seen
    seen.add(name)
    try:
        lines = distribution(name).requires or ()
    except PackageNotFoundError:  # of another platform
        return seen
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            required_by(requirement.name, seen)
    return seen


@pytest.mark.parametrize("name", EXTRAS)
def test_an_extra_brings_the_modules_that_it_is_named_for(name):
    brought = set().union(*(required_by(Requirement(line).name) for line in extra(name)))
    homes = packages_distributions()
    for module in EXTRAS[name]:
        if module == "triton" and sys.platform != "linux":
            continue
        assert {canonicalize_name(home) for home in homes[module]} & brought, module


def test_every_extra_for_users_is_in_the_table():
    assert {*EXTRAS, "all", "dev"} == set(PROJECT["optional-dependencies"])
    assert PROJECT["name"] == DISTRIBUTION
    everything = set(extra("all"))
    assert all(set(extra(name)) <= everything for name in EXTRAS)


@pytest.mark.parametrize(
    ("modules", "words"),
    [
        (("torch.nn",), "needs torch, which is not installed"),
        (("torch", "distributed"), "[dask,kernels]"),
        (("voila",), "pip install 'hybrid-kv-workbench[app]'"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(modules, words):
    error = missing_package(*modules)
    assert error.code == "package_missing"
    assert words in error.message


def test_a_module_that_no_extra_brings_is_a_fault_of_ours():
    assert missing_package("workbench.no_such_module") is None
    assert missing_package(None) is None
    require("json", "no_such_module")


def test_triton_is_not_promised_where_it_does_not_exist(monkeypatch):
    assert "Linux only" not in missing_package("torch", "triton").message
    monkeypatch.setattr("workbench.extras._has_triton", lambda: False)
    assert "Triton exists for Linux only" in missing_package("triton").message


def loaded_by(*words):
    """The modules that a command imports, in a process of its own."""
    command = [sys.executable, "-X", "importtime", "-m", "workbench", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


HEAVY = {*EXTRA_OF, "rich", "jsonschema", "IPython"}


def test_help_loads_no_rules():
    loaded = loaded_by("--help")
    assert "workbench.cli" in loaded
    assert not loaded & {*HEAVY, "pydantic", "workbench.core.resolve", "workbench.core.versions"}


def test_resolve_loads_nothing_heavy():
    loaded = loaded_by("resolve", "bamba-9b")
    assert {"workbench.core.resolve", "pydantic"} <= loaded
    assert not loaded & HEAVY
