"""Record what connectors make of real models' caches, as installed packages decide it, without GPU.

    ~/vllm-0.33/bin/python tools/record_connectors.py ~/lmcache < questions.jsonl > answers.jsonl

Run by the Python of that vLLM; the argument is a folder with the unpacked LMCache wheel, whose
compiled parts are replaced by names (none: for connectors of vLLM alone). Questions as for
tools/record_cache_groups.py, with "connector" in addition. The real `KVConnectorFactory`,
`build_offloading_config`, `MooncakeStoreConnector` and LMCache's functions answer.
"""

import sys
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any
from unittest.mock import MagicMock

import record_cache_groups as groups

COMPILED = ("lmcache.lmcache_native", "lmcache.cuda_ops", "lmcache.lmcache_redis")
NOT_NEEDED = ("sortedcontainers", "msgpack", "uvicorn", "orjson", "cupy", "mooncake", "numba")
PLACE = "vllm.distributed.kv_transfer.kv_connector"


class _Absent(MetaPathFinder, Loader):
    """Finds what is not installed and never called here: a name with any attribute."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return the module, if it is one of those."""
        absent = fullname in COMPILED or fullname.partition(".")[0] in NOT_NEEDED
        return ModuleSpec(fullname, self, is_package=True) if absent else None

    def create_module(self, spec: ModuleSpec) -> Any:
        """Return what has every attribute."""
        return MagicMock(__path__=[], __spec__=spec)

    def exec_module(self, module: Any) -> None:
        """Do nothing."""


@cache
def _replace_compiled() -> None:
    """Let the packages of the command line be imported, once a platform is played."""
    if sys.argv[1:]:
        sys.meta_path.append(_Absent())  # after those that find what is installed
        sys.path += sys.argv[1:]
        lmcache = import_module("lmcache")
        sys.modules.update({name: MagicMock() for name in COMPILED})
        for name in ("device_ops", "c_ops"):
            if not hasattr(lmcache, name):
                setattr(lmcache, name, MagicMock())


def _answer(question: dict[str, Any], machine: Any) -> dict[str, Any]:
    """Build the engine with the connector, and ask what belongs to it; a refusal is an answer."""
    answer: dict[str, Any] = {}
    try:
        _replace_compiled()
        _ask(question, machine, answer)
    except Exception as error:  # noqa: BLE001
        answer["refused"] = f"{type(error).__name__}: {error}"
    return answer


def _ask(question: dict[str, Any], machine: Any, answer: dict[str, Any]) -> None:
    import vllm
    from vllm_probe import planning

    name = question["connector"]
    transfer = {"kv_connector": name, "kv_role": "kv_both"}
    transfer["kv_connector_extra_config"] = question.get("extra_config", {})
    arguments = {**question["arguments"], "kv_transfer_config": transfer}
    config, rank, ranks_bytes = groups.only_rank({**question, "arguments": arguments}, machine)
    cache, _own = planning.caches(config, [rank], ranks_bytes)
    hybrid_manager = not config.scheduler_config.disable_hybrid_kv_cache_manager
    answer |= {"vllm": vllm.__version__, "hybrid_manager": hybrid_manager}
    answer["blocks"] = [group.kv_cache_spec.block_size for group in cache.kv_cache_groups]
    answer |= ANSWERS[name](config, cache)


def _of_server(config: Any, cache: Any) -> dict[str, Any]:
    connector = import_module("lmcache.integration.vllm.lmcache_mp_connector")
    sliding = import_module("lmcache.integration.vllm.kv_cache_groups")
    edits = import_module("lmcache.integration.vllm.kv_cache_group_edits")
    edits.validate_kv_cache_groups(cache)
    connector.validate_mamba_step_alignment(config, cache)
    names = [name for group in cache.kv_cache_groups for name in group.layer_names]
    places = {name: number for number, name in enumerate(names)}
    windows = sliding._resolve_per_layer_sw_sizes(  # noqa: SLF001
        cache.kv_cache_groups, places, len(names)
    )
    return {
        "spans": connector.get_group_tokens_per_block(config, cache),
        "scheduler_block_size": connector.get_vllm_scheduler_block_size(config, cache),
        "windows": [windows[places[group.layer_names[0]]] for group in cache.kv_cache_groups],
    }


def _of_store(config: Any, cache: Any) -> dict[str, Any]:
    from vllm.v1.core.kv_cache_utils import resolve_kv_cache_block_sizes

    store = import_module(f"{PLACE}.v1.mooncake.store.connector").MooncakeStoreConnector
    store._validate_kv_cache_config(config, cache)  # noqa: SLF001
    scheduler, unit = resolve_kv_cache_block_sizes(cache, config)
    return {"scheduler_block_size": scheduler, "hash_block_size": unit}


def _of_offload(config: Any, cache: Any) -> dict[str, Any]:
    try:
        offloading = import_module(f"{PLACE}.v1.offloading.config")
    except ImportError:
        base = import_module("vllm.v1.kv_offload.base")

        class Spec(base.OffloadingSpec):  # type: ignore[misc, name-defined]
            get_manager = get_handlers = None

        Spec.__abstractmethods__ = frozenset()
        spec = Spec(config, cache)
        return {"gpu_blocks": list(spec.gpu_block_size), "factor": spec.block_size_factor}
    found = offloading.build_offloading_config(config, cache)
    return {
        "gpu_blocks": [group.tokens_per_block for group in found.groups],
        "factor": found.cache.blocks_per_chunk,
        "hash_block_size": found.cache.tokens_per_hash,
        "window_chunks": [group.sliding_window_size_in_chunks for group in found.groups],
    }


ANSWERS = {
    "LMCacheMPConnector": _of_server,
    "MooncakeStoreConnector": _of_store,
    "OffloadingConnector": _of_offload,
    "LMCacheConnectorV1": lambda _config, _cache: {},
}
"""Connector -> what answers for it."""


if __name__ == "__main__":
    sys.exit(groups.answer_questions(_answer))
