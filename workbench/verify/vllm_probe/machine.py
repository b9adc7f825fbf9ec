"""The machine that a probe simulates: an absent platform, and stand-ins for the rest.

The compiled parts of a vLLM wheel need CUDA's libraries. Those that are in the wheel and cannot be
loaded are replaced by empty modules, so that the Python code that imports them can run; calling
one would fail, and no question does. Every stand-in is reported.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import re
import sys
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from . import data, device

DEVICE_MEMORY_BYTES = 80 * 2**30
"""While modules are imported; then every question has its own."""
PLATFORM_CLASSES = {"cuda": "Cuda", "rocm": "Rocm", "xpu": "XPU", "cpu": "Cpu"}
CUDA_RUNTIME = 13  # major version, of vLLM's own wheels; a torch for CPUs has none
OPTIONAL_PACKAGES = {
    "cuda": ("b12x", "flashinfer", "hpc", "tokenspeed_mla"),
    # what vLLM publishes for ROCm brings them (requirements/rocm.txt: quark, whose emulation runs
    # experts that no other kernel does)
    "rocm": ("aiter", "flash_attn", "quark"),
    "xpu": ("vllm_xpu_kernels",),
}
"""Packages of kernels, taken for installed on their platform: only what they compute is missing."""
# what compiles for the device when it is imported
COMPILES = ("vllm.vllm_flash_attn.cute", "vllm.models.minimax_m3.nvidia.ops.index_decode_score")
_NORM = "vllm.model_executor.layers.minimax_rms_norm.rms_norm_tp"
LOOKS_FOR_OPERATORS = {"any": (_NORM,), "xpu": ("vllm._xpu_ops", _NORM)}
"""Modules that look for operators while they are imported: later every name would look like one,
and a norm of MiniMax would reserve memory of the device for its own."""
SWITCHES = {"batch_invariant": "VLLM_BATCH_INVARIANT", "rocm_aiter": "VLLM_ROCM_USE_AITER"}
GFX = "gfx942"  # architecture of an AMD device, unless the host names one
WITHOUT_CUTLASS = {"VLLM_KIMI_K3_GEMM_AR": "0", "VLLM_ENABLE_GEMM_RS": "0"}
"""Switches off kernels that would be compiled while a model is built; no cache depends on them."""


class CannotAnswer(BaseException):
    """This environment lacks something that vLLM needs before it can answer.

    Not an Exception: vLLM would catch it and report something else.
    """


class Machine:
    """The simulated platform and its stand-ins: name -> what is there in its place."""

    def __init__(self, host: dict[str, Any]) -> None:
        self.host = host
        self.platform: Any = None
        self.device_memory_bytes = DEVICE_MEMORY_BYTES
        self.device_name: str | None = None
        self.stand_ins: dict[str, str] = {}
        self._reported = 0

    def news(self) -> dict[str, str]:
        """Return the stand-ins that were not reported yet."""
        new = dict(list(self.stand_ins.items())[self._reported :])
        self._reported = len(self.stand_ins)
        return new

    def pin(self, module: types.ModuleType, name: str, value: bool) -> None:
        """Let a function of vLLM or torch, if there is one of this name, answer `value`."""
        if hasattr(module, name):
            setattr(module, name, lambda *_, **__: value)
            self.stand_ins[f"{module.__name__}.{name}"] = f"says {value}"

    def describe(self) -> dict[str, Any]:
        """Return versions, the platform, and the stand-ins so far."""
        import torch
        import vllm

        return {
            "version": vllm.__version__,
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "transformers": importlib.metadata.version("transformers"),
            "platform_class": type(self.platform).__mro__[1].__qualname__,
            "stand_ins": self.news(),
        }


def play(host: dict[str, Any]) -> Machine:
    """Make vLLM believe in `host`: platform, capability ([major, minor] or null), and switches.

    Errors: whatever importing vLLM or its platform class raises.
    """
    # Without visible devices vLLM takes Triton for usable; with one that is not there it does not.
    visible = "-1" if host["platform"] == "cpu" else ""
    os.environ.update(
        HF_HUB_OFFLINE="1",
        VLLM_NO_USAGE_STATS="1",
        VLLM_PLUGINS="",
        CUDA_VISIBLE_DEVICES=visible,
        HIP_VISIBLE_DEVICES=visible,
        **WITHOUT_CUTLASS,
    )
    os.environ.update({name: "1" for switch, name in SWITCHES.items() if host.get(switch)})
    if importlib.util.find_spec("vllm") is None:
        raise ModuleNotFoundError("No module named 'vllm'")
    machine = Machine(host)
    sys.meta_path.insert(0, _Finder(machine))
    import torch
    import vllm.platforms

    _image_operators(machine, torch)
    name = host["platform"]
    if name in {"cuda", "rocm"}:
        pair = _capability(host) or (0, 0)
        device.play_properties(machine.stand_ins, pair, _gfx(host), machine.device_memory_bytes)
    if name != "cpu":
        device.play_tensors(machine.stand_ins)
    if name == "cpu":
        # Every machine gives equal answers: those with AMX tiles, which MLA of 0.33 and weights in
        # blocks of fp8 need.
        machine.pin(torch.cpu, "_is_amx_tile_supported", True)
        machine.pin(torch.cpu, "_is_avx512_bf16_supported", True)
    class_name = f"{PLATFORM_CLASSES[name]}Platform"
    platform = getattr(importlib.import_module(f"vllm.platforms.{name}"), class_name)
    machine.platform = _pinned(platform, machine)()
    vllm.platforms._current_platform = machine.platform  # noqa: SLF001  (there is no setter)
    machine.stand_ins["the device"] = f"vLLM's {class_name} with its capability pinned"
    _kernel_packages(machine)
    for module in LOOKS_FOR_OPERATORS.get(name, LOOKS_FOR_OPERATORS["any"]):
        with suppress(ImportError):
            importlib.import_module(module)
    device.play_operators(machine.stand_ins)
    data.play_data(machine.stand_ins)
    return machine


class _Finder(importlib.abc.MetaPathFinder):
    """Finds empty modules in place of kernel packages and of extensions that cannot be loaded."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        packages = OPTIONAL_PACKAGES.get(self.machine.host["platform"], ())
        compiles = fullname.startswith(COMPILES)
        if compiles or fullname.partition(".")[0] in packages:
            found = None if compiles else importlib.machinery.PathFinder.find_spec(fullname, path)
            if found is None:
                self.machine.stand_ins[fullname] = "an empty module (not installed)"
                found = importlib.machinery.ModuleSpec(fullname, _Empty(), is_package=True)
            return found
        if not fullname.startswith("vllm."):
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        if found is None or not isinstance(found.loader, importlib.machinery.ExtensionFileLoader):
            return None
        found.loader = _Loader(found.loader, self.machine)
        return found


