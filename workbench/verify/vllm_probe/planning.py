"""The cache of a built model, planned by vLLM's engine: groups, blocks, concurrency."""

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from .models import Rank, registered_name

PLENTY_BYTES = 2**50
"""The memory of a question without one: nothing is refused for want of it."""
FEW_BLOCKS = 64
"""Blocks of a manager that serves no request: every block is an object."""


def plan(config: Any, ranks: list[Rank], ranks_bytes: list[int] | None) -> dict[str, Any]:
    """Return what vLLM's engine says of the cache; numbers of blocks where memory is given.

    ranks: one of every pipeline stage. ranks_bytes: for the cache of each rank, or one for all.
    """
    from vllm.v1.core import kv_cache_utils

    joint, own = caches(config, ranks, ranks_bytes)
    units = kv_cache_utils.resolve_kv_cache_block_sizes(joint, config)
    manager(config, replace(joint, num_blocks=min(joint.num_blocks, FEW_BLOCKS)), units)
    pairs = list(zip(ranks, own, strict=True))
    stages = [_stage(config, *one, sized=ranks_bytes is not None) for one in pairs]
    answers = {
        **stages[0],
        "stages": stages,
        "scheduler_block_size": units[0],
        "hash_block_size": units[1],
        "max_model_len": config.model_config.max_model_len,
    }
    first = next((one for one in pairs if one[0].first_layers[0] is not None), pairs[0])
    if (kernel := _kernel_block(*first)) is not None:
        answers["kernel_block_size"] = kernel
    return answers


def caches(config: Any, ranks: list[Rank], ranks_bytes: list[int] | None) -> tuple[Any, list[Any]]:
    """Return the KVCacheConfig of the scheduler, one spec per group, and of every stage."""
    from vllm.v1.engine.core import EngineCore

    executor = _Executor(ranks, ranks_bytes or [PLENTY_BYTES])
    engine = SimpleNamespace(
        model_executor=executor,
        available_gpu_memory_for_kv_cache=-1,
        collective_rpc=lambda *_, **__: None,
    )
    joint = EngineCore._initialize_kv_caches(engine, config)  # noqa: SLF001  (its only entry)
    return joint, executor.caches[:: executor.per_stage]


def manager(config: Any, cache: Any, units: tuple[int, int]) -> Any:
    """Return the scheduler's manager of a cache; units: of the scheduler and of its hashes."""
    from vllm.v1.core.kv_cache_manager import KVCacheManager

    speculative, ahead = config.speculative_config, hash_lookahead(config)
    options = {
        "kv_cache_config": cache,
        "max_model_len": config.model_config.max_model_len,
        "enable_caching": config.cache_config.enable_prefix_caching,
        "use_eagle": bool(speculative and speculative.use_eagle()) and not ahead,
        "scheduler_block_size": units[0],
        "hash_block_size": units[1],
        "max_in_flight_tokens": getattr(config, "max_in_flight_tokens", None),
        "max_num_batched_tokens": config.scheduler_config.max_num_batched_tokens,
        "num_hash_lookahead_tokens": ahead,
        "num_prefill_lookahead": getattr(config, "num_prefill_lookahead_tokens", 0),
        "dcp_world_size": config.parallel_config.decode_context_parallel_size,
    }
    return KVCacheManager(**known(KVCacheManager.__init__, options))


def hash_lookahead(config: Any) -> int:
    """Return the tokens after a block that its hash covers too."""
    return getattr(config, "num_hash_lookahead_tokens", None) or 0


