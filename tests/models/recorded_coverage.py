"""What real models gave to vLLM, one per architecture, and what the workbench plans for them."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.core.resolve import resolve
from workbench.models.read import read_model
from workbench.scenario import Scenario

FILE = Path(__file__).parents[1] / "data" / "coverage.jsonl.gz"
NAMES = {"backend": "backend", "kv_cache_memory_bytes": "kv_cache_memory_bytes"}


@cache
def recorded() -> tuple[dict[str, Any], ...]:
    """Return every recorded answer of tools/record_coverage.py."""
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        return tuple(json.loads(line) for line in file)


def outcome(answer: dict[str, Any]) -> dict[str, Any] | str:
    """Return the planned numbers in the form of the record, or why there are none."""
    scenario = Scenario(
        model=answer["config"],
        rules=answer["rules"],
        compute_capability="9.0",
        # FlashInfer is in the wheel: 0.33 takes it for gated delta nets on these devices.
        gdn_flashinfer_prefill=answer["rules"] == "0.33",
        **answer["arguments"],
    )
    try:
        plan = resolve(read_model(answer["config"], answer["architecture"]), scenario)
    except WorkbenchError as error:
        return error.message
    if plan.errors:
        return plan.errors[0].message
    cache_plan = plan.built_cache()
    groups = sorted(
        [group.kind, group.spec.block_size, group.page_size_bytes, len(group.layers)]
        for group in cache_plan.groups
    )
    return {
        "block_size": plan.block_size,
        "num_blocks": cache_plan.num_blocks,
        "groups": groups,
    }


def differs(answer: dict[str, Any], planned: dict[str, Any]) -> bool:
    """Return whether a planned number is not the recorded one."""
    return any(answer[name] != value for name, value in planned.items())
