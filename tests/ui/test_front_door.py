"""The front door follows what is entered: every field, good values and bad, and every action."""

from __future__ import annotations

import json
import re
from html import unescape
from itertools import islice
from pathlib import Path

import pytest

import workbench as wb
from tests.catalog import distinct_models
from tests.ui.panels import ACTION, TORCHAO, press, region, remedies, text
from tests.views.plans import EVIL, evil_config
from workbench.core.errors import ScenarioError, WorkbenchError
from workbench.core.what_if.answers import answers
from workbench.core.what_if.choices import NO_BACKEND
from workbench.core.what_if.next_steps import GOALS, next_steps
from workbench.door.explanations import VIEWS
from workbench.door.labs import LABS
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.links import link_of
from workbench.scenario.scenario import random_scenarios
from workbench.views.door.inspector import MADE_BY
from workbench.views.door.scenario_bar import ALL
from workbench.views.door.tiles import COMMON_DEVICES, TILES
from workbench.views.door.visits import HISTORY
from workbench.views.settings import changes_text, in_labels

LOGS = Path(__file__).parents[1] / "data" / "logs"
ENTERED = {
    "pipeline_layers": ("52", (52,)),
    "draft_model": ("qwen3-8b", "qwen3-8b"),
    "draft_tensor_parallel": ("1", 1),
    "block_size": ("32", 32),
    "cudagraph_capture_sizes": ("1, 2", (1, 2)),
    "mamba_block_size": ("1,024", 1024),
    "max_model_len": ("4096", 4096),
    "max_num_batched_tokens": ("8192", 8192),
    "kv_cache_memory_bytes": ("20 GiB", 20 * 2**30),
    "num_gpu_blocks_override": ("100", 100),
    "max_num_seqs": ("512", 512),
    "device_memory_bytes": ("80 GiB", 80 * 2**30),
    "gpu_memory_utilization": ("0.9", 0.9),
    "weights_bytes": ("60 GB", 60 * 10**9),
    "activation_bytes": ("4 GiB", 4 * 2**30),
    "cuda_graph_bytes": ("1 GiB", 2**30),
    "kv_cache_dtype_skip_layers": ("0, 5", ("0", "5")),
    "kv_cache_memory_bytes_by_rank": ("20 GiB, 18 GiB", (20 * 2**30, 18 * 2**30)),
    "torch_version": ("2.8", "2.8"),
    "hf_overrides": ('{"max_position_embeddings": 8192}', {"max_position_embeddings": 8192}),
}
"""Field that takes a text -> a text, and what it means."""
START = {
    "backend": {"compute_capability": "9.0"},
    "mamba_block_size": {"enable_prefix_caching": True},
}


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("qwen3.5-4b", "KV block, padding 0.76 %"),
        ("llama-3.1-8b", "no states to align with"),
        ("falcon-mamba-7b", "a block is one state"),
    ],
)
def test_the_first_tile_says_what_the_block_is_for(model, words):
    assert words in TILES[0].words(answers(wb.resolve(model)))


def assert_shows_its_plan(door):
    """Expect every region to be of the plan of the newest scenario."""
    plan = wb.resolve(door.scenario)
    assert door.plan == plan
    assert door.error is None
    assert not door.view.stale
    assert door.view.plan == plan.fingerprint
    found = answers(plan)
    for tile in TILES:
        assert tile.value(found) in region(door, "answers")
        assert tile.value(found) in door.view.announced
    if 'aria-selected="true" data-do="view" data-arg="why"' in region(door, "views"):
        assert f'data-plan="{plan.fingerprint}"' in region(door, "body")


def other_value(field, scenario):
    """A legal value of a listed field that is not the present one."""
    declared = FIELDS[field]
    present = getattr(scenario, field)
    for value in declared.candidates(scenario, wb.load_model(scenario.model)):
        try:
            if value != present and wb.resolve(scenario.replace(**{field: value})):
                return value
        except WorkbenchError:
            continue
    return None


