"""What gets installed, and from which requirements."""

import os
import re
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

from tests import built_wheel

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
PYPI_NAMES = {"pytorch": "torch"}
DATA_SUFFIXES = {".c", ".py", ".json", ".toml", ".css", ".js", ".j2", ".typed"}
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


def extra(name: str) -> list[str]:
    """What an extra requires, with what the extras in it require."""
    found = []
    for line in PROJECT["optional-dependencies"][name]:
        requirement = Requirement(line)
        inner = sorted(requirement.extras) if requirement.name == PROJECT["name"] else ()
        found += [one for part in inner for one in extra(part)] or [line]
    return found


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
    assert found == requirements([*PROJECT["dependencies"], *extra("lab"), *extra("kernels")])


def pins(name: str) -> dict[str, list[Requirement]]:
    """canonical name -> its pins in a file, one per platform or Python."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", "")
    found: dict[str, list[Requirement]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            requirement = Requirement(line.partition(" --hash")[0])
            found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def test_every_requirement_is_pinned_within_its_bounds():
    pinned = pins("constraints.txt") | pins("constraints-torch.txt")
    required = [*PROJECT["dependencies"], *extra("dev")]
    outside = {
        name: (bounds, pinned.get(name))
        for name, (bounds, _) in requirements(required).items()
        if name not in pinned
        or not all(
            Requirement(f"x{bounds}").specifier.contains(str(pin.specifier).removeprefix("=="))
            for pin in pinned[name]
        )
    }
    assert outside == {}


def test_every_pin_but_those_of_torch_has_hashes():
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) > 100
    pin = re.compile(r"[\w.-]+==[\w.]+( ; .+?)?(\s+--hash=sha256:[0-9a-f]{64})+ *")
    assert [line[:60] for line in lines if not pin.fullmatch(line)] == []
    assert set(pins("constraints-torch.txt")) == {"torch", "triton"}
    assert not set(pins("constraints.txt")) & {"torch", "triton"}


def test_make_installs_by_hash():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = re.findall(r"\$\(PIP\) install (.*)", text)
    assert [line for line in installs if "--require-hashes" not in line] == [
        "-q -r constraints-torch.txt",
        "-q --no-deps --no-build-isolation -e .",
    ]
    assert all("--no-deps" in line for line in installs if "torch" not in line)


def test_this_python_has_what_the_pins_require():
    """Nothing is resolved where hashes are required: the pins have to be complete."""
    pinned = pins("constraints.txt") | pins("constraints-torch.txt")
    missing = set()
    for name, found in pinned.items():
        if name == "torch" or not any(r.marker is None or r.marker.evaluate() for r in found):
            continue
        try:
            needed = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        for text in needed:
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or marker.evaluate({"extra": ""}):
                missing |= {canonicalize_name(requirement.name)} - set(pinned)
    assert missing == set()


def test_a_lock_omits_torch_and_what_it_installs(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import lock

    kept = (
        "a==1 \\\n    --hash=sha256:1\nnvidia-ml-py==13 \\\n    --hash=sha256:2\ntorchmetrics==1\n"
    )
    omitted = "nvidia-nccl-cu13==2 ; x \\\n    --hash=sha256:3\ncuda-bindings==1\ntorch==2\n"
    assert lock.without_torch(omitted + kept + omitted) == kept


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
    return built_wheel.wheel(tmp_path_factory)


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
