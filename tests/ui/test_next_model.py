"""Another model starts without what only the last one had, and the front door says what went."""

from __future__ import annotations

import json

import pytest

import workbench as wb
from tests.ui.panels import region
from workbench.scenario import FIELDS, Scenario

BACK = "Back to vLLM 0.23: vLLM 0.33 was for the previous model."
NEXT = {
    "a name": lambda door: door.submit("bamba-9b"),
    "a question": lambda door: door.submit("will bamba-9b start on 2 x H100?"),
    "a description": lambda door: door.submit("bamba-9b, 2 x H100"),
    "a command": lambda door: door.submit("vllm serve ibm-ai-platform/Bamba-9B-v1"),
    "the control": lambda door: door.set("model", json.dumps("bamba-9b")),
    "a link": lambda door: door.apply(model="bamba-9b"),
}


@pytest.fixture(params=NEXT.values(), ids=NEXT)
def choose_next(request):
    """Choose bamba-9b in one of the ways that a person has."""
    return request.param


def test_a_release_that_one_model_needed_goes_with_that_model(choose_next):
    door = wb.explore()
    door.submit("kimi-k3")
    door.apply(tensor_parallel=2)
    assert door.scenario.rules == "0.33"
    choose_next(door)
    assert (door.scenario.model, door.scenario.rules) == ("bamba-9b", "0.23")
    assert BACK in region(door, "understood")


def test_what_went_with_the_last_model_is_not_said_next_to_an_error():
    mtp = {"num_speculative_tokens": 2, "speculative_method": "mtp"}
    door = wb.explore(model="qwen3-next-80b-a3b", **mtp)
    door.submit("bamba-9b")
    assert "nothing drafts now" in region(door, "understood")
    door.submit("bamba-9b, vLLM 0.30")
    assert "nothing drafts now" not in region(door, "understood")
    assert "vLLM version (rules) &#x27;0.30&#x27; is not known" in region(door, "understood")


@pytest.mark.parametrize("choose", [{"rules": "0.33"}, None], ids=["a control", "a text"])
def test_a_release_that_a_person_chose_stays(choose, choose_next):
    door = wb.explore()
    if choose is None:
        door.submit("vLLM 0.33")
    else:
        door.apply(**choose)
    door.submit("kimi-k3")
    choose_next(door)
    assert door.scenario.rules == "0.33"
    assert "Back in" not in region(door, "understood")


def test_a_release_that_the_front_door_was_opened_with_stays(choose_next):
    door = wb.explore(Scenario(rules="0.33"))
    choose_next(door)
    assert door.scenario.rules == "0.33"


def test_a_release_is_not_chosen_any_more_after_a_reset():
    door = wb.explore(Scenario(rules="0.33"))
    door.receive({"do": "reset"})
    door.submit("kimi-k3")
    door.submit("bamba-9b")
    assert door.scenario.rules == "0.23"


def test_a_drafter_that_the_next_model_cannot_have_goes_with_a_notice(choose_next):
    door = wb.explore()
    door.submit("Qwen3-Next-80B, 4 x H100, MTP 1")
    choose_next(door)
    assert door.error is None
    assert door.scenario.num_speculative_tokens == 0
    assert door.scenario.speculative_method is None


def test_a_drafter_that_the_next_model_has_too_stays():
    door = wb.explore()
    door.submit("Qwen3-Next-80B, 4 x H100, MTP 1")
    door.apply(model="qwen3.5-4b")
    assert door.scenario.num_speculative_tokens == 1


def test_a_drafter_that_is_named_with_the_model_is_answered_with_the_refusal():
    door = wb.explore()
    door.submit("bamba-9b, MTP 1")
    assert door.error.code == "no_mtp_layers"


def test_weights_of_the_last_model_are_not_those_of_the_next(choose_next):
    door = wb.explore(Scenario(device="H100", weights_bytes=60 * 10**9, activation_bytes=2**30))
    choose_next(door)
    assert (door.scenario.weights_bytes, door.scenario.activation_bytes) == (None, None)


def test_what_went_with_the_model_is_named():
    door = wb.explore(Scenario(weights_bytes=60 * 10**9, cuda_graph_bytes=2**30))
    door.apply(model="bamba-9b")
    said = region(door, "understood")
    assert "because they belonged to the previous model: Weights per rank, Graph reserve." in said


def test_weights_that_are_entered_with_the_model_stay():
    door = wb.explore(Scenario(weights_bytes=60 * 10**9))
    door.apply(model="bamba-9b", weights_bytes=60 * 10**9)
    assert door.scenario.weights_bytes == 60 * 10**9


def test_a_draft_model_goes_with_its_target_and_so_does_all_drafting():
    door = wb.explore(
        Scenario(model="qwen3-8b", num_speculative_tokens=3, draft_model="qwen3-0.6b")
    )
    door.apply(model="llama-3.1-8b")
    drafting = ("num_speculative_tokens", *(n for n, one in FIELDS.items() if one.of_drafter))
    assert all(getattr(door.scenario, one) == FIELDS[one].default for one in drafting)


def test_a_reset_counts_requests_of_the_usual_length_again():
    door = wb.explore()
    door.submit("kimi-k2, 128k")
    assert "128k-token requests" in region(door, "bar")
    door.receive({"do": "reset"})
    assert "32K-token requests" in region(door, "bar")