@pytest.mark.sampled(24)
@pytest.mark.parametrize("field", FIELDS)
def test_the_plan_follows_every_field(field):
    door = wb.explore(model="nemotron-3-nano-30b-a3b", **START.get(field, {}))
    before, declared = door.scenario, FIELDS[field]
    press(door, "open", ALL)
    assert f'data-key="all-{field}"' in region(door, "bar")
    if declared.is_listed:
        value = other_value(field, before)
        if value is None:
            pytest.skip("no other value is possible for this model")
        press(door, "set", field, json.dumps(value))
    else:
        entered, value = ENTERED.get(field, ("64", 64))
        press(door, "set", field, entered)
    changed = before.replace(**{field: value})
    assert getattr(door.scenario, field) == getattr(changed, field)
    assert "wb-problem" not in region(door, "understood")
    assert door.session.errors == []
    if door.error is None:
        assert_shows_its_plan(door)


def test_every_field_has_a_control_with_its_help(panel):
    press(panel, "open", ALL)
    shown = region(panel, "bar")
    for name, field in FIELDS.items():
        assert f'data-arg="{name}" data-key="all-{name}"' in shown
        assert f"<span>{field.label}</span>" in shown
    press(panel, "open", "")
    assert "wb-pop" not in region(panel, "bar")


def test_a_listed_control_offers_exactly_what_brings_no_new_conflict():
    scenario = Scenario(model="jamba-1.5-mini", platform="rocm", enable_prefix_caching=True)
    door, model = wb.explore(scenario), wb.load_model("jamba-1.5-mini")
    press(door, "open", ALL)
    shown, left_out = region(door, "bar"), 0
    for name, field in FIELDS.items():
        if not (field.only_legal and field.is_listed):
            continue
        select = shown.partition(f'data-key="all-{name}"')[2].partition("</select>")[0]
        before = conflicts(scenario, name)
        for value in field.candidates(scenario, model):
            found = conflicts(scenario.replace(**{name: value}), name)
            legal = value == getattr(scenario, name) or (found is not None and found <= before)
            option = json.dumps(value).replace('"', "&quot;")
            assert (f'<option value="{option}"' in select) == legal, (name, value)
            left_out += not legal
    assert left_out > 5


def conflicts(scenario, field):
    """The errors in a field's value, by resolving it; None when it is refused."""
    try:
        errors = wb.resolve(scenario).errors
    except WorkbenchError:
        return None
    return {one.code for one in errors if one.field == field or one.code in NO_BACKEND}


def test_it_starts_with_the_scenario_or_the_plan_that_it_is_given():
    plan = wb.resolve(model="bamba-9b", tensor_parallel=2)
    assert_shows_its_plan(wb.explore(plan.scenario))
    assert wb.explore(plan).plan == plan
    assert wb.explore(plan, tensor_parallel=1).scenario == plan.scenario.replace(tensor_parallel=1)


def test_a_round_through_the_catalog_always_shows_the_newest(panel):
    names = (*distinct_models()[::3], "mamba-2.8b", "llama-3.1-8b", "nemotron-3-nano-30b-a3b")
    for name in names:
        panel.submit(name)
        assert panel.scenario.model == name
        assert_shows_its_plan(panel)


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_drawn_for_the_newest_plan(panel, view):
    press(panel, "view", view)
    first = region(panel, "body")
    panel.apply(tensor_parallel=2, enable_prefix_caching=True, block_size=15)
    press(panel, "view", "why")
    press(panel, "view", view)
    assert region(panel, "body") != first
    assert_shows_its_plan(panel)


def test_of_a_device_and_what_contradicts_it_the_newest_counts():
    door = wb.explore(model="llama-3.1-8b", compute_capability="8.0")
    door.apply(device="MI300X")
    assert (door.scenario.platform, door.scenario.compute_capability) == ("rocm", None)
    door.apply(device="H100")
    assert door.scenario.platform == "cuda"
    door.apply(compute_capability="10.0")
    assert (door.scenario.device, door.scenario.compute_capability) == (None, "10.0")
    assert "no device is named now" in region(door, "understood")
    assert door.session.errors == []


def test_a_backend_that_is_lost_is_reset_with_a_notice_and_a_valid_one_is_kept(panel):
    panel.apply(backend="FLASHINFER")
    panel.apply(platform="rocm")
    assert panel.scenario.backend is None
    assert "Backend FLASHINFER is not available here" in region(panel, "understood")
    panel.apply(tensor_parallel=2)
    assert "FLASHINFER" not in region(panel, "understood")
    panel.apply(backend="TRITON_ATTN")
    panel.apply(platform="cuda")
    assert panel.scenario.backend == "TRITON_ATTN"


