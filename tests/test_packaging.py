"""What gets installed, and from which requirements."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
PYPI_NAMES = {"pytorch": "torch"}
DATA_SUFFIXES = {".py", ".json", ".css", ".js", ".j2", ".typed"}
SHOW_ORIGINS = """
import importlib.util
import workbench, workbench.kernels.mode
print(workbench.__file__)
print(workbench.kernels.mode.__file__)
top = importlib.util.find_spec("kernels")
print(top.origin if top else None)
"""


def requirements(lines: list[str]) -> dict[str, tuple[str, str]]:
    """canonical name -> (version specifier, marker)."""
    parsed = [Requirement(line) for line in lines]
    return {
        canonicalize_name(PYPI_NAMES.get(r.name, r.name)): (str(r.specifier), str(r.marker or ""))
        for r in parsed
    }


def run_python(code: str, cwd: Path, **variables: str) -> list[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def files_to_install() -> set[str]:
    """Paths in a wheel of every code and data file in the two package folders."""
    folders = {"workbench": ROOT / "workbench", "workbench/kernels": ROOT / "kernels"}
    return {
        f"{target}/{path.relative_to(folder).as_posix()}"
        for target, folder in folders.items()
        for path in folder.rglob("*")
        if path.suffix in DATA_SUFFIXES
        and path.is_file()
        and not {"__pycache__", ".ipynb_checkpoints"} & set(path.parts)
    }


def test_conda_environment_has_the_same_requirements():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    conda = [line for line in environment["dependencies"] if isinstance(line, str)]
    (pip,) = [
        section["pip"] for section in environment["dependencies"] if isinstance(section, dict)
    ]
    assert pip[-1] == "-e ."
    assert environment["channels"] == ["conda-forge", "nodefaults"]

    found = requirements(conda + pip[:-1])
    assert found.pop("pip") == ("", "")
    python, _ = found.pop("python")
    assert set(python.split(",")) == set(PROJECT["requires-python"].split(","))
    assert found == requirements(PROJECT["dependencies"])


def test_every_requirement_is_pinned_within_its_bounds():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {}
    for line in filter(lambda line: not line.startswith("#"), lines):
        name, version = line.split("==")
        pins[canonicalize_name(name)] = version
    required = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]
    outside = {
        name: (bounds, pins.get(name))
        for name, (bounds, _) in requirements(required).items()
        if name not in pins or not Requirement(f"x{bounds}").specifier.contains(pins[name])
    }
    assert outside == {}


def test_the_checkouts_link_leads_to_the_kernels():
    link = ROOT / "workbench" / "kernels"
    assert link.is_symlink()
    assert link.resolve() == ROOT / "kernels"


def test_kernels_are_found_from_the_root_of_a_checkout():
    package, kernels, _ = run_python(SHOW_ORIGINS, ROOT)
    assert Path(package) == ROOT / "workbench" / "__init__.py"
    assert Path(kernels).samefile(ROOT / "kernels" / "mode.py")


def test_the_top_level_name_kernels_is_refused_in_a_checkout():
    code = "try:\n    import kernels\nexcept ImportError as error:\n    print(error)"
    (message,) = run_python(code, ROOT)
    assert "`workbench.kernels`" in message


def test_an_editable_install_has_no_top_level_kernels(tmp_path):
    try:
        distribution(PROJECT["name"])
    except PackageNotFoundError:
        pytest.skip("the project is not installed in this environment")
    package, kernels, top_level = run_python(SHOW_ORIGINS, tmp_path)
    assert Path(package).parent / "kernels" / "mode.py" == Path(kernels)
    assert not Path(top_level).is_relative_to(ROOT)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a source archive built from a copy, so that both are proved."""
    pytest.importorskip("build")
    work = tmp_path_factory.mktemp("wheel")
    source = work / "source"
    source.mkdir()
    leave_out = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    for name in ("workbench", "kernels"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=leave_out)
    for name in ("pyproject.toml", "setup.py", "LICENSE", PROJECT["readme"]):
        shutil.copy(ROOT / name, source / name)
    built = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", work / "dist", source],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = (work / "dist").glob("*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_holds_every_file_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert "workbench/kernels/mode.py" in names
    assert names == files_to_install()


@pytest.mark.slow
def test_the_wheel_imports_alone(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    package, kernels, top_level = run_python(
        SHOW_ORIGINS, tmp_path.parent, PYTHONPATH=str(tmp_path)
    )
    assert Path(package) == tmp_path / "workbench" / "__init__.py"
    assert Path(kernels) == tmp_path / "workbench" / "kernels" / "mode.py"
    assert not Path(top_level).is_relative_to(tmp_path)
