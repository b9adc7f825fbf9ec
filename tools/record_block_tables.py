"""Record again what the block tables of vLLM 0.33 compute: tests/data/block_tables_0_33.json.

    .venv/bin/python tools/record_block_tables.py ~/vllm-0.33/lib/python3.11/site-packages

Its own files run in Triton's interpreter on the groups, writes and batches of the cases in that
file: fused writer, windows, groups without slots, groups that are not sharded, packed caches, rows
that a larger batch left.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "block_tables_0_33.json"


def record(source: Any, data: dict[str, Any], case: dict[str, Any]) -> None:
    """Run a case with vLLM's own classes, and write into its steps what they wrote."""
    from types import SimpleNamespace

    import torch

    from workbench.kernels.bench.vllm_source import importable
    from workbench.kernels.bench.vllm_tables import load_vllm

    loaded = load_vllm(source, "cpu")
    groups, (size, rank, interleave) = case["groups"], case["parallel"]
    columns = {name: [group[name] for group in groups] for name in groups[0]}
    with importable(loaded.modules):
        tables = vars(loaded.tables)["BlockTables"](
            block_sizes=columns["block_size"],
            max_num_reqs=data["rows"],
            max_num_batched_tokens=data["tokens"],
            max_num_blocks_per_group=columns["max_blocks"],
            device=torch.device("cpu"),
            cp_size=size,
            cp_rank=rank,
            cp_interleave=interleave,
            slot_mapping_enabled=columns["has_slots"],
            dcp_sharded=columns["is_sharded"],
            sliding_window_reach=columns["window_reach"],
        )
    for step in case["steps"]:
        for row, begins, ids in step["writes"]:
            tables.append_block_ids(row, tuple(ids), begins)
        tables.apply_staged_writes()
        batch = (step["idx_mapping"], step["query_start_loc"], step["positions"])
        rows, starts, positions = (torch.tensor(values, dtype=torch.int32) for values in batch)
        computed = torch.zeros(data["rows"], dtype=torch.int32)
        computed[rows.long()] = positions[starts[:-1].long()]
        found = tables.gather_block_tables(rows, step["padded"], num_computed_tokens=computed)
        step["gathered"] = [table.tolist() for table in tables.input_block_tables]
        step["kernel_tables"] = [
            _split(SimpleNamespace, loaded.expand, group, table)
            for group, table in zip(groups, found, strict=True)
        ]
        slots = tables.compute_slot_mappings(rows, starts, positions.long(), data["tokens"])
        step["slots"] = slots.tolist()


def _split(namespace: Any, expand: Any, group: dict[str, Any], table: Any) -> list[list[int]]:
    """Return a gathered table as vLLM's attention group makes kernel blocks of it."""
    import torch

    ratio = group["block_size"] // group["kernel_block_size"]
    rows, blocks = table.shape
    shape = (1, rows, blocks * ratio)
    attention = namespace(
        kernel_block_size=group["kernel_block_size"],
        kernel_block_stride=group["kernel_block_stride"],
        kernel_block_table=torch.zeros(shape, dtype=torch.int32),
        kernel_block_offsets=torch.arange(ratio, dtype=torch.int32),
        kv_cache_spec=namespace(block_size=group["block_size"]),
    )
    found: list[list[int]] = expand(attention, table).tolist()
    return found


def main() -> None:
    """Record every case again with the vLLM in the named folder."""
    from workbench.kernels.bench.vllm_tables import find_vllm

    source = find_vllm(sys.argv[1])
    data = json.loads(DATA.read_text(encoding="utf-8"))
    data["origin"] = f"{source.label}, run in Triton's interpreter by tools/record_block_tables.py"
    for case in data["cases"]:
        record(source, data, case)
    DATA.write_text(json.dumps(data, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
