"""What a field or a flag is by default is answered, and two values in a question are compared."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

import workbench as wb
from tests.models.configs import llama
from tests.ui.panels import press, region
from tests.ui.test_questions import answer, plain_text
from workbench.door.default_answers import default_answer
from workbench.door.reach_answers import STARTING
from workbench.interop.commands.flags import flags_of, releases
from workbench.interop.defaults import default_named
from workbench.interop.description import read_description
from workbench.interop.glossary import glossary
from workbench.interop.questions import QUESTIONS
from workbench.scenario import FIELDS


@pytest.mark.parametrize("name", sorted(FIELDS.keys() - {"model"}))
def test_the_default_of_every_field_is_answered(name):
    said = answer(f"what is the default of {name}?")[1]
    label = FIELDS[name].label
    assert f"{label}: " in said
    assert " ".join(f"{FIELDS[name].tip}.".replace("`", " ").split()) in said
    words = re.sub(r"[^\w -]", " ", label)
    assert default_named(f"what is the default {words}?") == default_named(f"default {name}")


@pytest.mark.parametrize("release", releases())
def test_the_default_of_every_flag_is_answered(release):
    plan = wb.resolve("qwen3-8b", rules=release)
    flags = flags_of(release)
    for flag in flags.kinds.keys() - {"--model", "--config"}:
        named = default_named(f"what does {flag} default to?")
        assert named == flag or flag in FIELDS[named].flags or named.startswith(flag)
        said = default_answer(named, plan)
        value = flags.defaults.get(flag)
        if named.startswith("--") and isinstance(value, int | float) and value not in {0, 1}:
            assert f"{flag}: {value} by default in vLLM {release}." in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("what is the default of gpu_memory_utilization", "utilization: 0.92 by default in vLLM"),
        ("default of --max-num-seqs on H100", "that means 1,024 (Sequences of a step: 1,024"),
        ("what does --max-num-batched-tokens default to", "that means 2,048 (Max batched tokens:"),
        ("is prefix caching on by default for mamba models?", "here that means off (Prefix cachi"),
        ("default prefix caching for qwen3-8b", "for qwen3-8b here that means on"),
        ("is chunked prefill on by default", "here that means on"),
        ("default of dtype", "that means bfloat16"),
        ("default of --prefix-match-unit", "vLLM 0.33 has it"),
        (
            "default of --cpu-offload-gb in 0.33",
            "A different value matters: weights then stay in",
        ),
        ("default of --speculative-config", "It has these fields: Speculative tokens, Spec"),
        ("default draft kv dtype", "which means: as the target's"),
        ("why is prefix caching off for granite-4.0-h-small", "here that means off (Prefix cach"),
        ("why is expert parallel off", "Expert parallel: off by default in vLLM 0.23. --enable"),
    ],
)
def test_a_default_has_its_value_and_what_it_means_here(text, words):
    assert words in answer(text)[1]


@pytest.mark.parametrize(
    ("text", "quantization", "named"),
    [
        ("qwen3-32b-awq-int4 on 4090", "awq", "qwen3-32b-awq-int4"),
        ("Qwen3-32B-GPTQ-Int4", "gptq", "Qwen3-32B-GPTQ-Int4"),
        ("qwen3-32b-fp8-dynamic on 2 x H100", "fp8", "qwen3-32b-fp8-dynamic"),
    ],
)
def test_a_checkpoint_that_the_catalog_lacks_is_its_model_with_such_weights(
    text, quantization, named
):
    door = wb.explore("llama-3.1-8b, H100")
    door.submit(text)
    assert (door.scenario.model, door.scenario.quantization) == ("qwen3-32b", quantization)
    said = plain_text(region(door, "understood"))
    assert f"{named} is not in the catalog" in said


@pytest.mark.parametrize(
    ("text", "hub_id"),
    [
        ("qwen3-8b-fp8 on L4", "Qwen/Qwen3-8B-FP8"),
        ("qwen3-32b-awq on 4090", "Qwen/Qwen3-32B-AWQ"),
    ],
)
def test_a_checkpoint_of_the_catalog_is_that_one(text, hub_id):
    door = wb.explore("llama-3.1-8b, H100")
    door.submit(text)
    assert door.scenario.model == hub_id
    assert door.scenario.quantization is None


@pytest.mark.parametrize(
    ("text", "block_size"),
    [
        ("qwen3-next-80b-a3b with block size 1024", 1024),
        ("TP 4, block size 64", 64),
        ("block size 1024", None),
    ],
)
def test_a_block_size_next_to_other_settings_is_set_and_alone_it_is_explained(text, block_size):
    door = wb.explore("qwen3-next-80b-a3b, 4 x H100")
    door.submit(text)
    assert door.scenario.block_size == block_size
    assert "sequences" not in region(door, "understood")


@pytest.mark.parametrize(
    ("text", "fields", "load"),
    [
        (
            "qwen3-next-80b-a3b on 1 x L40S with 20 GiB for the KV cache",
            {"device": "L40S", "kv_cache_memory_bytes": 20 * 2**30},
            (None, None),
        ),
        ("64 x 32K requests, bamba-9b", {"model": "bamba-9b"}, (64, 32_768)),
        ("bamba-9b, 2 x H100, 91 \u00d7 32k", {"tensor_parallel": 2}, (91, 32_000)),
    ],
)
def test_what_is_said_of_the_memory_and_of_the_requests_is_read(text, fields, load):
    found = read_description(text)
    assert found.fields.items() >= fields.items()
    assert found.load == load


def test_what_is_set_now_is_said_with_the_default():
    door = wb.explore("qwen3-8b, H100")
    door.apply(max_num_seqs=64)
    door.submit("what is the default of max_num_seqs?")
    said = plain_text(region(door, "understood"))
    assert "that means 1,024" in said
    assert "Now it is 64." in said


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("which is better for Qwen3-Next, an H100 or an H200?", ("H100", 1), ("H200", 1)),
        ("will Kimi-K2 start on 8 x H100 or do I need 8 x H200", ("H100", 8), ("H200", 8)),
        ("how many requests fit on H100 and on H200 for qwen3-8b", ("H100", 1), ("H200", 1)),
        ("is A100 40GB or L40S enough for qwen3.5-27b?", ("A100-40GB", 1), ("L40S", 1)),
        ("does qwen3-8b with TP 2 fit better than with TP 4 on L4?", ("L4", 2), ("L4", 4)),
    ],
)
def test_two_devices_in_a_question_are_compared(text, first, second):
    door, said = answer(text)
    assert "Compared: A is" in said
    assert (door.scenario.device, door.scenario.tensor_parallel) == second
    door.receive({"do": "swap"})
    assert (door.scenario.device, door.scenario.tensor_parallel) == first


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("TP 2 or TP 4 on H100 or H200 for qwen3-next", "Compared: 4 scenarios; A is"),
        ("does it fit on H100, H200 or B200?", "Compared: 3 scenarios; A is"),
        ("prefill with TP 4 and decode with TP 2 for qwen3-8b?", "with Tensor parallel 2 read its"),
        ("is TP 2, TP 4 or TP 8 best for qwen3-next?", "Compared: 3 scenarios; A is"),
        ("does upgrading from 0.23 to 0.33 on H100 help?", "Apply vLLM version 0.33 Gain"),
    ],
)
def test_more_than_two_values_are_not_taken_for_one(text, words):
    assert words in answer(text)[1]


@pytest.mark.parametrize(
    "start",
    [
        {"model": llama()},
        {"model": "llama-3.1-8b", "draft_model": llama(), "num_speculative_tokens": 2},
    ],
    ids=["inline", "drafts"],
)
def test_the_models_for_a_machine_are_the_same_whatever_is_shown(start):
    door, plain = wb.explore(**start), wb.explore(model="qwen3-8b")
    for one in (door, plain):
        one.submit("biggest model for one 4090")
    assert region(door, "understood") == region(plain, "understood")
    assert "models of the catalog start" in region(door, "understood")


@pytest.mark.parametrize("text", ["biggest model for one 4090", "what can I run on 2 x 3090 at 8k"])
def test_the_largest_models_of_a_machine_start_there(text):
    door, said = answer(text)
    assert "models of the catalog start on" in said
    sent = re.findall(r'data-do="apply" data-arg="([^"]+)"', region(door, "understood"))
    found = [json.loads(unescape(one)) for one in sent if "model" in unescape(one)]
    assert len(found) > 20
    for changes in found[:4]:
        door.apply(**changes)
        shown = plain_text(region(door, "answers"))
        assert "would not start" not in shown
        assert door.scenario.model == changes["model"]
    assert STARTING == ("yes", "perhaps")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("what model can I run on 24 GB", "start on 1 x"),
        ("which models run on AMD", "for which device? Name one"),
        ("biggest model on 8 x H100", "qwen3-235b-a22b-2507"),
        ("what can I run on 999 GB", "No known device has 999 GB."),
        ("what happens if I run out of KV cache", "No request fails: those that find no free"),
        ("what happens when the KV cache is full on H100 with qwen3-8b", "fit; others wait."),
        (
            "preemption happens a lot what can I do on H100 with qwen3-8b",
            "Apply KV-cache dtype fp8",
        ),
        ("how many tokens fit in the cache on H100", "vLLM would print a size of"),
        ("how many layers of Qwen3-Next are full attention", "36 layers (ssm: gdn), 12 layers (fu"),
        ("does fp8 change the page size of qwen3-next", "Block: 1,072 tokens, 544 before."),
        ("how do I turn off the hybrid kv cache manager", "Apply Disable hybrid manager on"),
        ("disable the hybrid kv cache manager", "Set: nemotron-3-nano-30b-a3b, Disable hybrid ma"),
        ("set gpu memory utilization to 0.95", "GPU memory utilization 0.95."),
        ("give me the vllm serve command for gpt-oss-20b on 2 L4", "serve openai/gpt-oss-20b"),
        ("int4 weights on a 4090 for Qwen3-32B", "'int4' does not say how the weights are"),
        ("will qwen3-32b with 4-bit weights fit on a 4090?", "'4-bit' does not say how the wei"),
        ("hello", "Questions that are answered: why this block size? , what is a kernel block?"),
        ("why did the block size change from 16 to 544?", "Step 11 of 20: Phase 1"),
        ("why is my block size 1024?", "A block of 1,024 tokens has:"),
        ("what about gpu memory utilization?", "A question about nemotron-3-nano-30b-a3b."),
        ("turn off gpu memory utilization", "A question about nemotron-3-nano-30b-a3b."),
        ("turn off chunked prefill", "Chunked prefill off."),
        ("enable chunked prefill", "Chunked prefill on."),
        ("most concurrent requests at 4k context on A10", "requests of 4,000 tokens fit"),
        ("what do these four numbers mean?", "whether vLLM would start."),
        ("what is a KV block", "The unit that the KV-cache manager allocates"),
        ("on 4 x B200", "Set: nemotron-3-nano-30b-a3b, Device B200, Tensor parallel 4."),
        ("my block size is 1056, which model is that?", "A block of 1,056 tokens has:"),
        ("which models hit a block of 544", "A block of 544 tokens has:"),
    ],
)
def test_what_people_ask_first_is_answered(text, words):
    assert words in answer(text)[1]


def test_a_release_is_offered_once():
    said = answer("which vLLM version should I use?")[1]
    assert said.count("Apply vLLM version 0.33") == 1


def test_a_step_that_made_a_number_is_not_followed_by_other_models_with_it():
    assert "tokens has:" not in answer("why did the block size change from 16 to 544?")[1]


@pytest.mark.parametrize(
    "word", ["MTP", "prefix caching", "PagedAttention", "preemption", "sliding window", "fp8"]
)
def test_words_of_the_field_are_explained(word):
    meanings = {term.meaning for terms in glossary().values() for term in terms}
    said = answer(f"what is {word}?")[1]
    assert any(plain_text(one).split(".")[0][:30] in said for one in meanings)
    assert "The meaning of" in said


@pytest.mark.parametrize("text", ["hello", "help", "how do I paste a log"])
def test_the_questions_that_are_answered_are_one_click_away(text):
    door, said = answer(text)
    assert all(one in said for one in QUESTIONS)
    press(door, "ask", QUESTIONS[2])
    assert "requests fit on which device?" in plain_text(region(door, "understood"))


def test_the_answer_that_it_does_not_start_leads_to_what_lets_it_start():
    door = wb.explore("Llama 3.1 8B on RTX 4090")
    assert door.answers.starts == "no"
    assert 'data-key="start-fix"' in region(door, "answers")
    press(door, "goal", "starts")
    door.receive({"do": "next", "arg": "0"})
    assert door.scenario.max_model_len is not None
    assert door.answers.starts != "no"
    assert 'data-key="start-fix"' not in region(wb.explore("qwen3-8b, H100"), "answers")
