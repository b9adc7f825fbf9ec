"""Record what the block tables of vLLM 0.33 compute, for tests/data/block_tables_0_33.json.

    .venv/bin/python tools/record_block_tables.py ~/vllm-0.33/lib/python3.11/site-packages

Its own files run in Triton's interpreter: fused writer, windows, groups without slots, groups that
are not sharded, packed caches, rows that a larger batch left.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "block_tables_0_33.json"
ROWS, TOKENS, POOL = 5, 70, 900
FIELDS = (
    "block_size",
    "kernel_block_size",
    "max_blocks",
    "window_reach",
    "has_slots",
    "is_sharded",
    "kernel_block_stride",
)
"""Of a `TableGroup`, in the order of the lists below."""
CASES = {
    "one group": ([(16, 16, 12, 0, True, True, 0)], (1, 0, 1)),
    "windows": ([(16, 16, 12, 20, True, True, 0), (32, 16, 6, 0, True, True, 0)], (1, 0, 1)),
    "no slots": ([(16, 16, 12, 0, True, True, 0), (96, 96, 2, 0, False, True, 0)], (1, 0, 1)),
    "packed": ([(64, 16, 3, 33, True, True, 9), (16, 16, 12, 0, True, True, 0)], (1, 0, 1)),
    "shards": ([(16, 16, 12, 40, True, True, 0), (32, 32, 9, 0, True, False, 0)], (2, 1, 4)),
}
"""Name -> groups, and the size, rank and interleave of context parallelism."""


def steps_of(name: str) -> list[dict[str, Any]]:
    """Return three steps, drawn by the case's name: writes, then a batch."""
    groups, (ranks, _rank, _interleave) = CASES[name]
    draw = random.Random(name)  # noqa: S311 - the same steps every time
    tokens: dict[int, int] = {}
    steps = []
    for count in (4, 2, 3):
        rows = draw.sample(range(ROWS), count)
        writes, starts, positions = [], [0], []
        for row in rows:
            begins = row not in tokens or draw.random() < 0.4
            before = 0 if begins else tokens[row]
            tokens[row] = min(before + draw.randint(1, 90), 16 * 12)
            ids = []
            for size, _kernel, _most, _reach, _slots, sharded, _stride in groups:
                whole = size * (ranks if sharded else 1)
                wanted = -(-tokens[row] // whole) - (0 if begins else -(-before // whole))
                ids.append(draw.sample(range(1, POOL), wanted))
            writes.append([row, begins, ids])
            new = min(tokens[row] - before, draw.randint(1, 16))
            positions += range(tokens[row] - new, tokens[row])
            starts.append(len(positions))
        batch = {"idx_mapping": rows, "query_start_loc": starts, "positions": positions}
        steps.append({"writes": writes, **batch, "padded": draw.randint(count, 4)})
    return steps


def recorded(source: Any, name: str) -> dict[str, Any]:
    """Run a case with vLLM's own classes, and return what it was given and what it wrote."""
    from types import SimpleNamespace

    import torch

    from workbench.kernels.bench.vllm_source import importable
    from workbench.kernels.bench.vllm_tables import load_vllm

    loaded = load_vllm(source, "cpu")
    groups, (size, rank, interleave) = CASES[name]
    columns = dict(zip(FIELDS, map(list, zip(*groups, strict=True)), strict=True))
    with importable(loaded.modules):
        tables = vars(loaded.tables)["BlockTables"](
            block_sizes=columns["block_size"],
            max_num_reqs=ROWS,
            max_num_batched_tokens=TOKENS,
            max_num_blocks_per_group=columns["max_blocks"],
            device=torch.device("cpu"),
            cp_size=size,
            cp_rank=rank,
            cp_interleave=interleave,
            slot_mapping_enabled=columns["has_slots"],
            dcp_sharded=columns["is_sharded"],
            sliding_window_reach=columns["window_reach"],
        )
    steps = steps_of(name)
    for step in steps:
        for row, begins, ids in step["writes"]:
            tables.append_block_ids(row, tuple(ids), begins)
        tables.apply_staged_writes()
        batch = (step["idx_mapping"], step["query_start_loc"], step["positions"])
        rows, starts, positions = (torch.tensor(values, dtype=torch.int32) for values in batch)
        computed = torch.zeros(ROWS, dtype=torch.int32)
        computed[rows.long()] = positions[starts[:-1].long()]
        found = tables.gather_block_tables(rows, step["padded"], num_computed_tokens=computed)
        step["gathered"] = [table.tolist() for table in tables.input_block_tables]
        step["kernel_tables"] = [
            _split(SimpleNamespace, loaded.expand, dict(zip(FIELDS, group, strict=True)), table)
            for group, table in zip(groups, found, strict=True)
        ]
        slots = tables.compute_slot_mappings(rows, starts, positions.long(), TOKENS)
        step["slots"] = slots.tolist()
    named = [dict(zip(FIELDS, group, strict=True)) for group in groups]
    return {"name": name, "groups": named, "parallel": [size, rank, interleave], "steps": steps}


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
    """Record every case of the vLLM in the named folder."""
    from workbench.kernels.bench.vllm_tables import find_vllm

    source = find_vllm(sys.argv[1])
    origin = f"{source.label}, run in Triton's interpreter by tools/record_block_tables.py"
    cases = [recorded(source, name) for name in CASES]
    data = {"origin": origin, "rows": ROWS, "tokens": TOKENS, "num_blocks": POOL, "cases": cases}
    DATA.write_text(json.dumps(data, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