@pytest.mark.parametrize(
    ("field", "entered", "nearest"),
    [
        ("block_size", "0", "16"),
        ("block_size", "-16", "16"),
        ("block_size", "9999999999", "2147483632"),
        ("block_size", "NaN", None),
        ("block_size", "sixteen", None),
        ("mamba_block_size", "-1", "1"),
        ("max_model_len", "0", "1"),
        ("max_num_batched_tokens", "1" * 5000, None),
        ("max_num_batched_tokens", "<b>", None),
    ],
)
def test_bad_input_keeps_the_plan_and_says_what_is_valid(panel, field, entered, nearest):
    plan, scenario = panel.plan, panel.scenario
    press(panel, "set", field, entered)
    assert panel.plan is plan
    assert panel.scenario is scenario
    said = region(panel, "understood")
    assert f"Invalid {in_labels(field)}" in said
    assert "<b>'" not in said
    if nearest is not None:
        assert f"Nearest valid value: {nearest}." in said
    press(panel, "set", field, "2048")
    assert "wb-problem" not in region(panel, "understood")
    assert getattr(panel.scenario, field) == 2048


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"do": "nothing"},
        {"do": "set", "arg": "tensor_parallel", "text": "[1"},
        {"do": "set", "arg": "no_field", "text": "1"},
        {"do": "next", "arg": "999"},
        {"do": "apply", "arg": "{}"},
        {"do": "apply", "arg": "[]"},
        {"do": "view", "arg": "nowhere"},
        {"do": "goal", "arg": "none"},
        {"do": "lab", "arg": "No lab"},
    ],
)
def test_a_message_that_no_button_sends_changes_nothing(panel, message):
    scenario = panel.scenario
    panel.view._handle_custom_msg(message, [])
    assert panel.scenario == scenario
    assert_shows_its_plan(panel)


def test_remedies_are_buttons_and_work():
    for fields in (
        {"model": "plamo-2-1b", "dtype": "float16"},
        {"model": "jamba-1.5-mini", "tensor_parallel": 3},
        {"block_size": 15},
        {"platform": "xpu", "tensor_parallel": 4, "rules": "before-37467"},
        {"model": "kimi-linear-48b-a3b", "kv_cache_dtype": "fp8_ds_mla"},
    ):
        door = wb.explore(**fields)
        press(door, "view", "start")
        before = {problem.code for problem in door.plan.errors} if door.plan else None
        offered = remedies(door)
        assert offered
        for label, changes in offered.items():
            door = wb.explore(**fields)
            assert label.startswith("Apply ")
            press(door, "apply", json.dumps(changes))
            assert door.error is None
            assert door.session.errors == []
            after = {problem.code for problem in door.plan.errors}
            assert after == set() if before is None else after < before or not after


def test_a_refused_scenario_says_why_and_shows_no_older_number():
    door = wb.explore(model="plamo-2-1b")
    door.apply(dtype="float16")
    assert door.error.code == "float16_not_supported"
    assert "float16_not_supported" in region(door, "answers")
    assert (region(door, "body"), region(door, "next"), door.view.plan) == ("", "", "")
    assert "Model dtype bfloat16" in str(remedies(door))
    press(door, "undo")
    assert_shows_its_plan(door)


def test_undo_and_redo_go_through_the_history(panel):
    sizes = (2, 4, 8)
    for size in sizes:
        panel.apply(tensor_parallel=size)
    for size in (4, 2, 1):
        press(panel, "undo")
        assert panel.scenario.tensor_parallel == size
    press(panel, "undo")
    assert panel.scenario.tensor_parallel == 1
    assert 'data-key="undo-Undo" disabled' in region(panel, "actions")
    for size in sizes:
        press(panel, "redo")
        assert panel.scenario.tensor_parallel == size
    press(panel, "undo")
    panel.apply(tensor_parallel=1)
    assert 'data-key="redo-Redo" disabled' in region(panel, "actions")
    press(panel, "reset")
    assert panel.scenario == Scenario()


def test_the_words_of_the_buttons_work_in_the_box(panel):
    panel.apply(tensor_parallel=2)
    panel.submit("Undo")
    assert panel.scenario.tensor_parallel == 1
    panel.submit("redo.")
    assert panel.scenario.tensor_parallel == 2
    panel.submit("pin as A")
    assert "Unpin A" in region(panel, "actions")
    panel.submit("go back")
    assert panel.scenario.tensor_parallel == 1
    panel.submit("start again")
    assert panel.scenario == Scenario()
    assert "Pin as A" in region(panel, "actions")
    assert "not known" not in region(panel, "understood")


