"""Files of vLLM, loaded from a path at run time. None of its code is kept here.

`VLLM_SRC` names a folder with an unpacked vLLM, or several. Only single files are run, and single
definitions of others; what they import from the rest of vLLM is put in their way as small modules,
for as long as they run.
"""

import ast
import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, TypeVar

from workbench.kernels.language import tl, triton

VARIABLE = "VLLM_SRC"
Found = TypeVar("Found")


class VllmSkipped(RuntimeError):  # noqa: N818 - what happened
    """No vLLM to compare with; the message says why."""


@dataclass(frozen=True, slots=True)
class VllmSource:
    """An unpacked vLLM. `newer`: its files have the layout of 0.33, not that of 0.23."""

    root: Path
    version: str
    newer: bool
    file_hash: str

    @property
    def name(self) -> str:
        """Return the name used in the tables."""
        return f"vllm {self.version}"

    @property
    def label(self) -> str:
        """Return version and hash, for the row of a result."""
        return f"vLLM {self.version}, files {self.file_hash}"


def named_folders() -> list[str]:
    """Return the folders in VLLM_SRC, separated as in PATH. VllmSkipped if there is none."""
    folders = [part for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    if not folders:
        raise VllmSkipped(f"{VARIABLE} is not set: name a folder with an unpacked vLLM to compare")
    return folders


def in_every_vllm(
    find: Callable[[str], Found], skipped: Callable[[VllmSkipped], None] = lambda _reason: None
) -> list[Found]:
    """Return what is found in the folders that VLLM_SRC names; `skipped` is given why not."""
    found = []
    try:
        for folder in named_folders():
            try:
                found.append(find(folder))
            except VllmSkipped as reason:
                skipped(reason)
    except VllmSkipped as reason:
        skipped(reason)
    return found


def found_files(folder: str, files: Sequence[str]) -> tuple[Path, list[str]]:
    """Return the root of the vLLM in a folder, and its files' texts.

    It is there, in `vllm` below it, or installed in the environment that the folder is.
    """
    place = Path(folder)
    for root in (place / "vllm", place, *sorted(place.glob("lib/python3*/site-packages/vllm"))):
        if all((root / name).is_file() for name in files):
            return root, [(root / name).read_text(encoding="utf-8") for name in files]
    raise VllmSkipped(f"{VARIABLE}: no vllm/{files[1]} and {Path(files[0]).name} there")


def source_of(root: Path, texts: Sequence[str], *, newer: bool) -> VllmSource:
    """Describe the vLLM by its own version, or else by the version whose layout it has."""
    file = root / "_version.py"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    found = re.search(r"^__version__.*?'([^']+)'", text, re.MULTILINE)
    version = found.group(1) if found else f"like {'0.33' if newer else '0.23'}"
    return VllmSource(
        root, version, newer, hashlib.sha256("".join(texts).encode()).hexdigest()[:12]
    )


def modules_of(contents: Mapping[str, Mapping[str, Any]]) -> dict[str, ModuleType]:
    """Build modules with these contents, their packages, and what nearly every file imports."""
    logger = SimpleNamespace(debug_once=lambda *_: None, warning_once=lambda *_: None)
    common = {
        "vllm.logger": {"init_logger": lambda _name: logger},
        "vllm.triton_utils": {"tl": tl, "triton": triton},
    }
    modules: dict[str, ModuleType] = {}
    for full_name, values in (common | dict(contents)).items():
        parts = full_name.split(".")
        for count in range(1, len(parts) + 1):
            name = ".".join(parts[:count])
            if name not in modules:
                modules[name] = ModuleType(name)
                # Python imports from a module only if that is a package, which this makes it.
                modules[name].__path__ = []
        vars(modules[full_name]).update(values)
    return modules


@contextmanager
def importable(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """Let `import vllm...` find these modules inside the block; restore the others afterwards."""
    before = {name: sys.modules[name] for name in sys.modules if name.split(".")[0] == "vllm"}
    for name in before:
        del sys.modules[name]
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            sys.modules.pop(name, None)
        sys.modules.update(before)


def run_file(source: VllmSource, file: str, modules: dict[str, ModuleType]) -> ModuleType:
    """Run one file where only these modules can be imported, and add its own to them."""
    name = ".".join(("vllm", *Path(file).with_suffix("").parts))
    spec = importlib.util.spec_from_file_location(name, source.root / file)
    assert spec is not None
    assert spec.loader is not None
    modules[name] = importlib.util.module_from_spec(spec)
    with importable(modules):
        spec.loader.exec_module(modules[name])
    return modules[name]


def definition(file: Path, name: str, **values: object) -> Any:
    """Load one function or class of a file without running the rest.

    values: the names that it uses.
    """
    if not file.is_file():
        raise VllmSkipped(f"{VARIABLE}: no {file.name}")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.ClassDef)
    found = [node for node in ast.walk(tree) if isinstance(node, kinds) and node.name == name]
    if not found:
        raise VllmSkipped(f"{VARIABLE}: {file.name} has no {name}")
    # annotations name what is not loaded: nothing evaluates them
    future = ast.parse("from __future__ import annotations").body
    names: dict[str, Any] = dict(values)
    exec(compile(ast.Module([*future, found[0]], []), str(file), "exec"), names)  # noqa: S102 - their code
    return names[name]
