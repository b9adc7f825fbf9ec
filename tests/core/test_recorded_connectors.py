"""Connectors of real engines, as vLLM 0.23 and 0.33 and LMCache 0.5.6 decide without a GPU.

`tests/data/connectors.jsonl.gz` holds what `tools/record_connectors.py` recorded.
"""

from __future__ import annotations

from math import lcm

import pytest

import workbench as wb
from tests.groups import in_groups
from tests.recorded import recorded
from workbench.core.chunks.connectors import LMCACHE, MOONCAKE, OFFLOADING
from workbench.core.offload.plan import OffloadRequest, offload
from workbench.core.problems import ERROR

RECORDED = recorded("connectors")
FIELDS = {"tensor_parallel_size": "tensor_parallel"}


def plan_of(line):
    values = {FIELDS.get(name, name): value for name, value in line["arguments"].items()}
    major, minor = line["capability"]
    return wb.resolve(
        model=line.get("config", line["model"]),
        rules=line["vllm"].removesuffix(".0"),
        compute_capability=f"{major}.{minor}",
        **values,
    )


def name_of(line):
    return f"{line['model']}-{line['connector']}-{line['vllm']}"


@in_groups
@pytest.mark.parametrize("line", RECORDED, ids=name_of)
def test_the_answer_is_that_of_the_installed_packages(line):
    found = plan_of(line).chunks(connector=line["connector"], chunk_tokens=2**20 - 1)
    (member,) = found.members
    errors = [one for one in member.problems if one.severity == ERROR]
    if "refused" in line:
        text = errors[0].vllm_text
        assert text.split(" ")[0] in line["refused"] or errors[0].code.startswith("connector_needs")
        if errors[0].code != "connector_needs_one_group":
            assert text in line["refused"]
        return
    assert errors == []
    groups = member.plan.cache.groups
    assert [group.spec.block_size for group in groups] == line["blocks"]
    assert member.plan.settings.disable_hybrid_kv_cache_manager in {
        False,
        not line["hybrid_manager"],
    }
    if line["connector"] == LMCACHE:
        assert [piece.tokens for piece in member.pieces] == line["spans"]
        tails = [-1 if piece.tail_tokens is None else piece.tail_tokens for piece in member.pieces]
        assert tails == line["windows"]
    if line["connector"] in {LMCACHE, MOONCAKE}:
        assert member.unit_tokens == line["scheduler_block_size"]
    if line["connector"] == OFFLOADING:
        assert line["factor"] == 1
        assert member.unit_tokens == lcm(*line["gpu_blocks"])
        assert [piece.tokens for piece in member.pieces] == line["gpu_blocks"]
    if "window_chunks" in line:
        offloaded = offload(member.plan, OffloadRequest(cpu_bytes_to_use=2**36))
        assert list(offloaded.gpu_block_sizes) == line["gpu_blocks"]
        assert list(offloaded.window_chunks) == line["window_chunks"]
        assert offloaded.block_sizes.hash == line["hash_block_size"]


def test_refusals_without_the_hybrid_manager_are_those_of_the_plan():
    """The text of vLLM, where one group is all that a connector takes."""
    lines = [line for line in RECORDED if "unified type" in line.get("refused", "")]
    assert lines
    for line in lines:
        other = wb.resolve(plan_of(line).scenario, disable_hybrid_kv_cache_manager=True)
        assert any((one.vllm_text or "-") in line["refused"] for one in other.errors)