def test_undo_takes_back_that_a_release_was_chosen():
    door = wb.explore(model="bamba-9b")
    door.set("rules", json.dumps("0.33"))
    door.undo()
    door.submit("kimi-k3")
    assert door.scenario.rules == "0.33"  # the only release that has it
    assert "has it and is shown" in region(door, "understood")


def test_undo_goes_back_to_the_release_that_was_chosen_before():
    door = wb.explore(model="bamba-9b", rules="0.33")
    press(door, "reset")
    door.undo()
    door.submit("qwen3.5-4b")
    assert door.scenario.rules == "0.33"


def test_the_length_of_the_requests_is_undone_as_any_other_change(panel):
    panel.apply(device="H100", tensor_parallel=4)
    before = region(panel, "answers")
    press(panel, "length", "", "4K")
    assert "4,096 tokens" in region(panel, "answers")
    panel.apply(tensor_parallel=2)
    press(panel, "length", "", "8K")
    panel.undo(2)
    assert "4,096 tokens" in region(panel, "answers")
    press(panel, "open", HISTORY)
    assert "4K-token requests" in region(panel, "actions")
    press(panel, "undo")
    assert region(panel, "answers") == before


@pytest.mark.parametrize("action", ["reset", "undo"])
def test_what_a_log_says_goes_with_its_scenario(panel, action):
    panel.submit((LOGS / "align_budget.log").read_text(encoding="utf-8"))
    assert "fatal error" in region(panel, "understood")
    press(panel, action)
    assert region(panel, "understood") == ""


def test_what_a_log_says_is_there_again_with_its_scenario(panel):
    panel.submit((LOGS / "align_budget.log").read_text(encoding="utf-8"))
    panel.apply(tensor_parallel=2)
    press(panel, "undo")
    assert "fatal error" in region(panel, "understood")
    press(panel, "undo")
    press(panel, "redo")
    assert "fatal error" in region(panel, "understood")


def test_a_pinned_scenario_is_compared_with_every_answer(panel):
    pinned = panel.plan
    press(panel, "pin")
    panel.apply(tensor_parallel=2)
    shown = region(panel, "answers")
    assert shown.count("data-pinned") == len(TILES)
    assert f"A: {pinned.block_size:,} tokens" in shown
    press(panel, "unpin")
    assert "data-pinned" not in region(panel, "answers")


@pytest.mark.parametrize("goal", GOALS)
def test_every_card_is_the_change_that_it_names(goal):
    scenario = Scenario(model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4)
    door = wb.explore(scenario)
    press(door, "goal", goal)
    press(door, "all")
    steps = next_steps(door.plan, goal)
    assert steps
    assert region(door, "next").count('data-do="next"') == len(steps)
    for number, step in enumerate(steps):
        door = wb.explore(scenario)
        press(door, "goal", goal)
        press(door, "next", str(number))
        assert door.scenario == scenario.replace(**step.changes)
        assert answers(door.plan) == answers(step.plan)
        press(door, "undo")
        assert door.scenario == scenario


def test_copied_commands_are_those_of_the_plan(panel):
    first, *_ = given = wb.commands_of(panel.plan).values()
    assert first.replace('"', "&quot;").replace("'", "&#x27;") in region(panel, "actions")
    press(panel, "view", "copy")
    for one in given:
        assert one.splitlines()[0].replace("'", "&#x27;")[:40] in region(panel, "body")


def test_a_model_name_is_escaped_everywhere():
    door = wb.explore(model=evil_config(), block_size=15)
    assert door.plan.model.name == EVIL
    assert door.plan.problems
    for view in VIEWS:
        press(door, "view", view)
        assert "<img" not in text(door)
    assert EVIL not in door._repr_mimebundle_()["text/html"]
    door.apply(tensor_parallel=3)
    assert EVIL in door.error.message
    assert "<img" not in text(door)


def test_the_answers_are_a_value():
    door = wb.explore("Qwen3-Next-80B, 4 x H100, prefix caching, 16K")
    assert door.answers == answers(door.plan, 16_384)
    door.apply(tensor_parallel=3)
    assert door.error is not None


