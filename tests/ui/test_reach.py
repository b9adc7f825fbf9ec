"""How far a scenario reaches is answered in a sentence: lengths, devices, bytes of a request."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.ui.panels import region
from tests.ui.test_questions import answer
from workbench.core.capacity.blocks import needed_bytes
from workbench.core.capacity.memory_answer import memory_answer
from workbench.core.capacity.occupancy import waste
from workbench.core.devices import DEVICES
from workbench.core.what_if.answers import answers
from workbench.core.what_if.reach import longest_fit, machines
from workbench.interop.description import read_description
from workbench.interop.glossary import defined
from workbench.interop.questions import read_question
from workbench.models import catalog_names


def sent(html):
    return re.findall(r'data-arg="([^"]+)"', html)


@given(
    st.sampled_from(catalog_names()), st.sampled_from(["0.23", "0.33"]), st.integers(1, 40 * 2**30)
)
def test_the_longest_request_fits_and_no_longer_one_does(model, rules, size):
    plan = wb.explore(model=model, rules=rules, kv_cache_memory_bytes=size).plan
    found = None if plan is None else longest_fit(plan)
    if plan is None or plan.cache is None or found is None:
        return
    least, most = found
    assert least == most
    usable = plan.cache.checked_bytes
    assert not least or needed_bytes(plan, plan.cache.grouping, least) <= usable
    if least < plan.max_model_len:
        assert needed_bytes(plan, plan.cache.grouping, least + 1) > usable


def test_the_longest_request_of_an_estimate_is_a_range_that_holds_the_fitted_length():
    plan = wb.resolve("qwen3-32b", device="H100")
    least, most = longest_fit(plan)
    fitted = wb.resolve("qwen3-32b", device="H100", max_model_len=-1).max_model_len
    assert least < fitted <= most <= plan.max_model_len


@pytest.mark.parametrize("model", ["qwen3.5-27b", "gpt-oss-120b", "kimi-k2", "falcon-mamba-7b"])
def test_the_fewest_devices_start_and_fewer_do_not(model):
    plan = wb.resolve(model)
    found = machines(plan)
    assert [one.answers.devices for one in found] == sorted(one.answers.devices for one in found)
    assert {one.changes["device"] for one in found} <= DEVICES.keys()
    for one in found[:4]:
        size = one.changes["tensor_parallel"]
        on = {"device": one.changes["device"], "tensor_parallel": size}
        assert answers(wb.resolve(model, **on)) == one.answers
        assert one.answers.starts in {"yes", "perhaps"}
        if size > 1 and size % 2 == 0:
            half = answers(wb.resolve(model, **on | {"tensor_parallel": size // 2}))
            assert half.starts != "yes"


def test_the_number_of_devices_is_answered_with_a_button_that_sets_them():
    door, said = answer("how many H200 for kimi-k2?")
    assert "16 x H200 ✓ would start:" in said
    fields = json.loads(
        unescape(next(one for one in sent(region(door, "understood")) if "device" in one))
    )
    door.apply(**fields)
    assert (door.plan.settings.device, door.plan.settings.tensor_parallel) == ("H200", 16)


def test_no_device_is_said_where_none_starts():
    _door, said = answer("how many RTX 3090 do I need for kimi-k2?")
    assert "No number of RTX 3090 up to 16 starts for requests of up to" in said


def test_other_devices_are_offered_where_none_of_the_named_one_starts():
    _door, said = answer("how many RTX 3090 do I need for kimi-k2?")
    assert "The fewest of other kinds that start for requests of up to 131,072" in said
    assert "8 x B200" in said


def test_any_device_is_not_the_present_one():
    door = wb.explore("qwen3.5-9b, 4 x H100")
    door.submit("which gpu for qwen3.5-9b at 32k?")
    offered = [json.loads(unescape(one)) for one in sent(region(door, "understood"))]
    assert len({one["device"] for one in offered}) > 3
    # it starts with requests of the length in question, and perhaps with no longer ones
    assert {one["max_model_len"] for one in offered} == {32_000}
    door.apply(**offered[0])
    assert answers(door.plan).starts in {"yes", "perhaps"}


def test_a_device_that_is_named_comes_first():
    _door, said = answer("what number of L40S gpus for qwen3.5-9b?")
    assert "The fewest that start" in said
    assert "RTX" not in said


def test_devices_hold_as_many_requests_as_are_said():
    door, said = answer("how many H200 for qwen3-next-80b-a3b with 64 users of 32k?")
    assert "The fewest that start and hold 64 requests of 32,000 tokens at a time: 2 x H200" in said
    assert "64 at a time" not in said  # of the ranks that the scenario has now
    offered = [one for one in sent(region(door, "understood")) if "device" in one]
    for fields in map(json.loads, map(unescape, offered)):
        door.apply(**fields)
        assert answers(door.plan, 32_000).requests[0] >= 64


def test_no_device_is_said_where_none_holds_the_requests():
    _door, said = answer("how many RTX 4090 for qwen3-32b and 500 users of 32k?")
    assert "No number of RTX 4090 up to 16 starts and holds 500 requests of 32,000 tokens" in said


@pytest.mark.parametrize(
    "text",
    [
        "how many requests of 32K fit for {} on 4 H100 with prefix caching on",
        "32K on 4 H100, prefix caching on: how many {} users?",
    ],
)
def test_prefix_caching_next_to_a_question_is_a_setting(text):
    door, said = answer(text.format("qwen3-next-80b-a3b"))
    assert door.scenario.enable_prefix_caching is True
    assert "requests of 32,768 tokens fit on 4 GPUs" in said


def test_where_no_request_fits_the_reason_is_the_answer():
    _door, said = answer("longest context on one H100 for qwen3-next-80b-a3b")
    assert "No request fits. \u2715 would not start: No memory left" in said


def test_the_longest_context_is_not_a_question_about_the_start():
    _door, said = answer("how long a context can I run with jamba-1.5-mini on 2 a100-80gb")
    assert "A request may have all 262,144 tokens" in said


def test_the_longest_context_is_answered():
    _door, said = answer("what is the longest context for Qwen3-Next-80B on 4 x H100?")
    assert "A request may have all 262,144 tokens of the max model length" in said
    door, said = answer("maximum context length for qwen3-32b on one H100")
    least, most = longest_fit(door.plan)
    assert f"The longest request that fits has {least:,} to {most:,} tokens" in said
    assert f"--max-model-len {least}." in said


def test_what_a_request_takes_is_answered_without_a_device():
    door, said = answer("how much memory does a request of 100k tokens use for Qwen3-Next?")
    size = answers(door.plan, 100_000).request_bytes / 2**30
    assert f"One request of 100,000 tokens takes {size:.2f} GiB of the KV cache." in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("is fp8 kv cache worth it on qwen3-next with 4 H100?", "Apply KV-cache dtype fp8 Gain:"),
        ("how do I turn on prefix caching?", "Apply Prefix caching on Gain: prefix hits from"),
        ("upgrade kimi-linear on 8 H100 to 0.33?", "Apply vLLM version 0.33 Gain:"),
        ("cost of MTP with 3 tokens on qwen3.5-35b-a3b", "Speculative method mtp Gain:"),
        ("batch size for llama 3.3 70b on 4 H100 at 8k", "requests of 8,000 tokens fit on 4 GPUs"),
        ("why does vllm set the attention block size to 528?", "A block of 528 tokens has:"),
        (
            "does qwen3.5-9b run on an RTX 2070?",
            "The device 'RTX 2070' is not known here. Nearest: RTX 50",
        ),
        ("can a 5070 ti run qwen3.5-9b?", "Device RTX 5070 Ti"),
        ("how many 4060 ti for gpt-oss-20b", "Device RTX 4060 Ti"),
        ("will qwen3.5-9b start on a V100?", "The device 'V100' is not known here"),
    ],
)
def test_words_of_every_day_lead_to_the_answer(text, words):
    assert words in answer(text)[1]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("qwen3.6 27b 2 x 5090", {"device": "5090", "tensor_parallel": 2}),
        ("qwen3.6-27b, 4090, 16k", {"device": "4090"}),
        ("granite 4 h small, 14090 tokens", {"model": "granite-4.0-h-small"}),
        ("qwen3-8b on a 5070 ti", {"device": "5070 ti"}),
        ("two 4070 ti super for qwen3-8b", {"device": "4070 ti super", "tensor_parallel": 2}),
        ("2x5060ti qwen3-8b", {"device": "5060ti", "tensor_parallel": 2}),
        ("3060 12gb qwen3-4b", {"device": "3060"}),
        ("qwen3-8b, 16 H100 over 2 nodes", {"device": "H100", "tensor_parallel": 16}),
    ],
)
def test_numbers_that_people_say_are_understood(text, fields):
    said = read_description(text)
    assert fields.items() <= said.fields.items()
    assert ("device" in said.fields) == ("device" in fields)


def test_the_platform_of_a_device_is_not_said_again():
    _door, said = answer("granite-4.0-h-small on MI300X")
    assert "Device MI300X" in said
    assert "Platform" not in said


def test_the_size_of_a_unit_is_defined_with_the_unit():
    assert defined("what is a hash block size?") == defined("what is a hash block?")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("difference between block and page", "manager block, block, KV block and page"),
        ("the difference between mamba_block_size and block_size", "Mamba block and Block size"),
        ("retention interval", "Checkpoint interval"),
        ("what is trtllm?", "TRT-LLM kernels"),
    ],
)
def test_two_words_and_parts_of_a_name_have_a_meaning(text, word):
    assert defined(text).word == word
    assert defined(text).meaning.count(":") >= text.count(" and ")


@pytest.mark.parametrize("text", ["kernels", "block", "difference between TP 2 and TP 4", "cache"])
def test_a_part_of_several_names_is_none_of_them(text):
    found = defined(text)
    assert found is None or text in found.word.split(", ")


def test_a_memory_share_does_not_ask_for_devices():
    assert read_question("which gpu memory utilization for qwen3-32b?").special == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("which block size does FlashMLA need?", "FLASHMLA in vLLM 0.23 has kernel blocks by def"),
        ("what did PR 37467 change?", "Apply vLLM version before-37467"),
        ("can I run nemotron-3-nano with a 1M context?", "more than the max model length allows"),
        ("turn on prefix caching", "Set: nemotron-3-nano-30b-a3b, Prefix caching on."),
        ("disable prefix caching", "Set: nemotron-3-nano-30b-a3b, Prefix caching off."),
        ("use 0.33", "Set: nemotron-3-nano-30b-a3b, vLLM version 0.33."),
        ("without speculation", "Speculative tokens 0"),
        ("does it start in 0.33?", "vLLM version 0.33"),
        ("https://huggingface.co/Qwen/Qwen3.5-4B/tree/main", "A model: qwen3.5-4b."),
        ("what is GDN?", "The meaning of GDN"),
        ("what does align mode do?", "The meaning of align"),
        ("what happens with --enable-prefix-caching?", "Apply Prefix caching on"),
    ],
)
def test_what_people_say_is_done_or_answered(text, words):
    assert words in answer(text)[1]


def test_what_a_token_takes_is_what_the_block_takes_of_every_layer_that_grows():
    door, said = answer("KV cache size per token of llama-3.3-70b with TP 2?")
    [group] = door.plan.cache.groups
    size = group.layers_bytes // group.spec.block_size
    assert f"Each token of a request takes {size:,} B" in said
    assert "on each GPU, in 80 layers" in said


@pytest.mark.parametrize(
    "model", ["glm-5.3-flash", "qwen3.8-flash-next", "gemma-3-4b", "qwen3.5-4b"]
)
def test_what_a_token_takes_is_what_the_used_bytes_of_a_request_grow_by(model):
    door, said = answer(f"bytes per token of {model} in 0.33?")
    plan, length = door.plan, door.plan.max_model_len
    used = [waste(plan, plan.cache, one).used_bytes for one in (length // 2, length)]
    found = int(re.search(r"Each token of a request takes ([\d,]+) B", said)[1].replace(",", ""))
    assert found == pytest.approx((used[1] - used[0]) / (length - length // 2), rel=0.01)


def test_what_the_cache_gets_is_the_range_of_the_estimate():
    door, said = answer("how much KV cache do I get on 8xH200 with deepseek v3.2?")
    least, most = memory_answer(door.plan).tokens
    assert f"vLLM would print a size of {least:,} to {most:,} tokens." in said


@pytest.mark.parametrize(
    ("text", "words", "others"),
    [
        ("qwen3-8b on a 24GB GPU", ("2 x RTX 4090", "2 x L4"), ("H100", "L40S")),
        ("will qwen3.5-27b fit in 48 GB of VRAM?", ("2 x L40S",), ("4090", "A100")),
        ("will qwen3-8b start on a 24 GB GPU?", ("2 x RTX 4090", "2 x L4"), ("H100", "L40S")),
        ("max context for qwen3-8b on 24GB", ("2 x RTX 4090",), ("H100",)),
        ("requests with 24 GB of cache", ("KV-cache memory per GPU 22.35 GiB",), ("24 tokens",)),
        ("and with TP 8?", ("Set:", "Tensor parallel 8"), ("A question",)),
        ("same on H200", ("Set:", "Device H200"), ()),
        ("now 0.33", ("Set:", "vLLM version 0.33"), ()),
        ("qwen3-next 80b a3b instruct on 2xH100", ("A description of qwen3-next-80b-a3b",), ()),
        (
            "glm 4.8 on 8xH200",
            ("The model 'glm 4.8' is not known here. Nearest: glm-4.7",),
            ("Nearest devices",),
        ),
        (
            "how do I reduce padding?",
            ("Gain: 146.81 MiB per request instead of 245.62 MiB, padding 0.19 %",),
            (),
        ),
        ("how can I get more concurrency?", ("Apply KV-cache dtype fp8",), ("Prefix caching on",)),
        ("64 GB of host memory: does offload pay?", ("host memory",), ("2 x",)),
    ],
)
def test_the_next_question_is_answered_too(text, words, others):
    said = answer(text)[1]
    assert [one for one in words if one not in said] == [], said
    assert [one for one in others if one in said] == [], said


def test_a_goal_shows_only_what_serves_it():
    door, said = answer("why won't kimi-k2 start on 4 x H200?")
    assert door.plan.errors
    assert "Gain: starts" in said
    door.submit("bamba-9b on H100")
    door.submit("make it start")
    assert "Apply" not in region(door, "understood")
