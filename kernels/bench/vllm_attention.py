"""vLLM's unified attention kernel, loaded from a path at run time. None of its code is kept here.

Two files are run, `v1/attention/ops/triton_unified_attention.py` and its helpers, and one class of
a third; what they import from the rest of vLLM is put in their way for as long as they run.
"""

import ast
import hashlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from workbench.kernels.bench.vllm_source import (
    VARIABLE,
    LoadedVllm,
    VllmSkipped,
    VllmSource,
    vllm_version,
)
from workbench.kernels.language import tl, triton

FOLDER = Path("v1/attention/ops")
FILES = ("triton_attention_helpers.py", "triton_unified_attention.py")
INTERFACE = Path("v1/kv_cache_interface.py")
PACKAGE = "vllm.v1.attention.ops"

PROGRAMS_2D = 128
"""Programs that fill a device: with fewer requests times KV heads, vLLM splits a decode's keys."""

SEGMENTS = 16
"""How many parts it splits them into, of whatever length."""


def find_vllm_attention(folder: str) -> VllmSource:
    """Find the vLLM in a folder, or in `vllm` below it. VllmSkipped says why there is none."""
    tried = (Path(folder) / "vllm", Path(folder))
    roots = [root for root in tried if all((root / FOLDER / name).is_file() for name in FILES)]
    if not roots:
        raise VllmSkipped(f"{VARIABLE}: no vllm/{FOLDER}/{FILES[1]} and {FILES[0]} there")
    root = roots[0]
    texts = [(root / FOLDER / name).read_text(encoding="utf-8") for name in FILES]
    if "def unified_attention(" not in texts[1] or "mm_prefix_range" not in texts[1]:
        raise VllmSkipped(f"{VARIABLE}: its unified_attention is neither that of 0.23 nor of 0.33")
    newer = "USE_PER_SEQ_CAUSAL" in texts[1]
    digest = hashlib.sha256("".join(texts).encode()).hexdigest()[:12]
    return VllmSource(root, vllm_version(root, newer), newer, digest)


@dataclass(frozen=True, slots=True)
class VllmAttention:
    """The functions of the loaded files."""

    source: VllmSource
    attend: Callable[..., None]
    kernel: Any
    reduce: Any
    quantization: Any


def load_vllm_attention(source: VllmSource) -> VllmAttention:
    """Run the files; every call gives modules of its own."""
    modules = {name: ModuleType(f"{PACKAGE}.{name.removesuffix('.py')}") for name in FILES}
    quantization = _class(source.root / INTERFACE, "KVQuantMode", IntEnum=IntEnum)
    stubs = _stubs(quantization)
    stubs.update({module.__name__: module for module in modules.values()})
    loaded = LoadedVllm(source, modules[FILES[0]], modules[FILES[1]], None, stubs)
    with loaded.importable():
        for name, module in modules.items():
            file = source.root / FOLDER / name
            spec = importlib.util.spec_from_file_location(module.__name__, file)
            assert spec is not None
            assert spec.loader is not None
            spec.loader.exec_module(module)
    names = vars(modules[FILES[1]])
    return VllmAttention(
        source,
        names["unified_attention"],
        names["kernel_unified_attention"],
        names["reduce_segments"],
        quantization,
    )


def _stubs(quantization: Any) -> dict[str, ModuleType]:
    """Build stubs of the modules that the two files import, with only what they use."""
    logger = SimpleNamespace(debug_once=lambda *_: None, warning_once=lambda *_: None)
    platform = SimpleNamespace(
        fp8_dtype=lambda: torch.float8_e4m3fn, is_device_capability_family=_is_family
    )
    contents: dict[str, dict[str, Any]] = {
        "vllm": {},
        "vllm.envs": {"VLLM_BATCH_INVARIANT": False},
        "vllm.logger": {"init_logger": lambda _name: logger},
        "vllm.platforms": {"current_platform": platform},
        "vllm.triton_utils": {"tl": tl, "triton": triton},
        "vllm.v1": {},
        "vllm.v1.attention": {},
        PACKAGE: {},
        "vllm.v1.kv_cache_interface": {"KVQuantMode": quantization},
    }
    stubs = {}
    for name, values in contents.items():
        stubs[name] = ModuleType(name)
        stubs[name].__path__ = []
        vars(stubs[name]).update(values)
    stubs["vllm"].__dict__["envs"] = stubs["vllm.envs"]
    return stubs


def _is_family(family: int) -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] * 10 == family


def _class(file: Path, name: str, **values: object) -> Any:
    """Load one class of a file without running the rest; `values` are the names it uses."""
    if not file.is_file():
        raise VllmSkipped(f"{VARIABLE}: no {file.name}")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == name]
    if not found:
        raise VllmSkipped(f"{VARIABLE}: {file.name} has no class {name}")
    future = ast.parse("from __future__ import annotations").body
    names: dict[str, Any] = dict(values)
    code = compile(ast.Module([*future, found[0]], []), str(file), "exec")
    exec(code, names)  # noqa: S102 - their code
    return names[name]
