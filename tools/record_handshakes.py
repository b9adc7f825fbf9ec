"""Record which pairs of engines an installed vLLM's NIXL worker refuses at the handshake.

    ~/vllm-0.33/bin/python tools/record_handshakes.py 0.33 < pairs.jsonl > answers.jsonl

Run by the Python of that vLLM, with this project to import. Pairs are lines of
tests/data/handshakes.jsonl.gz: a model, and the fields of both sides. The sizes of both caches are
those of the workbench's plans; the worker's own `_validate_remote_agent_handshake` and
`TransferTopology` decide. One process plays a CUDA machine.
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

ROOT = Path(__file__).parents[1]
PLACE = "vllm.distributed.kv_transfer.kv_connector"
WORKERS = {
    "0.23": (f"{PLACE}.v1.nixl.worker", "NixlConnectorWorker"),
    "0.33": (f"{PLACE}.v1.nixl.base_worker", "NixlBaseConnectorWorker"),
}
NAMES = ("NixlWrapper", "nixl_agent_config", "nixlXferTelemetry")
REMOTE, BLOCKS_THERE = "prefill", 100


def main() -> int:
    """Print one line per pair: both sides' fields, and what the worker raised."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    rules = sys.argv[1]
    sys.path.append(str(ROOT / "tools"))
    import_module("record_cache_groups").simulated_machine(
        {"platform": "cuda", "capability": [9, 0]}
    )
    sys.path.append(str(ROOT))
    import workbench as wb

    sys.path.remove(str(ROOT))  # a folder here has the name of a package
    check, topology = _worker(rules)
    for line in map(json.loads, sys.stdin):
        pair = {**line, "rules": rules}
        sides = (pair["prefill"], pair["decode"])
        plans = (wb.resolve(model=pair["model"], rules=rules, **fields) for fields in sides)
        channel.write(json.dumps({**pair, "refused": _refusal(check, topology, *plans)}) + "\n")
    channel.flush()
    return 0


def _worker(rules: str) -> tuple[Any, Any]:
    nixl = import_module("vllm.distributed.nixl_utils")
    for name in NAMES:
        if not hasattr(nixl, name):
            setattr(nixl, name, MagicMock())
    module, name = WORKERS[rules]
    worker = getattr(import_module(module), name)
    return worker._validate_remote_agent_handshake, import_module(f"{PLACE}.utils").TransferTopology  # noqa: SLF001


def _side(plan: Any) -> dict[str, Any]:
    """Return what a worker says of its cache, per kernel block of every attention layer."""
    ratio = plan.block_size // plan.kernel_block_size
    specs = [spec for group in plan.cache.groups for spec in group.layer_specs]
    lengths = [spec.page_size_bytes // ratio for spec in specs if not spec.is_mamba]
    return {
        "block_size": plan.kernel_block_size,
        "physical_blocks_per_logical_kv_block": ratio,
        "kv_cache_layout": "LBHNC" if plan.rules.layouts.one_view else "HND",
        "attn_backend_name": plan.backend,
        "block_lens": lengths,
        "block_strides": lengths,
    }


def _refusal(check: Any, topology: Any, prefill: Any, decode: Any) -> str | None:
    attention, here = decode.model.attention, _side(decode)
    ranks, heads = decode.settings.tensor_parallel, attention.num_kv_heads
    has_states = decode.model.ssm_layers > 0
    windows = any(group.spec.window_tokens is not None for group in decode.cache.groups)
    known = object.__new__(topology)
    vars(known).update(
        tp_rank=0, tp_size=ranks, block_size=decode.kernel_block_size, engine_id="decode",
        is_mla=attention.use_mla, is_mamba=has_states, dcp_size=1,
        total_num_kv_heads=1 if attention.use_mla else heads,
        local_physical_heads=max(1, heads // ranks), _engines={
            (REMOTE, 0): SimpleNamespace(
                remote_tp_size=prefill.settings.tensor_parallel, remote_dcp_size=1
            )
        },
    )  # fmt: skip
    worker = SimpleNamespace(
        transfer_topo=known, dcp_size=1, use_mla=attention.use_mla, _has_mamba=has_states,
        _head_sharded_draft_regions=set(), _head_sharded_draft_kv_heads=None,
        _physical_blocks_per_logical_kv_block=here["physical_blocks_per_logical_kv_block"],
        region_group_ids=None, vllm_config=SimpleNamespace(
            cache_config=SimpleNamespace(enable_prefix_caching=decode.enable_prefix_caching)
        ),
        use_host_buffer=False, kv_cache_layout=here["kv_cache_layout"],
        kv_transfer_config=SimpleNamespace(enable_permute_local_kv=False),
        _is_hma_required=has_states or windows, enable_permute_local_kv=False,
        backend_name=decode.backend, _layer_specs={}, block_len_per_layer=here["block_lens"],
        _transfer_layer_region_indices=None, _is_region_replicated=lambda _region: False,
        dst_num_blocks={REMOTE: BLOCKS_THERE},
    )  # fmt: skip
    there = _side(prefill)
    remote = SimpleNamespace(
        engine_id=REMOTE, num_blocks=BLOCKS_THERE, region_num_blocks=None, region_group_ids=None,
        kv_caches_base_addr=[0] * len(there["block_lens"]), region_names=None,
        region_mem_types=None, **there,
    )  # fmt: skip
    try:
        check(worker, remote, prefill.settings.tensor_parallel)
    except Exception as error:  # noqa: BLE001  (a refusal is also an answer)
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    sys.exit(main())
