"""Anything pasted into the front door: a model, a command, a config.json, a log, or a mistake."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import escape, unescape
from pathlib import Path

import pytest

import workbench as wb
from tests.ui.panels import TORCHAO, press, region, remedies
from workbench.core.errors import ConfigError, ScenarioError
from workbench.core.what_if.answers import answers
from workbench.door.lab_answers import lab_answer
from workbench.door.labs import LABS
from workbench.interop.glossary import glossary
from workbench.interop.omnibox import hub_ids, understand
from workbench.interop.questions import read_question
from workbench.models import catalog_config
from workbench.models.load import hybrids_first
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.links import link_of
from workbench.views.door.tiles import answer_to

DATA = Path(__file__).parents[1] / "data"
LOGS = DATA / "logs"
COMMAND = "vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct -tp 4 --kv-cache-dtype fp8"


def applied(shown):
    """Return what the buttons of some HTML apply."""
    return [unescape(one) for one in re.findall(r'data-do="apply" data-arg="([^"]*)"', shown)]


def log(name):
    return (LOGS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        ("bamba-9b", "model", {"model": "bamba-9b"}),
        ("  Qwen/Qwen3.5-4B ", "model", {"model": "Qwen/Qwen3.5-4B"}),
        (COMMAND, "command", {"tensor_parallel": 4, "kv_cache_dtype": "fp8"}),
        (f"$ {COMMAND} \\\n  --max-model-len 32768", "command", {"max_model_len": 32768}),
        (f"# {COMMAND} \\\n#   --max-model-len 32768", "command", {"max_model_len": 32768}),
        (f"CUDA_VISIBLE_DEVICES=0,1,2,3 {COMMAND} --data_parallel_size 1", "command", {}),
        (f"{COMMAND} \\\n  --max-model-len 8k\nGPU KV cache size: 178,880 tokens", "log", {}),
        (log("whole_start_0_23.log"), "log", {"tensor_parallel": 4, "max_model_len": 32768}),
    ],
)
def test_a_text_is_read_as_what_it_is(text, kind, fields):
    found = understand(text, Scenario(device="H200"))
    assert found.kind == kind
    assert {name: getattr(found.scenario, name) for name in fields} == fields


def test_a_config_is_a_model_and_keeps_the_other_fields():
    config = (DATA / "models" / "bamba_9b.json").read_text(encoding="utf-8")
    found = understand(config, Scenario(tensor_parallel=2))
    assert found.kind == "config"
    assert found.scenario.tensor_parallel == 2
    assert wb.resolve(found.scenario).model.family == "bamba"


def test_what_a_command_sets_is_said_in_the_words_of_its_release():
    command = "vllm serve Qwen/Qwen3.5-4B --disable-prefix-caching"
    said = understand(command, Scenario(rules="0.33")).message.partition("As before")[0]
    assert "Prefix caching off" in said


def test_a_command_keeps_the_machine():
    assert understand(COMMAND, Scenario(device="B200", rules="0.33")).scenario.device == "B200"


LENGTHS = {
    "How many 128K requests fit on 8 x H200 with Qwen3-Next-80B?": 131_072,
    "how many requests of 8,000 tokens fit?": 8000,
    "which is better for 64k-token prompts, TP or fp8?": 64_000,
    "how many requests fit?": 32_768,
    "why is a block 1,056 tokens?": 32_768,
}


@pytest.mark.parametrize("text", LENGTHS)
def test_a_question_counts_the_requests_of_its_length(text):
    door = wb.explore(model="qwen3-next-80b-a3b", device="H200", tensor_parallel=8)
    door.submit(text)
    tokens = f"requests of {LENGTHS[text]:,} tokens fit"
    assert tokens in unescape(re.sub("<[^>]+>", "", region(door, "answers")))


UNDERSTOOD = {
    COMMAND: ("A command: ", "Tensor parallel 4", "As before: Device H200."),
    "vllm serve -tp 2 # 32K": ("without a model, so of bamba-9b", "requests of 32,768 tokens"),
    "qwen3.5-4b": ("A model: qwen3.5-4b.", "As before: Device H200"),
    "qwen3.5-4b, tp 2": ("A description of qwen3.5-4b, Tensor parallel 2.",),
    link_of(Scenario(device="B200")): ("A link to nemotron-3-nano-30b-a3b, Device B200.",),
    "why 528?": ("A question about bamba-9b.",),
}


@pytest.mark.parametrize("text", UNDERSTOOD)
def test_it_says_what_the_text_set_and_what_stays(text):
    present = Scenario(model="bamba-9b", device="H200", max_num_batched_tokens=8192)
    message = understand(text, present).message
    assert [words for words in UNDERSTOOD[text] if words not in message] == [], message


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_nothing_is_answered_with_what_to_paste(text):
    with pytest.raises(ScenarioError, match="Paste a `vllm serve` command"):
        understand(text, Scenario())


@pytest.mark.parametrize("text", ["qwen3-nextt-80b", "./nowhere/config.json", '{"model_type": 1}'])
def test_an_unknown_model_is_a_typed_error(text):
    with pytest.raises((ConfigError, ScenarioError)):
        understand(text, Scenario())


QUESTIONS = {
    "why 528?": ("why", {}),
    "Why is my block size 1056?": ("why", {}),
    "why is my block_size so large?": ("why", {}),
    "what is byte 123,456": ("why", {}),
    "will it start on an H100?": ("start", {"device": "H100"}),
    "Does Qwen3-Next-80B start on 2 x H100": (
        "start",
        {"device": "H100", "tensor_parallel": 2, "model": "qwen3-next-80b-a3b"},
    ),
    "which backends on B200 and why not the others": ("start", {"device": "B200"}),
    "how many heads does this model have?": ("why", {}),
    "does prefix caching hit?": ("hits", {}),
    "smallest prompt that hits": ("hits", {}),
    "smallest prompt that hits with Qwen3-Next-80B": ("hits", {"model": "qwen3-next-80b-a3b"}),
    "a hit rate of 0 percent": ("hits", {}),
    "how many requests of 32K fit?": ("fits", {}),
    "how much memory does the KV cache take?": ("fits", {}),
    "TP or fp8?": ("what_if", {}),
    "0.23 against 0.33 for my model": ("versions", {}),
    "what changes with 0.33?": ("versions", {}),
    "do 8 requests fit with vLLM 0.23?": ("fits", {"rules": "0.23"}),
    "will qwen3-next MTP 3 fit on 2 x H100 with 128k?": (
        "fits",
        {
            "model": "qwen3-next-80b-a3b",
            "device": "H100",
            "tensor_parallel": 2,
            "num_speculative_tokens": 3,
            "speculative_method": "mtp",
        },
    ),
    "does it start on B200 with bf16 KV?": (
        "start",
        {"device": "B200", "kv_cache_dtype": "bfloat16"},
    ),
    "will it start with fp8_e5m2?": ("start", {"kv_cache_dtype": "fp8_e5m2"}),
    "does mtp start?": ("start", {}),
    "is MTP 3 better, or fp8 KV?": ("what_if", {}),
}


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_is_answered_and_only_what_it_says_is_changed(text):
    view, said = QUESTIONS[text]
    door = wb.explore(model="bamba-9b", kv_cache_dtype="fp8", max_model_len=8192)
    door.submit(text)
    before = Scenario(model="bamba-9b", kv_cache_dtype="fp8", max_model_len=8192)
    assert door.scenario == before.replace(**said)
    shown = region(door, "understood")
    assert "A question about" in shown
    found = answers(door.plan)
    answer = lab_answer(read_question(text, loosely=True), door.plan, found.length_tokens)
    assert escape(answer or answer_to(view, found)) in shown
    assert f'data-arg="{view}" data-key="view-{view}" role="tab" aria-selected="true"' in region(
        door, "views"
    )


@pytest.mark.parametrize(
    "text",
    [
        *(
            "which models are supported?",
            "list models",
            "supported models",
            "what models",
            "models",
        ),
        *(
            "which hybrid models are there?",
            "what models can I use?",
            "how many models are supported",
        ),
    ],
)
def test_the_models_are_listed_hybrids_first_and_a_click_takes_one(text):
    door = wb.explore(model="bamba-9b", kv_cache_dtype="fp8")
    door.submit(text)
    shown = region(door, "understood")
    names = [changes["model"] for changes in remedies(door).values() if "model" in changes]
    assert names == list(hybrids_first())
    assert "workbench coverage" in shown
    assert door.scenario == Scenario(model="bamba-9b", kv_cache_dtype="fp8")
    door.apply(model="lfm2-350m")
    assert door.scenario == Scenario(model="lfm2-350m", kv_cache_dtype="fp8")
    assert region(door, "understood") == ""


@pytest.mark.parametrize(
    ("text", "view"),
    [
        ("which models have a block of 528?", "why"),
        ("which models fit on H100?", "fits"),
        ("do hybrid models hit?", "hits"),
        ("is this model supported?", "start"),
    ],
)
def test_a_question_that_only_has_the_word_model_keeps_its_answer(text, view):
    topic = understand(text, Scenario()).question.topic
    assert (topic.view, topic.is_of_catalog) == (view, False)


MEANINGS = {
    "what is a kernel block?": ("What the attention kernel sees", "Backends by TP"),
    "What are kernel-blocks": ("What the attention kernel sees", "Backends by TP"),
    "what does null block mean?": ("never given to a request", "Block tables"),
    "explain slot mapping": ("-1 where nothing is stored", "Block tables"),
    "what is NHD": ("tokens or heads come first", "Page bytes"),
    "what is the padding?": ("reserved and never used", "Page bytes"),
    "what is max_num_batched_tokens?": (escape(FIELDS["max_num_batched_tokens"].tip), ""),
    "what is the Mamba cache mode": (escape(FIELDS["mamba_cache_mode"].tip), ""),
}


@pytest.mark.parametrize("text", MEANINGS)
def test_a_word_is_explained_with_the_lab_that_shows_it(text):
    door = wb.explore(model="bamba-9b")
    door.show_field("")
    door.receive({"do": "view", "arg": "fits"})
    door.submit(text)
    meaning, lab = MEANINGS[text]
    shown = region(door, "understood")
    assert meaning in shown
    assert not lab or f'data-do="show_lab" data-arg="{lab}"' in shown
    assert door.scenario == Scenario(model="bamba-9b")
    assert door.labs.title == ""


def test_every_lab_of_the_glossary_is_a_lab():
    named = {term.lab for terms in glossary().values() for term in terms}
    assert named <= {"", *LABS}


@pytest.mark.parametrize("text", ["why is the moon", "why is the moon so big?", "how is the sea"])
def test_a_question_about_something_else_gets_the_questions_that_are_answered(text):
    with pytest.raises(ScenarioError, match="Questions that are answered") as caught:
        understand(text, Scenario())
    questions = caught.value.message.partition("Questions that are answered")[2]
    for question in re.findall(r"'([^']+\?)'", questions):
        assert understand(question, Scenario()).kind == "question", question


@pytest.mark.parametrize("text", ["why?", "why this number?", "why is it so large"])
def test_a_bare_why_is_about_the_number_on_the_screen(text):
    assert understand(text, Scenario()).question.topic.view == "why"


def test_a_block_size_in_question_is_that_of_named_models():
    door = wb.explore(model="nemotron-3-nano-30b-a3b", tensor_parallel=4)
    door.submit(f"why {door.plan.block_size:,}?")
    assert 'data-do="use"' not in region(door, "understood")
    door.submit("why 528?")
    shown = region(door, "understood")
    offered = re.findall(r'data-do="use" data-arg="([^"]*)"', shown)
    assert "A block of 528 tokens has:" in shown
    door_of = {wb.resolve(**json.loads(unescape(one))).block_size for one in offered}
    assert door_of == {528}


def test_a_block_size_in_question_is_explained_for_the_model_that_is_named():
    door = wb.explore(model="bamba-9b")
    door.submit("why 1056 tokens for nemotron-3-nano-30b-a3b?")
    shown = region(door, "understood")
    offered = re.findall(r'data-do="use" data-arg="([^"]*)"', shown)
    plans = [wb.resolve(**json.loads(unescape(one))) for one in offered]
    assert plans
    assert {(plan.model.name, plan.block_size) for plan in plans} == {(door.plan.model.name, 1056)}


def test_a_block_size_that_is_wanted_is_tried():
    door = wb.explore(model="nemotron-3-nano-30b-a3b", tensor_parallel=4)
    scenario = door.scenario
    door.submit("can I set the block size to 64?")
    shown = region(door, "understood")
    taken = wb.resolve(scenario.replace(block_size=64)).block_size
    assert f"vLLM raises it to {taken:,} tokens" in shown
    assert applied(shown) == ['{"block_size": 64}']
    assert door.scenario == scenario


def test_a_single_line_of_a_log_is_explained_and_its_numbers_are_not_taken_for_those_below():
    door = wb.explore(model="bamba-9b")
    door.submit("Setting attention block size to 1056 tokens to ensure that attention page size is")
    shown = region(door, "understood")
    assert "has to hold at least one mamba state" in shown.partition("<details")[0]
    assert "Below is still bamba-9b" in shown
    assert "kv_cache_dtype" not in re.sub("<[^>]*>", "", shown.partition("<details")[0])
    door.submit("a poem about the sea")
    assert "Setting attention" not in region(door, "understood")
    assert "is not understood" in region(door, "understood")


def test_what_is_weighed_in_a_question_is_shown_with_gain_and_cost():
    door = wb.explore(model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4)
    door.submit("TP or fp8?")
    shown = region(door, "understood")
    fields = [set(changes) for changes in map(json.loads, applied(shown))]
    assert fields == [{"tensor_parallel"}, {"tensor_parallel"}, {"kv_cache_dtype"}]
    assert shown.count("Gain: ") == shown.count("Cost: ") == len(fields)


@pytest.mark.parametrize("text", ["{" * 100_000, "\0\1\2 \n", "a poem about the sea", "vllm serve"])
def test_a_strange_text_changes_nothing_and_is_answered(text):
    door = wb.explore(model="bamba-9b")
    scenario = door.scenario
    door.submit(text)
    assert door.scenario == scenario
    assert region(door, "understood")
    assert door.session.errors == []


def test_a_pasted_command_answers_all_four_at_once():
    door = wb.explore()
    press(door, "submit", f"{COMMAND} --enable-prefix-caching --max-model-len 32768")
    door.apply(device="H100")
    assert "?" not in door.view.announced
    assert (door.plan.block_size, door.plan.max_model_len) == (544, 32768)


def test_a_fatal_log_comes_first_with_its_fix_and_the_fix_works():
    door = wb.explore()
    press(door, "submit", log("align_budget.log"))
    shown = region(door, "understood")
    assert shown.index("fatal error") < shown.index("messages known")
    assert [one.code for one in door.plan.errors] == ["block_exceeds_token_budget"]
    changes = next(iter(remedies(door).values()))
    assert f"&quot;{next(iter(changes))}&quot;" in shown
    press(door, "apply", json.dumps(changes))
    assert door.plan.errors == ()
    assert "--" in wb.commands_of(door.plan)["vllm serve"]


def test_a_start_whose_checkpoint_the_catalog_has_in_another_form_is_not_refused():
    door = wb.explore()
    door.submit(
        "vllm serve /data/qwen3.6-27b-autoround-int4 --quantization auto_round\nINFO started"
    )
    assert (door.error, door.scenario.model) == (None, "qwen3.6-27b")
    assert "Omitted quantization = auto-round" in region(door, "understood")


def test_the_fixes_of_a_refused_log_are_with_its_error():
    door = wb.explore()
    error = "Total number of attention heads (16) must be divisible by tensor parallel size (3)."
    door.submit(f"vllm serve Qwen/Qwen3.5-4B -tp 3\n{error}")
    box = region(door, "understood").partition("messages known")[0]
    assert {"tensor_parallel": 4} in map(json.loads, applied(box))
    assert "Tested remedy" not in box
    press(door, "apply", applied(box)[0])
    assert door.error is None
    assert door.plan.errors == ()


def test_a_log_without_a_model_offers_candidates_and_explains_again():
    door = wb.explore()
    before = door.scenario
    press(door, "submit", log("size_alone_528.log"))
    assert door.scenario == before
    assert 'data-do="use"' in region(door, "understood")
    press(door, "submit", log("size_alone_528.log"), "qwen3.5-4b")
    assert door.scenario.model == "qwen3.5-4b"


def test_a_scenario_that_a_log_offers_replaces_the_present_one():
    door = wb.explore(tensor_parallel=8, kv_cache_dtype="fp8")
    report = wb.explain_log(log("size_alone_528.log"))
    press(door, "use", json.dumps(dict(report.scenes[0].fields)))
    assert door.scenario == Scenario.from_dict(report.scenes[0].fields)


def test_a_checkpoint_that_cannot_be_fetched_offers_the_catalog_model_with_its_sizes(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    door = wb.explore(model="bamba-9b", device="H100")
    for text, where in (
        ("vllm serve org/Llama-3.1-8B-Instruct-FP8 -tp 2", "answers"),
        ("org/Llama-3.1-8B-Instruct-FP8", "understood"),
    ):
        door.submit(text)
        (changes,) = applied(region(door, where))
        press(door, "apply", changes)
        assert json.loads(changes) == {"model": "llama-3.1-8b"}
        assert door.scenario.model == "llama-3.1-8b"
        assert door.error is None


def test_a_model_chosen_for_a_log_is_compared_and_what_differs_is_said_first():
    line = "INFO Setting attention block size to 528 tokens to ensure that attention page size is"
    door = wb.explore(model="bamba-9b", device="H100")
    door.submit(line, "qwen3-next-80b-a3b")
    assert door.scenario.model == "qwen3-next-80b-a3b"
    shown = unescape(re.sub("<[^>]+>", "", region(door, "understood")))
    assert "Line 1: The log says 528 tokens, the rules give 544 tokens. With tensor_par" in shown
    door.submit(line, "bamba-9b")
    assert "Line 1:" not in region(door, "understood")
    assert "1 agrees with the rules, 0 not" in region(door, "understood")


SETTINGS = {
    "max_num_seqs 256": {"max_num_seqs": 256},
    "gpu memory utilization 0.95": {"gpu_memory_utilization": 0.95},
    "Max batched tokens 8192, Mamba cache mode align": {
        "max_num_batched_tokens": 8192,
        "mamba_cache_mode": "align",
    },
}


@pytest.mark.parametrize("text", SETTINGS)
def test_a_setting_is_set_by_its_label_or_its_name(panel, text):
    before = panel.scenario
    panel.submit(text)
    assert panel.scenario == before.replace(**SETTINGS[text])
    assert "Settings of nemotron-3-nano-30b-a3b" in region(panel, "understood")


@pytest.mark.parametrize("text", ["tensor_parallel 1 2", "block size 528", "max_num_seqs"])
def test_several_values_none_and_a_block_in_question_are_not_set(panel, text):
    before = panel.scenario
    panel.submit(text)
    assert panel.scenario == before


FATAL_LINE = (
    "ValueError: To serve at least one request with the models's max seq len (262144), (6.00 GiB "
    "KV cache is needed, which is larger than the available KV cache memory (3.83 GiB). Based on "
    "the available memory, the estimated maximum model length is 163840. Try increasing "
    "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
)


def test_a_fatal_line_alone_says_what_to_change_and_offers_no_command_of_another_model(panel):
    panel.submit(FATAL_LINE)
    shown = region(panel, "understood").partition("<details")[0]
    assert "What to change" in shown
    assert shown.count("Set --max-model-len 163840.") == 1
    assert shown.count("Missing: the model") == 1
    assert "copy-corrected" not in region(panel, "understood")


def test_models_with_a_block_are_listed():
    door = wb.explore(model="bamba-9b")
    door.submit("which models have a block of 1056?")
    shown = region(door, "understood")
    assert "A block of 1,056 tokens has:" in shown
    assert "--block-size" not in shown


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("backend triton", {"backend": "TRITON_ATTN"}),
        ("kv_cache_dtype fp9", {"kv_cache_dtype": "fp8"}),
    ],
)
def test_a_word_that_cannot_be_a_value_has_a_button_for_the_nearest(text, changes):
    door = wb.explore()
    door.submit(text)
    assert json.loads(applied(region(door, "understood"))[0]) == changes
    door.apply(**changes)
    assert door.scenario == wb.Scenario(**changes)


def test_a_number_next_to_words_that_say_nothing_is_not_a_block():
    assert understand("my log says 2096", Scenario()).question.block_tokens == 2096
    with pytest.raises(wb.ScenarioError, match="is not understood"):
        understand("asdf 4711", Scenario())


def test_a_way_to_speculate_has_its_cost_and_a_button():
    door = wb.explore(model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4)
    door.submit("how do I enable MTP?")
    [button] = re.findall(r'data-arg="([^"]*num_speculative[^"]*)"', region(door, "understood"))
    door.apply(**json.loads(unescape(button)))
    assert (door.scenario.speculative_method, door.scenario.num_speculative_tokens) == ("mtp", 1)
    door.submit("can I disable MTP?")
    assert "num_speculative_tokens&quot;: 0" in region(door, "understood")
    door.submit("how do I enable MTP?")
    assert "is what this scenario has" in region(door, "understood")


def test_the_method_in_question_is_tried_and_why_it_fails_is_said():
    door = wb.explore(model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4)
    for method in ("ngram", "eagle3"):
        door.submit(f"what does {method} cost me")
        [button] = applied(region(door, "understood"))
        drafting = {"num_speculative_tokens": 1, "speculative_method": method}
        assert json.loads(button) == drafting
    assert "Method eagle3 needs a second checkpoint" in region(door, "understood")
    door.submit("which speculative method is best")
    buttons = [json.loads(one) for one in applied(region(door, "understood"))]
    assert drafting in buttons
    assert all(one["num_speculative_tokens"] == 1 for one in buttons)


def test_what_a_drafter_costs_is_that_of_the_plan():
    door = wb.explore(model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4)
    door.submit("how much memory does the drafter take")
    assert "This scenario has no drafter." in region(door, "understood")
    door.apply(num_speculative_tokens=2, speculative_method="mtp")
    door.submit("what does the drafter cost?")
    assert str(door.plan.drafter_cost()) in unescape(region(door, "understood"))


def test_an_answer_about_a_plan_that_does_not_start_says_so():
    door = wb.explore(model="kimi-k2", device="H100")
    for text in ("how large is a request", "will prefixes hit?"):
        door.submit(text)
        assert "would not start: No memory left for the KV cache" in region(door, "understood")


@pytest.mark.parametrize(
    "text", ["kimi-k3", "kimi-k3, 8 x B200", "vllm serve moonshotai/Kimi-K3 -tp 8"]
)
def test_a_model_of_another_release_is_shown_in_that_release_at_once(panel, text):
    panel.submit(text)
    assert panel.scenario.rules == "0.33"
    assert panel.error is None
    said = "vLLM 0.23 does not have this model; vLLM 0.33 has it and is shown."
    assert said in region(panel, "understood")
    panel.undo()
    assert panel.scenario.model == "nemotron-3-nano-30b-a3b"


def test_a_release_that_is_named_is_what_is_shown(panel):
    panel.submit("kimi-k3, vLLM 0.23")
    assert panel.scenario.rules == "0.23"
    assert panel.error.code == "architecture_not_served"
    assert '{"rules": "0.33"}' in applied(region(panel, "answers"))


def test_a_model_that_is_chosen_is_shown_in_the_release_that_has_it(panel):
    panel.set("model", json.dumps("kimi-k3"))
    assert panel.scenario.rules == "0.33"
    assert "has it and is shown" in region(panel, "understood")


def test_weights_that_are_not_described_are_entered_as_the_hub_lists_them(panel):
    panel.submit(json.dumps(TORCHAO))
    panel.submit("on 2 x B300")
    assert "set Weights" in region(panel, "answers")
    panel.set("weights_bytes", "13.3 GB / 2")
    assert panel.scenario.weights_bytes == 6_650_000_000
    assert "requests of 2,048 tokens fit" in region(panel, "answers")


def test_one_request_and_none_are_said_as_people_say_them():
    plan = wb.resolve("qwen3-next-80b-a3b", device="H100", tensor_parallel=2)
    found = answers(plan, 32_768)
    for number, words in (
        (0, "0 requests of 32,768 tokens fit on 2 GPUs"),
        (1, "1 request of 32,768 tokens fits on 2 GPUs"),
    ):
        assert answer_to("fits", replace(found, requests=(number, number))) == words


def test_a_word_that_is_like_no_model_is_not_answered_with_the_whole_catalog(panel):
    panel.submit("hello")
    said = region(panel, "understood")
    assert "is not a model that is known" in said
    assert len(re.findall(r"(?:llama|qwen|gemma)[\w.-]+", said)) < 10


def test_a_config_that_names_no_class_says_which_one_is_assumed():
    door = wb.explore()
    config = {**catalog_config("qwen3-8b")}
    del config["architectures"]
    door.submit(json.dumps(config))
    said = region(door, "understood")
    assert "vLLM uses Qwen3Model, a pooling model" in said
    assert "Qwen3ForCausalLM" in said


@pytest.mark.parametrize("text", ["AMD", "qwen3-8b on AMD", "qwen3-8b, rocm, vLLM 0.33"])
def test_another_platform_has_another_device(text):
    door = wb.explore("nemotron-3-nano-30b-a3b, 2 x H100")
    door.submit(text)
    assert (door.scenario.platform, door.scenario.device) == ("rocm", None)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("owner/Model-9B", ("owner/Model-9B",)),
        ("owner/Model-9B on L4", ("owner/Model-9B",)),
        ("vllm serve owner/Model-9B -tp 2", ("owner/Model-9B",)),
        ("Qwen/Qwen3-8B on L4", ()),
        ("gemma 3 on L4", ()),
        ("a poem about the sea", ()),
    ],
)
def test_what_only_the_hub_knows_is_fetched_before_a_text_is_read(text, named):
    assert hub_ids(text) == named


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("TP 4, 4 users of 8K", r"4 at a time: yes, \d+ requests of 8,192 tokens fit"),
        ("do 500 users with 256K fit?", r"500 at a time: no, \d+ requests of 262,144 tokens fit"),
    ],
)
def test_requests_at_a_time_fit_or_wait(text, answer):
    door = wb.explore(model="qwen3-next-80b-a3b", device="H200", tensor_parallel=4)
    door.set("kv_cache_memory_bytes", "20 GiB")
    door.submit(text)
    assert re.search(answer, re.sub("<[^>]+>", "", region(door, "understood")))


def test_a_design_that_was_saved_is_read(tmp_path):
    path = tmp_path / "design.json"
    saved = Scenario(model="qwen3.5-4b", device="H100", tensor_parallel=2)
    wb.save_design(saved, path)
    found = understand(path.read_text(encoding="utf-8"), Scenario())
    assert found.scenario == saved
    assert "A design of" in found.words
