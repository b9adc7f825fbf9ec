"""The tab "Prefix hits": the case of vllm#45238 as input, and invalid input."""

from __future__ import annotations

import pytest

import workbench as wb

TITLE = "Prefix hits"


@pytest.fixture
def tab():
    panel = wb.explore(
        model="qwen3.5-4b",
        enable_prefix_caching=True,
        max_num_batched_tokens=2048,
        max_model_len=32768,
    )
    return panel, panel.open(TITLE)


def type_in(hits, **values):
    for name, value in values.items():
        hits.inputs[name].value = str(value)


def test_1600_shared_tokens_hit_and_1500_do_not(tab):
    panel, hits = tab
    assert panel.plan.block_size == 528
    type_in(hits, shared_tokens=1600, unique_tokens=600, requests=64, prefixes=8)
    assert "<b>56 of 64</b>" in hits._workload.value
    assert "checkpoints at 1,584 and 2,112" in hits._workload.value
    type_in(hits, shared_tokens=1500, unique_tokens=700)
    assert "<b>0 of 64</b>" in hits._workload.value
    assert "1,056 tokens that attention could reuse" in hits._workload.value
    type_in(hits, shared_tokens=1600, unique_tokens=600, prefixes=12)
    assert "<b>52 of 64</b>" in hits._workload.value
    assert "measured 52" in hits._report.value


def test_empty_fields_mean_the_shown_defaults(tab):
    _panel, hits = tab
    assert hits.inputs["shared_tokens"].placeholder == "1584"
    assert "of 64</b> requests" in hits._workload.value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("shared_tokens", "x"),
        ("shared_tokens", "-1"),
        ("requests", "0"),
        ("prefixes", "1e3"),
        ("unique_tokens", "9" * 50),
    ],
)
def test_an_invalid_number_is_reported_and_loses_nothing(tab, field, value):
    panel, hits = tab
    before = hits._workload.value
    type_in(hits, **{field: value})
    assert "Nearest valid value" in hits._error.value
    assert hits._workload.value == before
    assert "wb-stale" in hits._workload._dom_classes
    assert "the last valid input" in hits._error.value
    type_in(hits, **{field: ""})
    assert hits._error.value == ""
    assert "wb-stale" not in hits._workload._dom_classes
    assert panel.session.errors == []


def test_a_prompt_above_the_longest_request_is_reported(tab):
    _panel, hits = tab
    type_in(hits, shared_tokens=32768)
    assert "Expected at most max_model_len" in hits._error.value
    assert "wb-stale" in hits._workload._dom_classes


def test_a_plan_that_makes_an_input_impossible_leaves_the_panel_alive(tab):
    panel, hits = tab
    type_in(hits, shared_tokens=20_000)
    panel.set("max_model_len", "16384")
    assert "Expected at most max_model_len" in hits._error.value
    assert "wb-stale" in hits._workload._dom_classes
    panel.set("max_model_len", "32768")
    assert hits._error.value == ""
    assert "wb-stale" not in hits._workload._dom_classes
    assert panel.session.errors == []


def shown(hits):
    either = {hits.switch_on, hits._curve.widget}
    return {widget for widget in either if widget.layout.display != "none"}


def test_without_prefix_caching_there_is_a_button_instead_of_a_curve(tab):
    panel, hits = tab
    panel.apply(enable_prefix_caching=False)
    assert shown(hits) == {hits.switch_on}
    type_in(hits, shared_tokens=100)
    assert hits._workload.value == ""
    hits.switch_on.click()
    assert panel.plan.enable_prefix_caching
    assert shown(hits) == {hits._curve.widget}
    assert hits._workload.value
    assert panel.session.errors == []
