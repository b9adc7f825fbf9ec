"""Record the KV-cache groups of real models, as an installed vLLM makes them, without a GPU.

    ~/vllm-0.33/bin/python tools/record_cache_groups.py < questions.jsonl > answers.jsonl

Run by the Python of that vLLM. The target model and its MTP drafter are built on torch's meta
device; their own layers give the specs, and vLLM's own functions group them. One question per line:
{"config": config.json, "platform": "cuda", "capability": [9, 0], "arguments": {...}} with the
arguments of EngineArgs, kv_cache_memory_bytes among them; one process plays one platform.
"""

import json
import os
import sys
from collections import Counter
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

PROBE_FOLDER = Path(__file__).parents[1] / "workbench" / "verify"


class _Nothing:
    """A stream or an event that does nothing."""

    def __init__(self, *_given: Any, **_options: Any) -> None:
        return


def main() -> int:
    """Answer every line of standard input."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    questions = [json.loads(line) for line in sys.stdin if line.strip()]
    machine = simulated_machine(questions[0])
    for question in questions:
        try:
            answer = _answer(question, machine)
        except Exception as error:  # noqa: BLE001  (a refusal by vLLM is also an answer)
            answer = {"refused": {"type": type(error).__name__, "message": str(error)}}
            if os.environ.get("RECORD_TRACES"):
                import traceback

                traceback.print_exc()
        channel.write(json.dumps({**question, **answer}) + "\n")
        channel.flush()
    return 0


def simulated_machine(question: dict[str, Any]) -> Any:
    """Return the platform of a question, which this process plays from now on."""
    from torch.utils import _device

    # Tensors go to the meta device if their constructor is one of these, which are found before
    # the machine replaces some.
    _device._device_constructors()  # noqa: SLF001
    sys.path.append(str(PROBE_FOLDER))
    from vllm_probe.machine import play

    machine = play({"platform": question["platform"], "capability": question.get("capability")})
    sys.path.remove(str(PROBE_FOLDER))
    _without_device()
    return machine


def _without_device() -> None:
    """Use meta tensors as device tensors, empty streams, and names as compiled operators."""
    import torch

    torch.cuda.current_device = lambda: torch.device("meta")
    torch.accelerator.empty_cache = lambda: None
    torch.cuda.Stream = torch.cuda.Event = torch.Event = _Nothing
    real = torch._ops._OpNamespace.__getattr__  # noqa: SLF001  (there is no public hook)

    def operator(self: Any, name: str) -> Any:
        try:
            return real(self, name)
        except AttributeError:
            if name.startswith("__"):
                raise
            return SimpleNamespace(default=None)

    torch._ops._OpNamespace.__getattr__ = operator  # noqa: SLF001
    from vllm.utils import import_utils

    import_utils.has_deep_gemm = lambda: True  # the indexer's kernels, which are in the CUDA wheel


def _answer(question: dict[str, Any], machine: Any) -> dict[str, Any]:
    import vllm
    from vllm.config import set_current_vllm_config

    arguments = deepcopy(question["arguments"])
    available = arguments.pop("kv_cache_memory_bytes")
    config = configuration(question["config"], arguments, machine)
    reserve_workspace()
    with set_current_vllm_config(config):
        one_rank_of(config.parallel_config.tensor_parallel_size)
        drafted = _build(config)
    machine.platform.update_block_size_for_backend(config)
    with set_current_vllm_config(config):
        specs = _specs(config)
        cache, concurrency = _cache(config, specs, available)
    config.validate_block_size()
    speculative = config.speculative_config
    return {
        "vllm": vllm.__version__,
        "method": speculative and speculative.method,
        "block_size": config.cache_config.block_size,
        "num_blocks": cache.num_blocks,
        "max_concurrency": concurrency,
        "hash_lookahead_tokens": getattr(config, "num_hash_lookahead_tokens", None),
        "drops_a_block": bool(speculative and speculative.use_eagle()),
        "is_async": bool(config.scheduler_config.async_scheduling),
        "runner": "v2" if config.use_v2_model_runner else "v1",
        "groups": [_group(group, drafted) for group in cache.kv_cache_groups],
    }


def configuration(config: dict[str, Any], arguments: dict[str, Any], machine: Any) -> Any:
    """Return vLLM's configuration of a config.json and arguments of EngineArgs."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.attention.backends.registry import AttentionBackendEnum
    from vllm_probe import configuration as probe

    probe._inspect_in_this_process()  # noqa: SLF001  (one package, two programs)
    folder = probe._model_folder(config, machine)  # noqa: SLF001
    if (backend := arguments.pop("backend", None)) is not None:
        arguments["attention_backend"] = AttentionBackendEnum[backend]
    return EngineArgs(
        model=folder,
        tokenizer=folder,
        skip_tokenizer_init=True,
        load_format="dummy",
        enforce_eager=True,
        distributed_executor_backend="mp",
        compilation_config=probe.WITHOUT_FUSION,
        **arguments,
    ).create_engine_config()


