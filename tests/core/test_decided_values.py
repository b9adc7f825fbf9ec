"""One field of `Plan` is all that a new decided value takes."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import weakref
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Annotated

import pytest

import workbench as wb
from workbench.core.plan import Plan
from workbench.core.published import json_schema
from workbench.core.versions import RULE_SETS
from workbench.core.working_plan import WorkingPlan
from workbench.models import load_model
from workbench.scenario.schema import published_schema

ROOT = Path(__file__).parents[2]
PUBLISHED = """
model rules is_hybrid use_mla backend plain_backend draft_backend mamba_backend block_size
mamba_block_size mamba_cache_mode mamba_cache_dtype mamba_ssm_cache_dtype enable_prefix_caching
speculative_method model_dtype kv_cache_dtype draft_kv_cache_dtype max_model_len
max_num_batched_tokens max_num_seqs num_kv_heads_per_rank head_size attention_bytes_per_token
attention_page_size_bytes mamba_page_size_bytes layer_state_bytes mamba_page_size_padded
padding_percent kernel_block_size kernel_blocks_per_block mamba_state_shapes layer_state_shapes
mamba_state_dtypes supported_kernel_block_sizes groups tensors num_blocks blocks_per_request
max_concurrency scheduler_block_size hash_block_size cache_layout placements stages log_lines
problems trace
"""
"""Names in a published plan, in order: programs read them, so that none may go or get others."""
FIELD = '    toy_size_bytes: int | None = decided("what a toy takes", "bytes")\n'
PROGRAM = f"""
import json, sys
from dataclasses import replace
from importlib.util import find_spec
from types import ModuleType

spec = find_spec("workbench.core.plan")
source = open(spec.origin).read()
before = "    block_size: int = decided("
assert source.count(before) == 1
module = sys.modules[spec.name] = ModuleType(spec.name)
exec(compile(source.replace(before, {FIELD!r} + before), spec.origin, "exec"), vars(module))

import workbench as wb
from workbench.core.resolve import resolve
from workbench.core.versions import RULE_SETS
from workbench.models import load_model
from workbench.scenario.schema import published_schema

def toy(plan):
    assert plan.toy_size_bytes is None
    plan.toy_size_bytes = 7

rules = RULE_SETS["0.23"]
RULE_SETS.remove("0.23")
RULE_SETS.add("0.23", replace(rules, stages=(*rules.stages, toy)))
scenario = wb.Scenario()
published = resolve(load_model(scenario.model), scenario).to_dict()
schema = published_schema()["$defs"]["plan"]
print(json.dumps([list(published), published, schema]))
"""


def test_a_plan_publishes_these_names_and_no_others():
    assert list(published_schema()["$defs"]["plan"]["properties"]) == PUBLISHED.split()
    assert set(wb.resolve("qwen3.5-4b", num_speculative_tokens=1).to_dict()) <= {*PUBLISHED.split()}


def test_a_new_decided_value_is_one_field():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, cwd=ROOT
    )
    names, published, schema = json.loads(done.stdout)
    assert published["toy_size_bytes"] == 7
    assert schema["properties"]["toy_size_bytes"] == {
        "type": ["integer", "null"],
        "description": "what a toy takes, in bytes",
    }
    assert names == schema["required"]
    assert names.index("toy_size_bytes") == names.index("block_size") - 1


def test_every_value_says_what_it_means():
    assert [one.name for one in fields(Plan)] == [
        name for name in Plan.declarations if name in Plan.__slots__
    ]
    assert all(declared.meaning for declared in Plan.declarations.values())


def test_a_size_says_its_unit():
    ends = {"_bytes": "bytes", "_tokens": "tokens", "_blocks": "blocks", "block_size": "tokens"}
    for name, declared in Plan.declarations.items():
        for end, unit in ends.items():
            assert declared.unit == unit or not name.endswith(end), name


def test_the_dictionary_has_the_names_of_the_schema():
    schema = published_schema()["$defs"]["plan"]["properties"]
    assert list(wb.resolve(wb.Scenario()).to_dict()) == list(schema)
    assert all(value.get("description") for value in schema.values())


def working_plan() -> WorkingPlan:
    scenario = wb.Scenario(block_size=32, mamba_block_size=64)
    return WorkingPlan(load_model(scenario.model), scenario, RULE_SETS["0.23"])


def test_the_working_twin_begins_with_what_is_set_explicitly():
    working = working_plan()
    assert (working.block_size, working.mamba_block_size) == (32, 64)
    assert working.kernel_block_size is None
    assert working.steps == ()


def test_the_working_twin_has_the_fields_of_a_plan_and_no_others():
    working = working_plan()
    working.block_size = 48
    with pytest.raises(AttributeError):
        working.blok_size = 48
    plan = working.finished()
    assert plan.block_size == 48
    assert type(plan) is Plan


def test_nothing_of_a_finished_plan_can_be_set():
    working = working_plan()
    plan = working.finished()
    for kept in (working, plan):
        with pytest.raises(FrozenInstanceError):
            kept.block_size = 16
        with pytest.raises(FrozenInstanceError):
            del kept.block_size


@pytest.mark.parametrize("rules", RULE_SETS)
def test_a_plan_goes_to_another_process_with_its_rules(rules):
    plan = wb.resolve(rules=rules, kv_cache_memory_bytes=2**33)
    for again in (pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan)):
        assert again == plan
        assert again.rules is plan.rules
    assert weakref.ref(plan)() is plan


def test_the_schema_of_a_value_with_a_unit_is_that_of_the_value():
    schema = json_schema(Annotated[int | None, "tokens"])
    assert schema == {"type": ["integer", "null"], "description": "tokens"}
