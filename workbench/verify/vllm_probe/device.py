"""What replaces the device itself: tensors without memory, empty streams, named operators."""

import contextlib
import importlib
import math
import os
import types
from collections.abc import Callable, Iterator
from typing import Any

PROCESSORS = 132
"""Multiprocessors; sizes of work buffers that no question covers depend on it."""
LARGE = 2**24
"""Elements from which on a tensor in the memory of the host is one of a model."""
GROUPS = (
    *("_WORLD", "_TP", "_EP", "_ETP", "_EPLB", "_DP", "_PP", "_DCP", "_PCP"),
    *("_NODE_COUNT", "_ENGRAM_DP"),
)
"""vLLM's groups of ranks."""
DIRECT_EXCHANGE = ("A2A", "Q_GATHER", "KV_GATHER")
"""What ranks that share tokens may exchange through common memory, which one process has not."""


class _Empty:
    """A stream or an event that does nothing."""

    def __init__(self, *_given: Any, **_options: Any) -> None:
        return


class _Group(types.SimpleNamespace):
    """One of vLLM's groups of ranks; what is made for a group is found by it."""

    __hash__ = object.__hash__  # type: ignore[assignment]


class _Operator:
    """The name of an operator that was not compiled, and of its overloads."""

    def __getattr__(self, name: str) -> "_Operator":
        if name.startswith("__"):
            raise AttributeError(name)
        return _Operator()


def play_properties(
    stand_ins: dict[str, str], capability: tuple[int, int], gfx: str, memory_bytes: int
) -> None:
    """Set what torch says of the device; ROCm reads its architecture during an import."""
    import torch

    major, minor = capability
    properties = types.SimpleNamespace(
        name="played",
        major=major,
        minor=minor,
        gcnArchName=gfx,
        total_memory=memory_bytes,
        multi_processor_count=PROCESSORS,
    )
    torch.cuda.get_device_properties = lambda *_: properties
    stand_ins["torch.cuda.get_device_properties"] = "those of the device that is played"


def play_tensors(stand_ins: dict[str, str]) -> None:
    """Make tensors of the device tensors without memory, and its streams empty."""
    import torch
    from torch.utils import _device

    _device._device_constructors()  # noqa: SLF001  (it keeps the real ones when first called)
    for name in (
        *("empty", "zeros", "ones", "full", "tensor", "arange", "empty_strided"),
        *("empty_like", "zeros_like", "ones_like"),
    ):
        setattr(torch, name, _without_memory(getattr(torch, name)))
    stand_ins["tensors of the device"] = "tensors without memory (torch's meta device)"
    torch.cuda.current_device = torch.xpu.current_device = lambda: torch.device("meta")
    torch.xpu.get_device_properties = lambda *_: types.SimpleNamespace(
        name="played", max_compute_units=PROCESSORS
    )
    torch.accelerator.empty_cache = lambda: None
    torch.accelerator.current_device_index = lambda: 0
    torch.cuda.Stream = torch.cuda.Event = torch.Event = _Empty
    torch.xpu.Stream = torch.xpu.Event = torch.Stream = _Empty
    stand_ins["streams and events"] = "objects that do nothing"


def play_operators(stand_ins: dict[str, str]) -> None:
    """Give compiled operators their names; only after vLLM has described those that it has."""
    import torch

    real = torch._ops._OpNamespace.__getattr__  # noqa: SLF001  (there is no public hook)

    def operator(self: Any, name: str) -> Any:
        try:
            return real(self, name)
        except AttributeError:
            if name.startswith("__"):
                raise
            return _Operator()

    torch._ops._OpNamespace.__getattr__ = operator  # noqa: SLF001
    torch.ops.load_library = _loaded_if_possible(torch.ops.load_library)
    # Layers call them while they are built; no cache depends on what they return.
    torch.ops._flashkda_C.get_workspace_size = lambda *_: 0  # noqa: SLF001
    torch.ops._C.get_cuda_view_from_cpu_tensor = lambda tensor: tensor  # noqa: SLF001
    # DeepGEMM gets the place of its sources when it is imported.
    torch.ops.deep_gemm.init = torch.ops.deep_gemm.shutdown = lambda *_: None
    stand_ins["compiled operators"] = "their names; calling one fails"
    stand_ins["weights"] = "none: models are built on torch's meta device, and nothing is loaded"
    stand_ins["other ranks"] = "none: rank 0 alone, which says how many there are"
    stand_ins["memory that ranks measure"] = "what the scenario gives, else plenty"


