"""Two scenarios in one line are kept apart, and shown next to each other."""

from __future__ import annotations

import html
import json
import re
from time import process_time

import pytest

import workbench as wb
from tests.ui.panels import region
from workbench.interop.comparison import read_comparison
from workbench.interop.description import Load

QWEN, H100 = {"model": "qwen3-next-80b-a3b"}, {"device": "H100"}
TP4, PP2 = {"tensor_parallel": 4}, {"tensor_parallel": 2, "pipeline_parallel": 2}
TP4_ALONE = {**TP4, "pipeline_parallel": 1}
KIMI = "kimi-linear-48b-a3b"
MTP = {"num_speculative_tokens": 1, "speculative_method": "mtp"}
PAIRS = {
    "0.23 against 0.33 for kimi-linear on 8 H100": (
        {"model": KIMI, "device": "H100", "tensor_parallel": 8, "rules": "0.23"},
        {"model": KIMI, "device": "H100", "tensor_parallel": 8, "rules": "0.33"},
    ),
    "fp8 KV or bf16 KV on 2 H100": (
        {"device": "H100", "tensor_parallel": 2, "kv_cache_dtype": "fp8"},
        {"device": "H100", "tensor_parallel": 2, "kv_cache_dtype": "bfloat16"},
    ),
    "H100 vs 2 x L40S": (
        {"device": "H100"},
        {"device": "L40S", "tensor_parallel": 2},
    ),
    "compare TP4 and TP2xPP2": (TP4_ALONE, PP2),
    "TP 4 vs TP 2 x PP 2": (TP4_ALONE, PP2),
    "tp4 or tp2 pp2?": (TP4_ALONE, PP2),
    "should I use TP4 or TP2 x PP2 on H100?": ({**TP4_ALONE, **H100}, {**PP2, **H100}),
    "Qwen3-Next-80B TP 4 vs. TP 2 x PP 2, H100": (
        {**QWEN, **TP4_ALONE, **H100},
        {**QWEN, **PP2, **H100},
    ),
    "compare bamba-9b with qwen3.5-4b": ({"model": "bamba-9b"}, {"model": "qwen3.5-4b"}),
    "4 x H100 against 2 x H200": (
        {"device": "H100", "tensor_parallel": 4},
        {"device": "H200", "tensor_parallel": 2},
    ),
    "fp8 KV or bf16 KV": ({"kv_cache_dtype": "fp8"}, {"kv_cache_dtype": "bfloat16"}),
    "TP 4 vs 8": (TP4, {"tensor_parallel": 8}),
    "bamba-9b fp8 KV TP 2 vs 4 on L40S": tuple(
        {"model": "bamba-9b", "kv_cache_dtype": "fp8", "device": "L40S", "tensor_parallel": ranks}
        for ranks in (2, 4)
    ),
    "TP2 or 4?": ({"tensor_parallel": 2}, TP4),
    "TP 4 instead of 2": ({"tensor_parallel": 2}, TP4),
    "2 vs 4 H100": (
        {"device": "H100", "tensor_parallel": 2},
        {"device": "H100", "tensor_parallel": 4},
    ),
    "4 rather than 2 gpus": ({"tensor_parallel": 2}, TP4),
    "bamba-9b on H200 instead of H100": (
        {"model": "bamba-9b", "device": "H100"},
        {"model": "bamba-9b", "device": "H200"},
    ),
    "block size 16 vs 32": ({"block_size": 16}, {"block_size": 32}),
    "gpu memory utilization 0.9 vs 0.95": tuple(
        {"gpu_memory_utilization": share} for share in (0.9, 0.95)
    ),
    "mtp 1 vs none": (
        MTP,
        {"num_speculative_tokens": 0, "speculative_method": None, "draft_model": None},
    ),
    "prefix caching vs none on H100": tuple(
        {"enable_prefix_caching": is_on, **H100} for is_on in (True, False)
    ),
    "max num seqs 64 vs 256": ({"max_num_seqs": 64}, {"max_num_seqs": 256}),
    "max model len 8K vs 32K": ({"max_model_len": 8192}, {"max_model_len": 32_768}),
    "8k vs 32k context": ({"max_model_len": 8000}, {"max_model_len": 32_000}),
    "bamba-9b 32K requests or 8K requests": (
        {"model": "bamba-9b", "max_model_len": 32_768},
        {"model": "bamba-9b", "max_model_len": 8192},
    ),
    "vllm 0.23 vs 0.33 for bamba-9b with MTP 1": tuple(
        {"model": "bamba-9b", "rules": name, **MTP} for name in ("0.23", "0.33")
    ),
    "bamba-9b: TP 2 vs TP 4": tuple(
        {"model": "bamba-9b", "tensor_parallel": ranks} for ranks in (2, 4)
    ),
    "MTP 1 vs 3": tuple({"num_speculative_tokens": n, "speculative_method": "mtp"} for n in (1, 3)),
    "MTP 1 vs MTP 3": tuple(
        {"num_speculative_tokens": n, "speculative_method": "mtp"} for n in (1, 3)
    ),
}