class _Loader(importlib.abc.Loader):
    """Loads an extension, or an empty module where it cannot be loaded."""

    def __init__(self, real: importlib.abc.Loader, machine: Machine) -> None:
        self.real, self.machine = real, machine

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        try:
            return self.real.create_module(spec)
        except ImportError as error:
            self.machine.stand_ins[spec.name] = f"an empty module ({error})"
            module = types.ModuleType(spec.name)
            module.__dict__["is_stand_in"] = True
            return module

    def exec_module(self, module: types.ModuleType) -> None:
        if "is_stand_in" not in module.__dict__:
            self.real.exec_module(module)


class _Empty(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        module.__path__ = []
        module.__dict__["__getattr__"] = _name_of_nothing


class _Nothing:
    """Whatever a kernel package would have offered; of no use but to be imported or called."""

    def __init__(self, *_given: Any, **_options: Any) -> None:
        return

    def __init_subclass__(cls, **_options: Any) -> None:
        return


def _name_of_nothing(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name.endswith("_bytes"):
        return lambda *_, **__: 0  # scratch memory of kernels, which no question covers
    return type(name, (_Nothing,), {})


def _pinned(platform: Any, machine: Machine) -> Any:
    """Return a subclass of vLLM's platform class that knows its device without one."""
    from vllm.platforms.interface import DeviceCapability

    name = machine.host["platform"]
    pair = _capability(machine.host)
    answers: dict[str, Callable[[], Any]] = {
        "get_device_capability": lambda: DeviceCapability(*pair) if pair else None,
        "get_device_name": lambda: machine.device_name or f"played {name}",
        "get_device_uuid": lambda: "played",
        # Each question sets its own device memory.
        "get_device_total_memory": lambda: machine.device_memory_bytes,
    }
    if hasattr(platform, "get_cuda_runtime_major"):
        answers["get_cuda_runtime_major"] = lambda: CUDA_RUNTIME
    methods = {
        name: classmethod(lambda _class, *_, answer=answer, **__: answer())
        for name, answer in answers.items()
    }
    return type("Pinned", (platform,), methods)


def _gfx(host: dict[str, Any]) -> str:
    return host.get("gfx") or GFX


def _capability(host: dict[str, Any]) -> tuple[int, int] | None:
    """Return the compute capability; on ROCm the first digits of the architecture, as HIP does."""
    if host["platform"] != "rocm":
        pair = host.get("capability")
        return pair and (pair[0], pair[1])
    digits = re.match(r"gfx(\d+)", _gfx(host))
    assert digits is not None
    major = digits[1][:2] if len(digits[1]) == 4 else digits[1][:1]
    return int(major), int(digits[1][len(major)])


def _image_operators(machine: Machine, torch: Any) -> None:
    """Import torchvision even if its library does not load: image models import it.

    It describes its operators at import, and a build for CUDA has none with a torch for CPUs.
    """
    real = torch.library.register_fake

    def describe(name: Any, *rest: Any, **options: Any) -> Any:
        namespace, _, operator = str(name).partition("::")
        if namespace != "torchvision" or hasattr(torch.ops.torchvision, operator):
            return real(name, *rest, **options)
        without = "an operator without description (its library did not load)"
        machine.stand_ins[str(name)] = without
        return lambda function: function

    torch.library.register_fake = describe
    try:
        importlib.import_module("torchvision")
    except ImportError:
        return  # a model that needs it will fail with its own message
    finally:
        torch.library.register_fake = real


def _kernel_packages(machine: Machine) -> None:
    """Answer what vLLM asks of packages of kernels when it is imported or configured."""
    flashinfer = importlib.import_module("vllm.utils.flashinfer")
    # vLLM would look for TRT-LLM kernels on the network.
    machine.pin(flashinfer, "has_nvidia_artifactory", bool(machine.host.get("trtllm_kernels")))
    # The indexer's kernels, which are in the CUDA wheel.
    machine.pin(importlib.import_module("vllm.utils.import_utils"), "has_deep_gemm", True)
    # It looks at the signature of a kernel that the empty package lacks; sparse models read it.
    machine.pin(flashinfer, "has_flashinfer_sm90_nope_mla", True)
    machine.pin(flashinfer, "has_flashinfer_sparse_mla_sm120_config", True)
    if machine.host["platform"] == "rocm":  # what vLLM publishes for it is without FlashAttention
        flash = importlib.import_module("vllm.vllm_flash_attn.flash_attn_interface")
        machine.pin(flash, "is_fa_version_supported", False)
    utils = importlib.import_module("vllm.triton_utils")
    if not utils.HAS_TRITON:
        # vLLM's placeholder for Triton, used without a GPU, accepts every data type.
        utils.tl.__getattr__ = lambda _name: None
        machine.stand_ins["triton.language"] = "vLLM's place-holder, with every name"
    try:
        operators = importlib.import_module("vllm._custom_ops")
    except ImportError:
        return
    # Import-time queries for compiled weight kernels: none are here.
    for name in dir(operators):
        if "supports_" in name or "_has_amx" in name or name.endswith("_supported"):
            machine.pin(operators, name, False)
