"""Record the views that an installed vLLM's model runner gives every layer of real models.

    ~/vllm-0.33/bin/python tools/record_views.py < questions.jsonl > answers.jsonl

Run by the Python of that vLLM, on any machine: the model and its cache are on torch's meta device.
Questions are those of record_cache_groups.py. Answers: `kernel_blocks` of the groups, and of each
layer the [shape, strides, offset, dtype] of its view, in elements; of states a list of them.
"""

import sys
from types import SimpleNamespace
from typing import Any

import record_cache_groups as groups


def _views(question: dict[str, Any], machine: Any) -> dict[str, Any]:
    from vllm.config import set_current_vllm_config
    from vllm_probe import planning

    config, rank, ranks_bytes = groups.only_rank(question, machine)
    with set_current_vllm_config(config):
        _joint, [cache] = planning.caches(config, [rank], ranks_bytes)
        kernel_blocks, found = _of_runner(config, cache)
    views = {name: _plain(view) for name, view in found.items()}
    return {"num_blocks": cache.num_blocks, "kernel_blocks": kernel_blocks, "views": views}


def _of_runner(config: Any, cache: Any) -> tuple[list[int], dict[str, Any]]:
    """Return the kernel blocks of the groups and the views of the runner that serves this."""
    import torch
    from vllm.v1.worker import utils
    from vllm.v1.worker.gpu import attn_utils

    _without_builders(utils, attn_utils)
    place, layers = torch.device("meta"), config.compilation_config.static_forward_context
    attention, _graphs, kernels = attn_utils.init_attn_backend(cache, config, place)
    if hasattr(attn_utils, "init_kv_cache") and hasattr(utils, "allocate_kv_cache"):
        layout = config.cache_config.get_resolved_kv_cache_layout()
        found = utils.allocate_kv_cache(cache, place, layout, kernels)
        flat = [one for of_group in attention for one in of_group]
        mine = {name: view for name, view in found.items() if name in layers}
        return kernels, utils.map_kv_caches_to_kernel_blocks(mine, flat)
    raw = attn_utils._allocate_kv_cache(cache, {}, place)  # noqa: SLF001
    if config.use_v2_model_runner:
        flat = [one for of_group in attention for one in of_group]
        dtype = config.cache_config.cache_dtype
        return kernels, attn_utils._reshape_kv_cache(flat, raw, dtype, kernels, {})  # noqa: SLF001
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner = SimpleNamespace(
        _kv_cache_spec_attn_group_iterator=lambda: (one for kind in attention for one in kind),
        runner_only_attn_layers=set(),
        cache_config=config.cache_config,
        _update_hybrid_attention_mamba_layout=lambda *_: None,
    )
    return kernels, GPUModelRunner._reshape_kv_cache_tensors(runner, raw, kernels)  # noqa: SLF001


def _without_builders(*modules: Any) -> None:
    """Let backends build no metadata: that needs a device, and no view depends on it."""
    from vllm.v1.attention.backend import AttentionCGSupport

    class Builder:
        requires_block_table_width = False

        def __init__(self, *_given: Any, **_options: Any) -> None:
            return

        @staticmethod
        def get_cudagraph_support(*_given: Any) -> Any:
            return AttentionCGSupport.NEVER

    def create(group: Any, *given: Any, **options: Any) -> None:
        own = {"get_builder_cls": staticmethod(lambda: Builder)}
        group.backend = type(group.backend.__name__, (group.backend,), own)
        original(group, *given, **options)

    groups = {module.AttentionGroup for module in modules if hasattr(module, "AttentionGroup")}
    for kind in groups:
        if kind.create_metadata_builders.__name__ == "create":
            continue
        original = kind.create_metadata_builders
        kind.create_metadata_builders = create


def _plain(view: Any) -> Any:
    if isinstance(view, list | tuple):
        return [_plain(one) for one in view]
    dtype = str(view.dtype).removeprefix("torch.")
    return [list(view.shape), list(view.stride()), view.storage_offset(), dtype]


if __name__ == "__main__":
    sys.exit(groups.answer_questions(_views))