@pytest.mark.parametrize("text", PAIRS)
def test_both_sides_are_read_and_what_is_said_once_is_of_both(text):
    assert tuple(one.fields for one in read_comparison(text)) == PAIRS[text]


SEVERAL = {
    "qwen3-next-80b tp 2 vs tp 4 vs tp 8": tuple(
        {**QWEN, "tensor_parallel": ranks} for ranks in (2, 4, 8)
    ),
    "2 vs 4 vs 8 H100": tuple({**H100, "tensor_parallel": ranks} for ranks in (2, 4, 8)),
    "TP 2, 4 or 8": tuple({"tensor_parallel": ranks} for ranks in (2, 4, 8)),
    "compare Qwen3-Next-80B on H100, H200 and B200": tuple(
        {**QWEN, "device": device} for device in ("H100", "H200", "B200")
    ),
    "compare bamba-9b, qwen3.5-4b and qwen3.5-9b on L40S": tuple(
        {"model": model, "device": "L40S"} for model in ("bamba-9b", "qwen3.5-4b", "qwen3.5-9b")
    ),
    "block size 16 vs 32 vs 64": tuple({"block_size": tokens} for tokens in (16, 32, 64)),
    "8k vs 32k vs 128k context": tuple(
        {"max_model_len": tokens} for tokens in (8000, 32_000, 128_000)
    ),
    "TP 2 or PP 2 or DP 2": tuple(
        {"tensor_parallel": 1, "pipeline_parallel": 1, "data_parallel": 1, one: 2}
        for one in ("tensor_parallel", "pipeline_parallel", "data_parallel")
    ),
    "fp8 KV vs MTP 1 vs TP 2": (
        {"kv_cache_dtype": "fp8"},
        {"num_speculative_tokens": 1, "speculative_method": "mtp"},
        {"tensor_parallel": 2},
    ),
}


@pytest.mark.parametrize("text", SEVERAL)
def test_several_sides_are_read(text):
    assert tuple(one.fields for one in read_comparison(text)) == SEVERAL[text]


@pytest.mark.parametrize("text", ["qwen3-next, TP 2 vs TP 4", "TP 2, fp8 KV or bf16 KV on L40S"])
def test_a_comma_between_different_things_is_not_another_side(text):
    assert len(read_comparison(text)) in {0, 2}


def test_numbers_of_requests_are_compared():
    first, second = read_comparison("64 vs 128 users of 8k")
    assert (first.load, second.load) == (Load(64, 8000), Load(128, 8000))


@pytest.mark.parametrize(
    "text",
    [
        "TP or fp8?",
        "0.23 vs 0.33",
        "0.23 against 0.33 for my model",
        "compare 0.23 and 0.33",
        "Qwen3-Next-80B, 4 x H100 and fp8 KV",
        "why 528 or 1056?",
        "528 or 1056",
        "TP 2 vs 64 users",
        "compare this with that",
    ],
)
def test_anything_else_is_not_a_comparison(text):
    assert read_comparison(text) == ()