def known(function: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that a function of this release has."""
    names = inspect.signature(function).parameters
    return {name: value for name, value in options.items() if name in names}


def _stage(config: Any, rank: Rank, cache: Any, *, sized: bool) -> dict[str, Any]:
    answers: dict[str, Any] = {
        "groups": [_group(group, rank.drafted) for group in cache.kv_cache_groups],
        "group_backends": [_backends(rank.config, group) for group in cache.kv_cache_groups],
    }
    if hasattr(cache, "kv_cache_layout"):
        answers["cache_layout"] = cache.kv_cache_layout
    return {**answers, **_sizes(config, cache)} if sized else answers


class _Executor:
    """The ranks as the engine sees them: what they would measure is given, and nothing is run."""

    def __init__(self, ranks: list[Rank], ranks_bytes: list[int]) -> None:
        self.ranks = ranks
        self.workers = [SimpleNamespace(vllm_config=rank.config) for rank in ranks]
        # Ranks of one stage are neighbours.
        self.ranks_bytes = ranks_bytes if len(ranks_bytes) > 1 else ranks_bytes * len(ranks)
        self.per_stage = len(self.ranks_bytes) // len(ranks)
        self.specs = [rank.specs for rank in ranks for _ in range(self.per_stage)]
        self.caches: list[Any] = []

    def get_kv_cache_specs(self) -> list[dict[str, Any]]:
        return self.specs

    def get_supported_kv_cache_layouts(self) -> list[list[str]]:
        from vllm.v1.worker.worker_base import WorkerBase

        return [WorkerBase.get_supported_kv_cache_layouts(worker) for worker in self.workers]

    def set_kv_cache_layout(self, *given: Any) -> None:
        from vllm.v1.worker.worker_base import WorkerBase

        for worker in self.workers:
            WorkerBase.set_kv_cache_layout(worker, *given)

    def determine_available_memory(self) -> list[int]:
        return self.ranks_bytes

    def initialize_from_config(self, caches: list[Any]) -> None:
        self.caches = caches
        for rank, cache in zip(self.ranks, caches[:: self.per_stage], strict=True):
            if rank.config.parallel_config.decode_context_parallel_size > 1:
                _check_context_parallel(rank, cache)

    def compile_or_warm_up_model(self) -> None:
        return


def _check_context_parallel(rank: Rank, cache: Any) -> None:
    """Let a runner refuse layers whose implementation cannot spread tokens over ranks."""
    import torch
    from vllm.v1.worker import cp_utils

    layers, place = rank.config.compilation_config.static_forward_context, torch.device("meta")
    for group in cache.kv_cache_groups:
        for name in group.layer_names:
            builder = layers[name].get_attn_backend().get_builder_cls()
            with _needing_a_device():
                builder(rank.specs[name], [name], rank.config, place)
    target = set(rank.config.compilation_config.static_forward_context) - rank.drafted
    given = {"target_layer_names": target} if rank.config.use_v2_model_runner else {}
    check = cp_utils.check_attention_cp_compatibility
    check(rank.config, **known(check, given))


@contextmanager
def _needing_a_device() -> Iterator[None]:
    """Let pass what is not implemented; whatever else fails may be for want of a device."""
    try:
        yield
    except NotImplementedError:
        raise
    except (AssertionError, AttributeError, ImportError, LookupError, RuntimeError):
        return
    except (TypeError, ValueError, ZeroDivisionError):
        return


def _kernel_block(rank: Rank, cache: Any) -> int | None:
    """Return what suits every layer that shares the blocks of the first attention layer."""
    from vllm.config import set_current_vllm_config
    from vllm.v1.worker.utils import select_common_block_size

    layers, groups = rank.config.compilation_config.static_forward_context, cache.kv_cache_groups
    first, _ = rank.first_layers
    group = next((group for group in groups if first in group.layer_names), None)
    if group is None:
        return None
    spec = group.kv_cache_spec
    own = getattr(spec, "kv_cache_specs", None) or dict.fromkeys(group.layer_names, spec)
    read = {(layers[name].get_attn_backend(), own[name]) for name in group.layer_names}
    if len(read) < 2:  # that of one alone is known
        return None
    # Where groups have blocks of several sizes, that of the engine is the smallest in 0.33.
    block: int = group.kv_cache_spec.block_size
    if any(map(_is_block_outermost, cache.kv_cache_tensors)):
        return block
    backends, specs = zip(*read, strict=True)
    given = {"backends": list(backends), "kv_cache_specs": list(specs)}
    with set_current_vllm_config(rank.config):
        size: int = select_common_block_size(block, **known(select_common_block_size, given))
    return size


def _is_block_outermost(tensor: Any) -> bool:
    """Return whether the pages of other layers are between the blocks of a layer."""
    # prepare_kernel_block_sizes of v1/worker/utils.py, 0.33: such blocks are never split.
    stride = getattr(tensor, "block_stride", None)
    return stride is not None and bool(stride > tensor.layer_stride)


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


def _backends(config: Any, group: Any) -> list[str]:
    """Return the names of what reads the layers of a group; none where a layer has no backend."""
    from vllm.config import set_current_vllm_config

    layers = config.compilation_config.static_forward_context
    own = (getattr(layers.get(name), "get_attn_backend", None) for name in group.layer_names)
    with set_current_vllm_config(config):
        return sorted({registered_name(one()) for one in own if one is not None})


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
