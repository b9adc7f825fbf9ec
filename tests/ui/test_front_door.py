"""The front door follows what is entered: every field, good values and bad, and every action."""

from __future__ import annotations

import json

import pytest

import workbench as wb
from tests.ui.panels import press, region, remedies, text
from tests.views.plans import EVIL, evil_config
from workbench.core.errors import ScenarioError, WorkbenchError
from workbench.core.what_if.answers import answers
from workbench.core.what_if.choices import NO_BACKEND
from workbench.core.what_if.next_steps import GOALS, next_steps
from workbench.models import catalog_names
from workbench.scenario import FIELDS, Scenario
from workbench.ui.door_regions import VIEWS
from workbench.views.door.scenario_bar import ALL
from workbench.views.door.tiles import TILES

ENTERED = {
    "draft_model": ("qwen3-8b", "qwen3-8b"),
    "draft_tensor_parallel": ("1", 1),
    "block_size": ("32", 32),
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
}
"""Field that takes a text -> a text, and what it means."""
START = {
    "backend": {"compute_capability": "9.0"},
    "mamba_block_size": {"enable_prefix_caching": True},
}


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
    for name in (*catalog_names()[::7], "mamba-2.8b", "llama-3.1-8b", "nemotron-3-nano-30b-a3b"):
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
    assert f"<code>{field}</code>" in said
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
    assert "dtype = bfloat16" in str(remedies(door))
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
    for given in wb.commands_of(panel.plan).values():
        assert given.splitlines()[0].replace('"', "&quot;")[:40] in region(panel, "actions")


def test_a_model_name_is_escaped_everywhere():
    door = wb.explore(model=evil_config(), block_size=15)
    assert door.plan.model.name == EVIL
    assert door.plan.problems
    for view in VIEWS:
        press(door, "view", view)
        assert "<img" not in text(door)
    assert "<img" not in door._repr_mimebundle_()["text/html"]
    door.apply(tensor_parallel=3)
    assert EVIL in door.error.message
    assert "<img" not in text(door)


def test_the_static_twin_is_the_summary_and_never_stale(panel):
    bundle = panel._repr_mimebundle_()
    assert bundle["text/plain"] == repr(panel.plan)
    assert bundle["text/html"] == panel.plan._repr_html_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
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
