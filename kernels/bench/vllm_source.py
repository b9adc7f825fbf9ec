"""vLLM's block tables, loaded from a path at run time. None of its code is kept here.

`VLLM_SRC` names a folder with an unpacked vLLM, or several. Only `v1/worker/gpu/block_table.py` and
`buffer_utils.py` are run, and single functions of two other files; what they import from the rest
of vLLM is put in their way as small modules, for as long as they run.
"""

import ast
import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from workbench.kernels.language import tl, triton

VARIABLE = "VLLM_SRC"
FOLDER = Path("v1/worker/gpu")
FILES = ("buffer_utils.py", "block_table.py")
LAYOUTS = {"fused": "0.33", "per group": "0.23"}


class VllmSkipped(RuntimeError):  # noqa: N818 - what happened
    """No vLLM to compare with; the message says why."""


@dataclass(frozen=True, slots=True)
class VllmSource:
    """An unpacked vLLM. `fused` is the 0.33 layout: one apply, no expansion on the host."""

    root: Path
    version: str
    fused: bool
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


def find_vllm(folder: str) -> VllmSource:
    """Find the vLLM in a folder, or in `vllm` below it. VllmSkipped says why there is none."""
    tried = (Path(folder) / "vllm", Path(folder))
    roots = [root for root in tried if all((root / FOLDER / name).is_file() for name in FILES)]
    if not roots:
        raise VllmSkipped(f"{VARIABLE}: no vllm/{FOLDER}/block_table.py and buffer_utils.py there")
    root = roots[0]
    texts = [(root / FOLDER / name).read_text(encoding="utf-8") for name in FILES]
    fused = "class FusedStagedWriter" in texts[0]
    if not fused and "kernel_block_sizes" not in texts[1]:
        raise VllmSkipped(
            f"{VARIABLE}: neither the block tables of vLLM {' nor '.join(LAYOUTS.values())} "
            "(no FusedStagedWriter, no kernel_block_sizes)"
        )
    digest = hashlib.sha256("".join(texts).encode()).hexdigest()[:12]
    return VllmSource(root, vllm_version(root, fused), fused, digest)


def vllm_version(root: Path, fused: bool) -> str:
    """Return the version in the unpacked vLLM, or else the version whose layout it has."""
    file = root / "_version.py"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    found = re.search(r"^__version__.*?'([^']+)'", text, re.MULTILINE)
    return found.group(1) if found else f"like {LAYOUTS['fused' if fused else 'per group']}"


@dataclass(frozen=True, slots=True)
class LoadedVllm:
    """The two modules, and a function that gives kernel blocks (None where the host expands)."""

    source: VllmSource
    buffers: ModuleType
    tables: ModuleType
    expand: Any
    stubs: dict[str, ModuleType]

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Let `import vllm...` find the stubs inside the block; restore the modules afterwards.

        Some of vLLM's classes import when they are made.
        """
        before = {name: sys.modules[name] for name in sys.modules if name.split(".")[0] == "vllm"}
        for name in before:
            del sys.modules[name]
        sys.modules.update(self.stubs)
        try:
            yield
        finally:
            for name in self.stubs:
                sys.modules.pop(name, None)
            sys.modules.update(before)


def load_vllm(source: VllmSource, device: str, *, launches: bool = True) -> LoadedVllm:
    """Run the files; every call gives modules of its own.

    Without a GPU there is no pinned memory, and ordinary memory takes its place. `launches=False`
    omits their kernels, so that the rest is what the host does.
    """
    gpu = torch.device(device).type == "cuda"
    stubs = _stubs(source, gpu)
    loaded = LoadedVllm(
        source,
        _empty_module("vllm.v1.worker.gpu.buffer_utils"),
        _empty_module("vllm.v1.worker.gpu.block_table"),
        _expansion(source) if source.fused else None,
        stubs,
    )
    stubs[loaded.buffers.__name__] = loaded.buffers
    with loaded.importable():
        for module, name in ((loaded.buffers, FILES[0]), (loaded.tables, FILES[1])):
            spec = importlib.util.spec_from_file_location(
                module.__name__, source.root / FOLDER / name
            )
            assert spec is not None
            assert spec.loader is not None
            spec.loader.exec_module(module)
            if not gpu and module is loaded.buffers:
                module.__dict__["UvaBuffer"] = _ordinary_memory(module.__dict__["UvaBuffer"])
    if not launches:
        for module in (loaded.buffers, loaded.tables):
            for name in [n for n in vars(module) if n.endswith("_kernel")]:
                setattr(module, name, _NoLaunch())
    return loaded


class _NoLaunch:
    """In a kernel's place: takes grid and arguments, does nothing."""

    def __getitem__(self, grid: object) -> Any:
        return lambda *_arguments, **_named: None


