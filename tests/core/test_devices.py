"""Devices by name: every form of a name, what a plan makes of it, and what is refused."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from workbench.core.devices import _ENTRIES, DEVICES, NAMES, _key, device_named
from workbench.core.platforms import PLATFORMS
from workbench.core.resolve import resolve as resolve_settings
from workbench.models import load_model
from workbench.scenario.fields import Settings

LLAMA = {"model": "llama-3.1-8b"}


def plan_of(device, **fields):
    return wb.resolve(**{**LLAMA, **fields}, device=device)


def sizes(plan):
    return plan.max_num_batched_tokens, plan.max_num_seqs


def test_every_entry_is_whole():
    for name, device in DEVICES.items():
        assert device.source, name
        assert device.memory_bytes >= 8 * 2**30, name
        assert device.torch_bytes is None or device.torch_bytes <= (device.driver_bytes or 2**60)
        platform = PLATFORMS[device.platform]
        if device.platform == "cuda":
            assert device.architecture in platform.capabilities, name
        else:
            assert device.architecture.startswith(platform.gfx[:3]), name


def test_no_name_means_two_devices():
    forms = Counter(
        (form, name)
        for name, entry in _ENTRIES.items()
        for form in {_key(one) for one in (name, entry["title"], *entry["aliases"])}
    )
    assert max(Counter(form for form, _ in forms).values()) == 1
    assert "" not in NAMES


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("H100", "H100"),
        ("h100-80gb", "H100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA_H100_80GB_HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("a100 80gb", "A100-80GB"),
        ("NVIDIA A100-PCIE-40GB", "A100-40GB"),
        ("Tesla T4", "T4"),
        ("4090", "RTX 4090"),
        ("GeForce RTX 4090", "RTX 4090"),
        ("rtx3090", "RTX 3090"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000"),
        ("GB10", "DGX Spark"),
        ("dgx spark (gb10)", "DGX Spark"),
        ("AMD_Instinct_MI300X", "MI300X"),
        ("AMD Instinct MI355X", "MI355X"),
        ("Intel(R) Arc(TM) Pro B60 Graphics", "Arc Pro B60"),
        ("NVIDIA GeForce RTX 5070 Ti", "RTX 5070 Ti"),
        ("5060 ti 16gb", "RTX 5060 Ti"),
        ("NVIDIA RTX 4000 Ada Generation", "RTX 4000 Ada"),
        ("mi250", "MI250X"),
    ],
)
def test_case_punctuation_and_vendor_do_not_matter(text, name):
    assert wb.Scenario(device=text).device == name


@given(st.sampled_from(sorted(DEVICES)), st.sampled_from([str.upper, str.lower, str.title]))
def test_every_form_is_found(name, change):
    for text in (name, DEVICES[name].title, *_ENTRIES[name]["aliases"]):
        for written in (text, text.replace(" ", "-"), text.replace("-", "_")):
            assert device_named(change(written)).name == name


@pytest.mark.parametrize("text", ["A100", "H1000", "", "nvidia", 100])
def test_another_name_is_refused(text):
    with pytest.raises(wb.ScenarioError) as refused:
        wb.Scenario(device=text)
    assert refused.value.field == "device"


def test_an_unfinished_name_is_answered_with_the_nearest():
    with pytest.raises(wb.ScenarioError, match="A100-40GB, A100-80GB"):
        wb.Scenario(device="A100")


@pytest.mark.parametrize("name", DEVICES)
def test_a_device_sets_platform_capability_and_memory(name):
    device, plan = DEVICES[name], plan_of(name)
    assert plan.platform.name == plan.scenario.platform == device.platform
    capability = ".".join(map(str, plan.capability)) if plan.capability else ""
    assert capability == (device.architecture if device.platform == "cuda" else "")
    assert plan.device_memory_bytes == device.memory_bytes
    step = plan.trace.step("device")
    assert step.result == device.title
    assert step.operands["source"] == device.source
    assert ("nominal" in step.note) == device.is_nominal


def test_settings_that_no_scenario_checked_follow_the_device_too():
    plan = resolve_settings(load_model("llama-3.1-8b"), Settings(device="MI300X"))
    assert (plan.platform.name, plan.backend) == ("rocm", "ROCM_ATTN")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"device": "H100", "platform": "rocm"}, "platform"),
        ({"device": "MI300X", "platform": "cuda"}, "platform"),
        ({"device": "H100", "compute_capability": "10.0"}, "compute_capability"),
    ],
)
def test_what_contradicts_the_device_is_refused(fields, field):
    with pytest.raises(wb.ScenarioError) as refused:
        wb.Scenario(**fields)
    assert (refused.value.code, refused.value.field) == ("contradicts_device", field)
    nearest = DEVICES[fields["device"]]
    valid = nearest.platform if field == "platform" else nearest.architecture
    assert wb.Scenario(**{**fields, field: valid}).device == fields["device"]


def test_a_device_replaces_the_platform_and_stays():
    scenario = wb.Scenario().replace(device="MI300X")
    assert scenario.platform == "rocm"
    assert scenario.replace(tensor_parallel=2).device == "MI300X"
    assert scenario.replace(device="H100").platform == "cuda"
    assert scenario.replace(device=None).platform == "rocm"
    assert wb.Scenario.from_json(scenario.to_json()) == scenario
    with pytest.raises(wb.ScenarioError):
        scenario.replace(platform="cuda")


def test_an_explicit_memory_wins():
    plan = plan_of("H100", device_memory_bytes="40 GiB")
    assert plan.device_memory_bytes == 40 * 2**30
    assert sizes(plan) == (2048, 256)
    assert "explicit" in plan.trace.step("device").note


def test_a_budget_takes_the_named_device():
    plan = plan_of("H100", weights_bytes=16 * 2**30)
    assert plan.cache.num_blocks is not None
    step = plan.trace.step("memory_budget")
    assert step.operands["device_memory_bytes"] == DEVICES["H100"].torch_bytes


@pytest.mark.parametrize(
    ("device", "in_0_23", "in_0_33"),
    [
        ("H100", (8192, 1024), (8192, 1024)),
        ("H200", (8192, 1024), (8192, 1024)),
        ("B200", (8192, 1024), (16384, 1024)),
        ("MI300X", (8192, 1024), (16384, 1024)),
        ("A100-80GB", (2048, 256), (2048, 256)),
        ("A800-80GB", (8192, 1024), (8192, 1024)),  # the same chip, another name
        ("DGX Spark", (2048, 256), (2048, 256)),  # NVML reports no memory
        ("L40S", (2048, 256), (2048, 256)),
        ("Arc Pro B60", (2048, 256), (2048, 256)),
    ],
)
def test_defaults_follow_the_name_and_the_driver(device, in_0_23, in_0_33):
    assert sizes(plan_of(device, rules="0.23")) == in_0_23
    assert sizes(plan_of(device, rules="0.33")) == in_0_33


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_python_has_larger_budgets(rules):
    for device, expected in (("H100", (16384, 1024)), ("L4", (8192, 256)), (None, (8192, 256))):
        assert sizes(plan_of(device, rules=rules, entry_point="LLM")) == expected
    cpu = plan_of(None, rules=rules, entry_point="LLM", platform="cpu", tensor_parallel=2)
    assert sizes(cpu) == (8192, 512)


def test_a_named_device_leaves_nothing_open():
    align = {"model": "nemotron-3-nano-30b-a3b", "enable_prefix_caching": True}
    align |= {"mamba_cache_mode": "align", "rules": "0.23"}
    [open_question] = wb.resolve(**align).problems
    assert open_question.severity == "warning"
    assert "Set device" in open_question.message
    enough = {"kv_cache_memory_bytes": 20 * 2**30}
    assert wb.resolve(**align, **enough, device="H100").problems == ()
    assert wb.resolve(**align, device="L4").problems[0].severity == "error"
    assert "A100" not in plan_of("A100-80GB").trace.step("max_num_seqs").note


def test_turing_runs_no_bfloat16():
    assert plan_of("T4").model_dtype == "float16"
    assert plan_of("T4", dtype="float32").model_dtype == "float32"


def test_a_device_goes_to_another_process():
    device = DEVICES["H100"]
    assert pickle.loads(pickle.dumps(device)) is device


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_only_cdna_3_and_later_have_aiter(rules):
    sinks = {"model": "gpt-oss-20b", "rules": rules}
    for name, device in DEVICES.items():
        if device.platform != "rocm":
            continue
        has_aiter = device.architecture in {"gfx942", "gfx950"}
        plan = plan_of(name, **sinks)
        assert plan.backend == ("ROCM_AITER_UNIFIED_ATTN" if has_aiter else "TRITON_ATTN"), name
        plan = plan_of(name, rules=rules, backend="ROCM_AITER_FA")
        assert bool(plan.errors) != has_aiter, name