def _loaded_if_possible(load: Callable[[str], None]) -> Callable[[str], None]:
    """Return the same function, which skips a library that needs the device's own."""

    def loaded(path: str) -> None:
        with contextlib.suppress(OSError):
            load(path)

    return loaded


def _without_memory(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same function, but tensors on the simulated device have no memory.

    Nor have large ones that the device reads from its host, such as Qwen4-Exp's table of n-grams.
    """

    def made(*given: Any, device: Any = None, **options: Any) -> Any:
        place = "meta" if str(device).startswith(("cuda", "xpu")) else device
        is_pinned = options.pop("pin_memory", False)  # there is no device that could read it
        is_size = all(isinstance(one, int) for one in given)
        if is_pinned and is_size and math.prod(given) > LARGE:
            return make(1, device=place, **options).expand(*given)
        return make(*given, device=place, **options)

    return made


def play_weights() -> None:
    """Build models on the meta device and load nothing into them."""
    import torch
    from vllm.model_executor.model_loader import base_loader
    from vllm.model_executor.model_loader.utils import initialize_model

    def load_model(_self: Any, vllm_config: Any, model_config: Any, prefix: str = "") -> Any:
        with _default_dtype(model_config.dtype), torch.device("meta"):
            return initialize_model(
                vllm_config=vllm_config, model_config=model_config, prefix=prefix
            )

    base_loader.BaseModelLoader.load_model = load_model
    # 0.23 logs which experts a rank has, from a map that has no memory here.
    experts = importlib.import_module("vllm.model_executor.layers.fused_moe.expert_map_manager")
    experts.ExpertMapManager.get_compressed_map_string = lambda _self: "the first ones"
    # A tower that is moved to the CPU has no weights that could be copied.
    torch.nn.Module.to = lambda self, *_, **__: self


@contextlib.contextmanager
def _default_dtype(dtype: Any) -> Iterator[None]:
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def play_ranks(parallel: Any, stage: int = 0) -> None:
    """Set up the first rank of a pipeline stage, without any communication.

    parallel: vLLM's ParallelConfig, which says how many ranks there are of each kind.
    """
    from vllm.distributed import parallel_state

    for name in DIRECT_EXCHANGE:
        os.environ.setdefault(f"VLLM_USE_DIRECT_DCP_{name}", "0")
    ranks, stages = parallel.tensor_parallel_size, parallel.pipeline_parallel_size
    engines = parallel.data_parallel_size
    groups = {
        "_WORLD": (ranks * stages * engines, ranks * stage),
        "_TP": (ranks, 0),
        "_ETP": (ranks, 0),
        "_EP": (ranks * engines, 0),
        "_DP": (engines, 0),
        "_PP": (stages, stage),
        "_DCP": (parallel.decode_context_parallel_size, 0),
    }
    for name in GROUPS:
        size, rank = groups.get(name, (1, 0))
        if hasattr(parallel_state, name):
            setattr(parallel_state, name, _group(size, rank))


def _group(size: int, rank: int = 0) -> _Group:
    alone = _Group(size=lambda: size, rank=lambda: rank)
    return _Group(
        world_size=size,
        rank=rank,
        rank_in_group=rank,
        local_rank=0,
        ranks=list(range(size)),
        is_first_rank=rank == 0,
        is_last_rank=rank == size - 1,
        device_group=alone,
        cpu_group=alone,
        use_custom_op_call=False,
        unique_name="alone",
        device_communicator=None,
        use_device_communicator=False,
        device="meta",
        mq_broadcaster=None,
    )


def play_workspace() -> None:
    """Reserve the scratch memory that layers of quantized caches ask for while they are built."""
    import torch

    workspace = importlib.import_module("vllm.v1.worker.workspace")
    if not workspace.is_workspace_manager_initialized():
        workspace.init_workspace_manager(torch.device("meta"))
