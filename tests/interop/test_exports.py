"""Python for vLLM, the sweep file, and flex settings of a device."""

from __future__ import annotations

import json
import shlex

import pytest
from hypothesis import assume, given, settings

import workbench as wb
from tests.core.strategies import scenarios
from workbench.core.errors import ConfigError, Refused, ScenarioError
from workbench.interop.commands.code import llm_arguments, llm_code
from workbench.interop.commands.sweep_params import sweep_command
from workbench.interop.exchange import commands_of, from_vllm_command, sweep_file
from workbench.interop.flex_settings import FlexDevice
from workbench.scenario import Scenario

PROVENANCE = {"device_name": "NVIDIA H200", "kernel_hash": "ab12"}
BEST = {
    "q_len": 16,
    "kv_len": 4096,
    "block_m": 64,
    "block_n": 32,
    "q_block_size": 64,
    "kv_block_size": 64,
    "median_us": 12.5,
    "n": 100,
}


def ran(code, llm):
    """What the code calls, with a stand-in for vLLM's class, which is not installed here."""
    names = {}
    lines = code.replace("from vllm import LLM\n", "")
    exec(compile(lines, "copied", "exec"), {"LLM": llm}, names)
    return names["llm"]


@given(scenarios())
@settings(deadline=None, max_examples=50)
def test_the_python_call_holds_what_the_command_line_holds(scenario):
    try:
        plan = wb.resolve(scenario)
    except (Refused, ConfigError):
        assume(False)
    arguments = llm_arguments(scenario, plan.model)
    code = llm_code(scenario, plan.model)
    assert ran(code, dict) == arguments
    assert ("VLLM_BATCH_INVARIANT" in code) == scenario.batch_invariant
    command = plan.to_vllm_args()[1:]
    assert len([arg for arg in command if arg.startswith("--")]) == len(arguments) - 1


def test_objects_and_switches_have_their_python_form():
    plan = wb.resolve(
        enable_prefix_caching=False, num_speculative_tokens=2, gpu_memory_utilization=0.5
    )
    arguments = llm_arguments(plan.scenario, plan.model)
    assert arguments["model"] == "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
    skipping = wb.resolve(kv_cache_dtype_skip_layers=("0", "3"), block_size=32).scenario
    several = llm_arguments(skipping, plan.model)
    assert (several["kv_cache_dtype_skip_layers"], several["block_size"]) == (["0", "3"], 32)
    assert arguments["enable_prefix_caching"] is False
    assert arguments["speculative_config"]["num_speculative_tokens"] == 2
    assert arguments["gpu_memory_utilization"] == 0.5
    assert set(commands_of(plan)) == {"vllm serve", "vLLM in Python", "workbench"}


def applied(base, record):
    """The command line that the sweep's rules make of one record (list, bool, object, value)."""
    words = list(base)
    for key, value in record.items():
        if key == "_benchmark_name":
            continue
        flag = key.replace("_", "-")
        if isinstance(value, bool):
            words.append("--" + ("" if value else "no-") + flag)
        else:
            text = json.dumps(value) if isinstance(value, dict) else str(value)
            words += ["--" + flag, text]
    return shlex.join(words)


DRAFTED = {"num_speculative_tokens": 2, "speculative_method": "mtp"}


def test_every_record_of_a_sweep_file_is_its_scenario():
    wanted = [
        Scenario(model="qwen3.5-4b", tensor_parallel=tp, kv_cache_dtype=dtype, **more)
        for tp in (1, 2)
        for dtype in ("auto", "fp8")
        for more in ({}, {"enable_prefix_caching": False}, DRAFTED)
    ]
    records = json.loads(sweep_file(wanted))
    names = [record["_benchmark_name"] for record in records]
    assert len(set(names)) == len(wanted)
    base = ["vllm", "serve", "Qwen/Qwen3.5-4B"]
    assert [from_vllm_command(applied(base, record)).scenario for record in records] == wanted
    assert "--serve-params sweep.json" in sweep_command(wb.resolve(wanted[0]), "sweep.json")


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ([], "sweep_empty"),
        ([Scenario(model="qwen3.5-4b"), Scenario(model="qwen3-8b")], "sweep_mixed"),
        ([Scenario(), Scenario(platform="xpu")], "sweep_repeats"),
        (
            [Scenario(model="qwen3-8b"), Scenario(model="qwen3-8b", batch_invariant=True)],
            "sweep_mixed",
        ),
    ],
)
def test_what_one_sweep_file_cannot_hold_is_refused(wanted, code):
    with pytest.raises(ScenarioError) as caught:
        sweep_file(wanted)
    assert caught.value.code == code


def test_flex_settings_have_their_provenance():
    layer = {"head_size": 128, "gqa": 4, "page_tokens": 64, "dtype": "bfloat16"}
    device = FlexDevice(layer, PROVENANCE, (BEST,))
    assert device.file_name == (
        "flex,head=128,gqa=4,page=64,dtype=bfloat16,device_name=NVIDIA_H200.json"
    )
    document = json.loads(device.to_json())
    assert document["schema_version"] == 1
    assert (document["layer"], document["provenance"]) == (layer, PROVENANCE)
    [row] = document["best"]
    assert (row["BLOCK_M"], row["BLOCK_N"], row["median_us"], row["n"]) == (64, 32, 12.5, 100)
    scenario = Scenario(backend="FLEX_ATTENTION", **row["attention_config"])
    assert (scenario.flex_attn_block_m, scenario.flex_attn_kv_block_size) == (64, 64)
