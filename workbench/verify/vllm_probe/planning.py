"""The cache of a built model, planned by vLLM's engine: groups, blocks, concurrency."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

from . import models

PLENTY_BYTES = 2**50
"""The memory of a question without one: nothing is refused for want of it."""


def plan(
    config: Any, specs: dict[str, Any], drafted: set[str], ranks_bytes: list[int] | None
) -> dict[str, Any]:
    """Return the answers of vLLM's engine about the cache; numbers of blocks where memory is given.

    specs: by layer. drafted: the layers of the drafter. ranks_bytes: the memory for the cache of
    every rank, in bytes.
    """
    from vllm.v1.core import kv_cache_utils

    joint, cache = caches(config, specs, ranks_bytes)
    units = kv_cache_utils.resolve_kv_cache_block_sizes(joint, config)
    answers = {
        "groups": [_group(group, drafted) for group in cache.kv_cache_groups],
        "scheduler_block_size": units[0],
        "hash_block_size": units[1],
        "max_model_len": config.model_config.max_model_len,
    }
    if (kernel := _kernel_block(config, cache.kv_cache_groups, drafted)) is not None:
        answers["kernel_block_size"] = kernel
    if hasattr(cache, "kv_cache_layout"):
        answers["cache_layout"] = cache.kv_cache_layout
    return answers if ranks_bytes is None else {**answers, **_sizes(config, cache)}


def caches(config: Any, specs: dict[str, Any], ranks_bytes: list[int] | None) -> tuple[Any, Any]:
    """Return the KVCacheConfig of all ranks, which shows one spec per group, and of the first."""
    from vllm.v1.engine.core import EngineCore

    executor = _Executor(config, specs, ranks_bytes or [PLENTY_BYTES])
    engine = SimpleNamespace(
        model_executor=executor,
        available_gpu_memory_for_kv_cache=-1,
        collective_rpc=lambda *_, **__: None,
    )
    joint = EngineCore._initialize_kv_caches(engine, config)  # noqa: SLF001  (its only entry)
    return joint, executor.caches[0]


class _Executor:
    """The ranks as the engine sees them: what they would measure is given, and nothing is run."""

    def __init__(self, config: Any, specs: dict[str, Any], ranks_bytes: list[int]) -> None:
        self.worker = SimpleNamespace(vllm_config=config)
        self.specs = specs
        self.ranks_bytes = ranks_bytes
        self.caches: list[Any] = []

    def get_kv_cache_specs(self) -> list[dict[str, Any]]:
        return [self.specs] * len(self.ranks_bytes)

    def get_supported_kv_cache_layouts(self) -> list[list[str]]:
        from vllm.v1.worker.worker_base import WorkerBase

        return [WorkerBase.get_supported_kv_cache_layouts(self.worker)] * len(self.ranks_bytes)

    def set_kv_cache_layout(self, *given: Any) -> None:
        from vllm.v1.worker.worker_base import WorkerBase

        WorkerBase.set_kv_cache_layout(self.worker, *given)

    def determine_available_memory(self) -> list[int]:
        return self.ranks_bytes

    def initialize_from_config(self, caches: list[Any]) -> None:
        self.caches = caches

    def compile_or_warm_up_model(self) -> None:
        return


def _kernel_block(config: Any, groups: Any, drafted: set[str]) -> int | None:
    """Return what suits every layer that shares the blocks of the first attention layer."""
    from vllm.v1.worker.utils import select_common_block_size

    layers = config.compilation_config.static_forward_context
    first, _ = models.first_layers(config, drafted)
    shared = next((group.layer_names for group in groups if first in group.layer_names), ())
    backends = {layers[name].get_attn_backend() for name in shared}
    if len(backends) < 2:  # that of one alone is known
        return None
    size: int = select_common_block_size(config.cache_config.block_size, list(backends))
    return size


def _group(group: Any, drafted: set[str]) -> dict[str, Any]:
    """Return the group's class, page and layers as [class, block, page, is drafted, count]."""
    spec = group.kv_cache_spec
    own = getattr(spec, "kv_cache_specs", None) or dict.fromkeys(group.layer_names, spec)
    counts = Counter(
        (type(own[name]).__name__, own[name].block_size, own[name].page_size_bytes, name in drafted)
        for name in group.layer_names
    )
    return {
        "kind": type(spec).__name__,
        "block_size": spec.block_size,
        "page_size_bytes": spec.page_size_bytes,
        "layers": [[*one, count] for one, count in counts.items()],
    }


def _sizes(config: Any, cache: Any) -> dict[str, Any]:
    from vllm.v1.core import kv_cache_utils

    tensors = cache.kv_cache_tensors
    own = [tensor.size for tensor in tensors if hasattr(tensor, "shared_by")]
    concurrency = None
    if cache.kv_cache_groups:
        count = kv_cache_utils.get_max_concurrency_for_kv_cache_config
        concurrency = count(config, cache)
    return {
        "num_blocks": cache.num_blocks,
        "max_concurrency": concurrency,
        # Each has its own memory in 0.23; all are places of one allocation in 0.33.
        "tensor_bytes": sum(own) if own else max((one.size for one in tensors), default=0),
        "tensors": len(own) or None,
    }