def test_the_static_twin_is_the_summary_and_never_stale(panel):
    bundle = panel._repr_mimebundle_()
    assert bundle["text/plain"] == repr(panel.plan)
    shown = bundle["text/html"]
    summary = panel.plan._repr_html_().partition("</style>")[2]
    assert all(part in shown for part in summary.split('<div class="wb-facts">')[1:])
    for one in ("tokens: KV block", "no hit: Prefix caching is off", "requests", "no blockers"):
        assert one in shown.partition("</style>")[2].partition('<div class="wb-facts">')[0]
    assert ", Device " in shown or panel.scenario.device is None
    panel.apply(tensor_parallel=3)
    bundle = panel._repr_mimebundle_()
    assert panel.error.message in bundle["text/plain"]
    assert "wb-block-size" not in bundle["text/html"].partition("</style>")[2]


def test_an_impossible_start_is_an_ordinary_error():
    with pytest.raises(ScenarioError):
        wb.explore(tensor_parallel=0)


def test_a_lab_opens_below_follows_and_closes(panel):
    lab = panel.open("Groups and capacity")
    assert panel.labs.title == "Groups and capacity"
    assert lab.widget.layout.display is None
    assert panel.open("Prefix hits").widget.layout.display is None
    assert lab.widget.layout.display == "none"
    press(panel, "lab", "Prefix hits")
    assert panel.labs.title == ""
    with pytest.raises(ValueError, match="labs: "):
        panel.open("Nowhere")


def test_the_length_of_requests_counts_in_the_answer_and_in_the_next_steps():
    door = wb.explore(model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4)
    shown = {}
    for given, tokens in (("32K", 32_768), ("8,000", 8000), ("128k", 128_000)):
        press(door, "length", "", given)
        found = answers(door.plan, tokens)
        assert found.length_tokens == tokens
        assert TILES[2].value(found) in region(door, "answers")
        assert f"requests of {tokens:,} tokens" in region(door, "answers")
        shown[given] = region(door, "next")
    assert len(set(shown.values())) == len(shown)
    press(door, "length", "", "")
    assert "requests of 32,768 tokens" in region(door, "answers")
    assert door.session.errors == []


@pytest.mark.parametrize(
    ("text", "nearest"), [("0", "1"), ("-5", "1"), ("many", "1"), ("9999999", "262,144")]
)
def test_a_length_that_no_request_has_is_answered_with_the_nearest(text, nearest):
    door = wb.explore(model="qwen3-next-80b-a3b")
    press(door, "length", "", text)
    assert f"Nearest valid value: {nearest}." in region(door, "understood")
    assert "requests of 32,768 tokens" not in region(door, "understood")


def test_a_longer_request_than_the_next_model_allows_is_cut_to_it():
    door = wb.explore(model="qwen3-next-80b-a3b", device="H100")
    press(door, "length", "", "200K")
    door.submit("llama-3.1-8b")
    assert f"requests of {door.plan.max_model_len:,} tokens" in region(door, "answers")


def test_every_scenario_of_the_history_is_one_click_away(panel):
    for size in (2, 4):
        panel.apply(tensor_parallel=size)
    press(panel, "open", HISTORY)
    shown = region(panel, "actions")
    assert [f'data-arg="{number}"' in shown for number in range(4)] == [True, True, True, False]
    assert "Tensor parallel 4" in shown
    press(panel, "go", "1")
    assert panel.scenario.tensor_parallel == 2
    assert "wb-history" not in region(panel, "actions")
    press(panel, "redo")
    assert panel.scenario.tensor_parallel == 4
    press(panel, "go", "99")
    assert panel.scenario.tensor_parallel == 4
    assert "wb-problem" in region(panel, "understood")


def test_a_link_restores_the_scenario(panel):
    panel.apply(tensor_parallel=4, kv_cache_dtype="fp8", block_size=32)
    link = link_of(panel.scenario)
    assert link.replace('"', "&quot;") in region(panel, "actions")
    for given in (link, f"http://127.0.0.1:8888/lab{link}", panel.scenario.to_json()):
        door = wb.explore()
        door.submit(given)
        assert door.scenario == panel.scenario
    door.submit("#scenario=%7Bbroken")
    assert "The link is damaged" in region(door, "understood")
    assert door.scenario == panel.scenario


