"""What real models gave to vLLM, one per architecture, and what the workbench plans for them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from tests.recorded import DATA, recorded
from workbench.core.errors import WorkbenchError
from workbench.core.groups.grouping import Group
from workbench.core.groups.layer_backend import layer_backend
from workbench.core.plan import Plan
from workbench.core.resolve import resolve
from workbench.models.read import read_model
from workbench.scenario import Scenario

NAMES = {"backend": "backend", "kv_cache_memory_bytes": "kv_cache_memory_bytes"}
GROUPS = "groups"

OTHER_BACKENDS = {
    "KimiK3ForConditionalGeneration": "KIMI_K3_KDA keeps its states, a plan has GDN_ATTN",
    "Qwen4ExpForCausalLM": "PLE_SHORT_CONV_ATTN keeps some states, a plan has one name for all",
    "Qwen4ExpForConditionalGeneration": "as Qwen4ExpForCausalLM",
}
"""Architectures whose sizes are compared and whose names of backends are not, and why."""


@cache
def covered() -> list[dict[str, Any]]:
    """Return every recorded answer of tools/record_coverage.py."""
    return recorded("coverage")


def drafter_classes() -> dict[str, dict[str, list[str]]]:
    """Return release -> class that drafts -> the recorded plans that it drafts in."""
    found: dict[str, dict[str, list[str]]] = json.loads((DATA / "drafter_classes.json").read_text())
    return found


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
    # the recording ends before the scheduler builds its managers
    errors = [error for error in plan.errors if error.code != "cache_manager_not_built"]
    if errors:
        return errors[0].message
    if plan.model.pooling is not None and plan.model.pooling.sees_later:
        return {"block_size": plan.block_size, "groups": []}
    cache_plan = plan.built_cache()
    groups = sorted(
        [
            group.kind,
            group.spec.block_size,
            group.page_size_bytes,
            len(group.layers),
            _backends(plan, group),
        ]
        for group in cache_plan.groups
    )
    return {
        "block_size": plan.block_size,
        "num_blocks": cache_plan.num_blocks,
        "max_concurrency": cache_plan.max_concurrency,
        "groups": groups,
    }


def _backends(plan: Plan, group: Group) -> list[str]:
    """Return the names of what reads the layers of a group, as vLLM registers or reports them."""
    layers = zip(group.layers, group.layer_specs, strict=True)
    named = {layer_backend(plan, spec, name) for name, spec in layers}
    found = [plan.rules.backends[name] for name in named if name is not None]
    return sorted(one.name if one.is_selectable else one.log_name for one in found)


def differs(answer: dict[str, Any], planned: dict[str, Any]) -> bool:
    """Return whether a planned number is not the recorded one; older records hold fewer."""
    return any(
        planned[name] != answer[name] for name in answer.keys() & planned.keys() - {GROUPS}
    ) or (_comparable(answer, planned[GROUPS]) != _comparable(answer, answer[GROUPS]))


def _comparable(answer: dict[str, Any], groups: list[Any]) -> list[Any]:
    """Return what can be compared of groups: names of backends where they were recorded."""
    named = "max_concurrency" in answer and answer["architecture"] not in OTHER_BACKENDS
    return groups if named else [group[:4] for group in groups]