def test_the_first_side_is_pinned_and_the_second_is_shown():
    door = wb.explore("qwen3-next-80b-a3b, 4 x H100, prefix caching")
    door.submit("compare TP4 and TP2xPP2")
    kept = {"model": "qwen3-next-80b-a3b", "device": "H100", "enable_prefix_caching": True}
    assert door.scenario == wb.Scenario(**kept, tensor_parallel=2, pipeline_parallel=2)
    pinned = wb.resolve(**kept, tensor_parallel=4)
    assert f"A: {pinned.block_size:,} tokens" in region(door, "answers")
    assert "A against now" in region(door, "views")
    assert "Tensor parallel" in region(door, "body")
    assert "Compared: A is qwen3-next-80b-a3b" in region(door, "understood")
    door.undo()
    assert door.scenario == wb.Scenario(**kept, tensor_parallel=4)


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("compare with 0.33", {"rules": "0.33"}),
        ("vs 2 x H200", {"device": "H200", "tensor_parallel": 2}),
        ("compared to fp8 KV", {"kv_cache_dtype": "fp8"}),
        ("compare it with kimi-linear-48b-a3b", {"model": "kimi-linear-48b-a3b"}),
    ],
)
def test_one_side_alone_is_compared_with_the_present_scenario(text, changes):
    door = wb.explore("qwen3-next-80b-a3b, 4 x H100")
    before = door.scenario
    door.submit(text)
    assert door.scenario == before.replace(**changes)
    door.receive({"do": "swap"})
    assert door.scenario == before


THREE = "compare TP 4, TP 8 and TP 3"


def test_three_scenarios_are_a_table_and_each_is_one_click_away():
    door = wb.explore("qwen3-next-80b-a3b, 4 x H100")
    door.submit(THREE)
    said = region(door, "understood")
    for ranks in (4, 8):
        block = wb.resolve("qwen3-next-80b-a3b", device="H100", tensor_parallel=ranks).block_size
        assert f"<b>{block:,} tokens</b>" in said
    assert "does not divide" in said.partition("Tensor parallel 3")[2]  # why vLLM refuses it
    for name in ("Tensor parallel 8", "Tensor parallel 4"):
        [fields] = re.findall(rf'data-arg="([^"]*)"[^>]*>{name}<', region(door, "understood"))
        door.receive({"do": "use", "arg": html.unescape(fields)})
        assert f"<b>{name}</b>" in region(door, "understood")  # the shown one cannot be clicked
    assert door.scenario.tensor_parallel == 4
    door.apply(kv_cache_dtype="fp8")
    assert "scenarios" not in region(door, "understood")


def test_two_numbers_of_requests_are_a_table_of_one_scenario():
    door = wb.explore("qwen3-next-80b-a3b, 4 x H100")
    door.submit("2 users vs 5000 users of 32K")
    said = region(door, "understood")
    assert "A is" not in said
    assert "2 at a time: yes" in said
    assert "5,000 at a time: no" in said
    assert "data-pinned" not in region(door, "answers")


def test_models_and_devices_that_are_alternatives_are_all_compared():
    door = wb.explore("qwen3-next-80b-a3b, 4 x H100")
    door.submit("will qwen3-next-80b-a3b or kimi-linear-48b-a3b fit on h100 or h200?")
    said = region(door, "understood")
    assert said.count("<tr>") == 1 + 4
    assert "Tensor parallel" not in said.partition("<table")[2]  # all on the present ranks


def test_too_many_alternatives_are_refused():
    door = wb.explore("qwen3-next-80b-a3b, 4 x H100")
    door.submit("bamba-9b or qwen3.5-4b or qwen3.5-9b on h100, h200 or b200?")
    assert "said twice" in region(door, "understood")


def test_a_side_that_is_refused_is_said_and_nothing_is_pinned():
    door = wb.explore("bamba-9b, H100")
    door.submit("MTP 1 vs fp8 KV")
    assert "A cannot be shown" in region(door, "understood")
    assert "data-pinned" not in region(door, "answers")
    assert door.scenario.kv_cache_dtype == "fp8"
    door.set("tensor_parallel", json.dumps(2))
    assert door.session.errors == []


@pytest.mark.parametrize("text", ["a vs " + "!" * 30_000 + "b", "a or " * 20_000 + "\nb"])
def test_a_long_line_is_answered_in_time(text):
    begun = process_time()
    assert read_comparison(text) == ()
    assert process_time() - begun < 1  # a pattern that tries every end takes many seconds


def test_a_slash_between_two_devices_is_an_or():
    door = wb.explore()
    door.submit("will it start on one L4 / RTX 4090 with 262144 tokens?")
    assert "Device L4" in region(door, "understood")
    assert door.scenario.device == "RTX 4090"