def copied_link(door):
    return unescape(re.search(r'data-copy="(#scenario=[^"]*)"', region(door, "actions"))[1])


def test_a_link_opens_the_same_answers_elsewhere(panel):
    panel.submit("gpt-oss-20b h100 128k")
    press(panel, "pin")
    panel.submit("gpt-oss-20b on h200")
    other = wb.explore()
    other.submit("qwen3-8b, 64K")
    other.submit(copied_link(panel))
    assert "requests of 128,000 tokens" in region(other, "understood")
    assert region(other, "answers") == region(panel, "answers")
    assert "A: 17" in region(other, "answers")
    panel.submit("Count requests")
    press(panel, "length")
    other.submit(copied_link(panel))
    assert region(other, "answers") == region(panel, "answers")


def test_a_length_that_stays_is_said_and_can_be_taken_back(panel):
    panel.submit("kimi linear 48b on b200 1M context")
    assert "as before" not in region(panel, "understood")
    panel.submit("llama 3.1 8b on h100")
    assert "Also as before: requests of 131,072 tokens." in region(panel, "understood")
    assert 'class="wb-set"' in region(panel, "bar").partition('data-chip="length"')[2][:300]
    press(panel, "length")
    assert "as before" not in region(panel, "understood")
    assert "requests of 32,768 tokens fit" in region(panel, "answers")
    panel.submit("qwen3-8b on h100")
    assert "as before" not in region(panel, "understood")


def test_a_comparison_of_a_text_ends_with_the_next_one(panel):
    panel.submit("compare gpt-oss 20b and qwen3.5 9b on l40s")
    assert "A against now" in region(panel, "views")
    panel.submit("qwen3-8b on h100")
    assert "A against now" not in region(panel, "views")
    assert "Unpin A" not in region(panel, "actions")
    press(panel, "pin")
    panel.submit("qwen3-14b on h100")
    assert "Unpin A" in region(panel, "actions")
    panel.submit("compare TP 2 and TP 4")
    press(panel, "pin")
    panel.submit("qwen3-14b on h100")
    assert "Unpin A" in region(panel, "actions")


@pytest.mark.parametrize("text", ["help", "?", "", "hello", "hi", "thanks"])
def test_a_greeting_gets_what_can_be_entered(panel, text):
    panel.submit(text)
    shown = region(panel, "understood")
    assert "? what to enter" in shown
    assert "invalid" not in shown
    assert "Nearest" not in shown
    assert "wb-still" not in shown
    assert 'data-do="ask" data-arg="why this block size?"' in shown
    panel.submit("wen3-8b")
    assert "Nearest: qwen3-8b" in region(panel, "understood")


def test_only_what_a_model_takes_is_offered(panel):
    panel.submit("llama 3.3 70b int4 on 2x3090, 16k ctx")
    offered = ACTION.findall(region(panel, "understood"))
    assert [label for do, _arg, label in offered if do == "ask"] == ["bitsandbytes"]
    panel.submit("qwn3-8b on h100")
    offered = ACTION.findall(region(panel, "understood"))
    assert "qwen3-8b" in [label for do, _arg, label in offered if do == "ask"]


def test_nothing_is_counted_where_nothing_can_run(panel):
    panel.submit("block size 17 qwen3.5-4b on h100")
    assert "can be served, as vLLM would not start" in region(panel, "answers")
    assert "requests of" not in region(panel, "answers")
    press(panel, "view", "fits")
    assert "Each reserves whole blocks" not in region(panel, "body")
    panel.submit("llama-3.1-8b on l4, fp8 KV")
    assert "requests of 32,768 tokens fit" in region(panel, "answers")
    # of too little memory the number says how much
    panel.apply(kv_cache_memory_bytes=2**20)
    assert panel.answers.requests == (0, 0)
    assert "as vLLM would not start" not in region(panel, "answers")


def test_a_command_with_a_flag_that_vllm_lacks_does_not_start(panel):
    panel.submit("vllm serve Qwen/Qwen3.6-27B --tensor-paralel-size 2")
    lacks = "--tensor-paralel-size 2: vLLM 0.23 does not have this flag"
    assert "✕ would not start" in region(panel, "answers")
    assert lacks in region(panel, "answers")
    assert panel.answers.starts == "no"
    assert "would not start" in panel.view.announced
    press(panel, "view", "start")
    assert lacks in region(panel, "body")
    panel.apply(device="H200")
    assert panel.answers.starts == "yes"
    assert lacks not in region(panel, "body") + region(panel, "answers")
    press(panel, "undo")
    assert panel.answers.starts == "no"