def reserve_workspace() -> None:
    """Reserve scratch memory as layers of quantized caches need while they are built."""
    import torch
    from vllm.v1.worker import workspace

    if not workspace.is_workspace_manager_initialized():
        workspace.init_workspace_manager(torch.device("meta"))


def one_rank_of(ranks: int) -> None:
    """Set up rank 0 of `ranks` ranks, without any communication."""
    from vllm.distributed import parallel_state

    def group(size: int) -> SimpleNamespace:
        alone = SimpleNamespace(size=lambda: size, rank=lambda: 0)
        return SimpleNamespace(
            world_size=size, rank=0, rank_in_group=0, local_rank=0, ranks=list(range(size)),
            is_first_rank=True, is_last_rank=True, device_group=alone, cpu_group=alone,
            use_custom_op_call=False, unique_name="alone", device_communicator=None,
            use_device_communicator=False, device="meta", mq_broadcaster=None,
        )  # fmt: skip

    for name in ("_WORLD", "_TP", "_EP", "_EPLB", "_DP", "_PP", "_DCP", "_PCP", "_NODE_COUNT"):
        if hasattr(parallel_state, name):
            setattr(parallel_state, name, group(ranks if name in {"_WORLD", "_TP", "_EP"} else 1))


def _build(config: Any) -> set[str]:
    """Build both models without weights, and return the names of the drafter's layers."""
    import torch
    from vllm.model_executor.model_loader.utils import initialize_model

    places = config.compilation_config.static_forward_context
    speculative = config.speculative_config
    before = torch.get_default_dtype()
    torch.set_default_dtype(config.model_config.dtype)
    try:
        with torch.device("meta"):
            initialize_model(vllm_config=config)
            target = set(places)
            if speculative is not None and speculative.method == "mtp":
                initialize_model(vllm_config=config, model_config=speculative.draft_model_config)
    finally:
        torch.set_default_dtype(before)
    return set(places) - target


def _specs(config: Any) -> dict[str, Any]:
    from vllm.v1.kv_cache_interface import AttentionSpec
    from vllm.v1.worker import utils

    customize = getattr(utils, "customize_attention_spec", None)
    found = {}
    for name, layer in config.compilation_config.static_forward_context.items():
        shares = getattr(layer, "kv_sharing_target_layer_name", None)
        if shares or not hasattr(layer, "get_kv_cache_spec"):
            continue
        if (spec := layer.get_kv_cache_spec(config)) is None:
            continue
        if customize is not None and isinstance(spec, AttentionSpec):
            spec = customize(layer.get_attn_backend(), spec)
        found[name] = spec
    return found


def _cache(config: Any, specs: dict[str, Any], available: int) -> tuple[Any, float]:
    from vllm.v1.core import kv_cache_utils

    try:
        from vllm.v1.attention.backends import utils
        from vllm.v1.core import kv_cache_planning as planning
        from vllm.v1.worker.worker_base import get_current_attn_backends
    except ImportError:
        (cache,) = kv_cache_utils.get_kv_cache_configs(config, [specs], [available])
    else:
        backends = get_current_attn_backends(config)
        orders = [layout.name for layout in utils.get_supported_kv_cache_layouts(backends)]
        utils.resolve_kv_cache_layout(config, [orders], list(specs.values()))
        groups = planning.get_global_kv_cache_groups(config, [specs])
        (cache,) = planning.get_kv_cache_configs(config, [specs], [available], groups)
    return cache, kv_cache_utils.get_max_concurrency_for_kv_cache_config(config, cache)


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


if __name__ == "__main__":
    sys.exit(main())