def _ordinary_memory(original: type) -> type:
    """Return vLLM's host-to-device buffer class with memory that is not pinned."""

    class OrdinaryMemory(original):
        def __init__(self, size: Any, dtype: torch.dtype) -> None:
            self.cpu = self._uva = torch.zeros(size, dtype=dtype)
            self.np = self.cpu.numpy()
            if not hasattr(original, "uva"):
                self.uva = self.cpu

    return OrdinaryMemory


def _stubs(source: VllmSource, gpu: bool) -> dict[str, ModuleType]:
    """Build stubs of the modules that the two files import, with only what they use."""
    stub_contents: dict[str, dict[str, Any]] = {
        "vllm": {},
        "vllm.logger": {"init_logger": _logger},
        "vllm.platforms": {"current_platform": _named(device_type="cuda" if gpu else "cpu")},
        "vllm.triton_utils": {"tl": tl, "triton": triton},
        "vllm.utils": {},
        "vllm.utils.platform_utils": {"is_uva_available": lambda: True},
        "vllm.utils.torch_utils": {
            "async_tensor_h2d": _function(
                source.root / "utils/torch_utils.py", "async_tensor_h2d", PIN_MEMORY=gpu
            ),
            "get_accelerator_view_from_cpu_tensor": _device_view,
        },
        "vllm.v1": {},
        "vllm.v1.attention": {},
        "vllm.v1.attention.backends": {},
        "vllm.v1.attention.backends.utils": {"PAD_SLOT_ID": -1},
        "vllm.v1.worker": {},
        "vllm.v1.worker.gpu": {},
    }
    stubs = {}
    for name, contents in stub_contents.items():
        stubs[name] = _empty_module(name)
        stubs[name].__path__ = []
        vars(stubs[name]).update(contents)
    return stubs


def _empty_module(name: str) -> ModuleType:
    return ModuleType(name)


def _named(**values: object) -> Any:
    return type("Values", (), values)


def _logger(_name: str) -> Any:
    return _named(warning_once=staticmethod(lambda *_: None))


def _device_view(memory: torch.Tensor) -> torch.Tensor:
    """Return pinned host memory as the GPU sees it, without a copy; ordinary memory as is."""
    if not memory.is_pinned():
        return memory
    if not memory.numel():
        return memory.cuda()
    described = {
        "shape": tuple(memory.shape),
        "typestr": f"<{'f' if memory.is_floating_point() else 'i'}{memory.element_size()}",
        "data": (memory.data_ptr(), False),
        "version": 2,
    }
    owner = _named(__cuda_array_interface__=described, memory=memory)
    view = torch.as_tensor(owner, device="cuda")
    if view.data_ptr() != memory.data_ptr():
        raise VllmSkipped("pinned host memory has no address on this GPU, so vLLM cannot run")
    return view


def _expansion(source: VllmSource) -> Any:
    return _function(source.root / "v1/worker/utils.py", "map_to_kernel_block_table")


def _function(file: Path, name: str, **values: object) -> Any:
    """Load one function of a file without running the rest; `values` are the names it uses."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == name]
    if not found:
        raise VllmSkipped(f"{VARIABLE}: {file.name} has no function {name}")
    function = found[0]
    function.returns = None
    for argument in (*function.args.args, *function.args.kwonlyargs):
        argument.annotation = None
    names: dict[str, Any] = {"torch": torch, "np": np, **values}
    exec(compile(ast.Module([function], []), str(file), "exec"), names)  # noqa: S102 - their code
    return names[name]