@pytest.mark.parametrize(
    ("do", "arg", "entered"),
    [("submit", "banana phone rocket", ""), ("set", "tensor_parallel", "-1"), ("go", "99", "")],
)
def test_after_an_error_what_is_shown_is_named_and_dimmed(panel, do, arg, entered):
    panel.submit("qwen3-8b on h100")
    press(panel, do, arg, entered)
    shown = region(panel, "understood")
    assert '<b class="wb-still">Below is still qwen3-8b, Device H100.</b>' in shown
    panel.submit("qwen3-14b")
    assert "wb-still" not in region(panel, "understood")


def test_the_pinned_plan_is_compared_in_every_place(panel):
    pinned = panel.plan
    press(panel, "pin")
    panel.apply(tensor_parallel=2)
    assert "A: Tensor parallel 1" in region(panel, "body")
    press(panel, "view", "pinned")
    assert "<b>Now: </b>Tensor parallel 2" in region(panel, "body")
    press(panel, "swap")
    assert panel.plan == pinned
    assert "<b>Now: </b>Tensor parallel 1" in region(panel, "body")
    press(panel, "unpin")
    assert "pinned" not in region(panel, "views")
    assert_shows_its_plan(panel)


def test_a_block_size_is_tried_without_leaving_the_scenario(panel):
    before = panel.scenario
    press(panel, "try", "", "4096")
    plan = wb.resolve(before.replace(block_size=4096))
    assert panel.scenario == before
    assert f"With a block of {plan.block_size:,} tokens" in region(panel, "tried")
    press(panel, "apply", json.dumps({"block_size": 4096}))
    assert panel.plan == plan
    assert region(panel, "tried") == ""


def test_a_drafter_may_be_a_whole_config(panel):
    drafted = (one for one in random_scenarios(200, 31, "0.23") if type(one.draft_model) is dict)
    for scenario in islice(drafted, 3):
        panel.session.request(scenario)
        panel.show_field("all")
    assert panel.session.errors == []


def test_what_is_known_of_a_scenario_is_not_computed_again(panel, monkeypatch):
    press(panel, "view", "what_if")
    press(panel, "view", "why")
    monkeypatch.setattr("workbench.door.door.next_steps", None)
    monkeypatch.setattr("workbench.door.door.body", None)
    for do, arg in (("view", "what_if"), ("open", ALL), ("view", "why"), ("lab", "Export")):
        press(panel, do, arg)
    assert_shows_its_plan(panel)


def test_the_omnibox_offers_every_model_and_hybrids_first():
    door = wb.explore()
    found = json.loads(unescape(re.search('data-models="([^"]+)"', region(door, "omnibox"))[1]))
    assert sorted(found) == [*wb.catalog_names()]
    kinds = [wb.load_model(name).is_hybrid for name in found]
    last = len(kinds) - kinds[::-1].index(True)
    assert last <= sum(kinds) + 2  # a hybrid family can have an ordinary model


def test_what_blocks_the_start_is_said_in_a_clause():
    door = wb.explore(model="nemotron-3-ultra-550b-a55b", tensor_parallel=16)
    said = "has n_groups = 8, which Tensor parallel = 16 does not divide"
    assert said in region(door, "answers")
    assert "only a single group is replicated" not in region(door, "answers")


def test_every_link_of_an_answer_leads_to_a_lab_a_view_or_a_goal(panel):
    known = {
        "show_lab": LABS,
        "goal": GOALS,
        "view": VIEWS,
        "open": FIELDS,
        "device": COMMON_DEVICES,
    }
    for tile in TILES:
        for link in tile.links(answers(panel.plan)):
            assert link.arg in known[link.do]
            assert f'data-do="{link.do}" data-arg="{link.arg}"' in region(panel, "answers")


@pytest.mark.parametrize("device", COMMON_DEVICES)
def test_a_device_is_one_click_where_it_is_missing_and_completes_the_answers(device):
    door = wb.explore(model="bamba-9b", platform="xpu")
    assert "Capacity: ? not known, " in door.view.announced
    press(door, "device", device)
    assert door.scenario == Scenario(model="bamba-9b", device=device)
    assert "?" not in door.view.announced
    assert 'data-do="device"' not in region(door, "answers")


@pytest.mark.parametrize("view", MADE_BY)
def test_the_numbers_of_a_view_lead_to_their_steps(panel, view):
    press(panel, "view", view)
    shown = re.findall(r'data-do="step" data-arg="(\d+)"', region(panel, "body"))
    assert shown
    press(panel, "view", "why")
    for number in shown:
        assert f'data-step="{number}"' in region(panel, "body")
        assert f'data-about="step-{number}"' in region(panel, "inspector")


def test_every_step_that_an_answer_names_exists():
    named = {name for names in MADE_BY.values() for name in names}
    for scenario in (
        Scenario(device="H100"),
        Scenario(kv_cache_memory_bytes=2**34, num_speculative_tokens=1, model="qwen3.5-4b"),
        Scenario(device_memory_bytes=80 * 2**30, weights_bytes=2**30, activation_bytes=2**30),
    ):
        named -= {step.rule.name for step in wb.resolve(scenario).steps}
    assert named == set()


def test_where_nothing_hits_a_click_turns_it_on():
    door = wb.explore(model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4)
    press(door, "view", "hits")
    changes = {"enable_prefix_caching": True}
    assert json.dumps(changes).replace('"', "&quot;") in region(door, "body")
    door.apply(**changes)
    assert answers(door.plan).hit_tokens
    assert "Apply" not in region(door, "body")


@pytest.mark.parametrize(("model", "has_states"), [("kimi-k2.5", False), ("bamba-9b", True)])
def test_what_fits_speaks_of_states_only_where_there_are_any(model, has_states):
    door = wb.explore(model=model, device="H200", tensor_parallel=8)
    press(door, "view", "fits")
    assert ("also for its states" in region(door, "body")) is has_states


@pytest.mark.parametrize(
    ("fields", "words", "link"),
    [
        ({"model": "qwen3.5-4b"}, "requests fit on which device?", ("device", "H100")),
        (
            {"model": "qwen3.5-4b", "platform": "cpu"},
            "requests fit with which KV-cache memory per GPU?",
            ("open", "kv_cache_memory_bytes"),
        ),
        (
            {"model": TORCHAO, "device": "B200"},
            "requests fit with which Weights per rank?",
            ("open", "weights_bytes"),
        ),
        ({"model": "deepseek-v4-pro", "device": "B200"}, "no cache, so no requests", None),
    ],
)
def test_the_number_of_requests_says_what_it_lacks_and_leads_there(fields, words, link):
    door = wb.explore(**fields)
    tile = region(door, "answers").partition('data-tile="fits"')[2].partition("data-tile=")[0]
    assert words in unescape(tile)
    sent = re.findall(r'data-do="(device|open)" data-arg="(\w+)"', tile)
    assert sent[:1] == ([link] if link else [])


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("model", ["qwen3-next-80b-a3b", "llama-3.1-8b", "nemotron-h-8b"])
def test_no_card_that_is_shown_at_first_harms_the_goal(goal, model):
    door = wb.explore(model=model, device="H100", tensor_parallel=4)
    door.receive({"do": "goal", "arg": goal})
    steps = next_steps(door.plan, goal)
    shown = region(door, "next").count('class="wb-card"')
    assert not any(step.harms(goal) for step in steps[:shown])
    assert shown == 3 or shown == len(steps) or steps[shown].harms(goal)
    assert (f"all {len(steps)} changes" in region(door, "next")) == (shown < len(steps))


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("device", [None, "H100"])
@pytest.mark.parametrize("model", ["qwen3-next-80b-a3b", "nemotron-h-8b", "gemma-3-27b"])
def test_a_card_that_is_shown_at_first_does_what_it_says(model, device, goal):
    door = wb.explore(model=model, device=device, tensor_parallel=4)
    door.receive({"do": "goal", "arg": goal})
    cards = re.findall(r'data-do="next" data-arg="(\d+)".*?<b>(.*?)</b>', region(door, "next"))
    for number, words in cards:
        changed = wb.explore(door.scenario)
        changed.receive({"do": "goal", "arg": goal})
        step = next_steps(changed.plan, goal)[int(number)]
        assert changes_text(step.changes) == unescape(words)
        changed.receive({"do": "next", "arg": number})
        assert changed.scenario == door.scenario.replace(**step.changes)
