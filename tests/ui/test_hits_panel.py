"""The lab of prefix hits: the case of vllm#45238 as input, its curve, changes, invalid input."""

from __future__ import annotations

import re

import pytest

import workbench as wb
from workbench.core.prefix.workload import workload_hits
from workbench.core.what_if.workload_steps import workload_steps

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
    assert "1,056 tokens of attention KV that match are computed again" in hits._workload.value
    type_in(hits, shared_tokens=1600, unique_tokens=600, prefixes=12)
    assert "<b>52 of 64</b>" in hits._workload.value
    assert "measured 52" in hits._report.value


def drawn(hits, name):
    """Return a mark in the curve: shared and cached tokens, and its text."""
    [shown] = [trace for trace in hits._curve.figure.data if trace.name == name]
    return shown.x[0], shown.y[0], shown.text[0]


def mark(hits):
    return drawn(hits, "your workload")


def test_there_is_one_threshold_in_the_sentence_and_in_the_curve(tab):
    panel, hits = tab
    type_in(hits, shared_tokens=1600, unique_tokens=600)
    wanted = "A 2,200-token prompt gets a hit once it shares at least 1,584 tokens."
    assert wanted in hits._threshold.value
    of_any_length = "The shortest prompt of any length that can hit has 529 tokens."
    assert of_any_length in hits._threshold.value
    of_workload = hits._threshold.value.replace(of_any_length, "")
    assert set(re.findall(r"([\d,]+) tokens", of_workload)) == {"1,584"}
    assert panel.plan.hits().smallest_prefix(2200) == 1584
    assert drawn(hits, "where hits begin") == (1584, 1584, "1,584")
    assert mark(hits) == (1600, 1584, "56 of 64 hit")
    cached = next(trace for trace in hits._curve.figure.data if trace.name == "cached")
    for shared, tokens in zip(cached.x, cached.y, strict=True):
        assert tokens == panel.plan.hits().hit(2200, shared).cached_tokens
    type_in(hits, shared_tokens=1500, unique_tokens=700)
    assert mark(hits) == (1500, 0, "0 of 64 hit")
    type_in(hits, shared_tokens=9_000, unique_tokens=9_000)
    assert tuple(hits._curve.figure.layout.xaxis.range) == (0, 18_000)


def test_a_change_that_helps_the_workload_is_offered_and_applied(tab):
    panel, hits = tab
    type_in(hits, shared_tokens=1500, unique_tokens=700)
    steps = workload_steps(panel.plan, hits._read(panel.plan))
    assert steps
    shown = [button.description for button in hits.steps.children]
    assert len(shown) == min(len(steps), 4)
    for step in steps:
        plan = wb.resolve(panel.scenario, **step.changes)
        again = workload_hits(plan.hits().caching, hits._read(plan))
        assert again.cached_tokens == step.hits.cached_tokens
        assert sum(again.cached_tokens) > 0
    hits.steps.children[0].click()
    assert panel.plan == wb.resolve(panel.scenario)
    assert mark(hits)[1] == max(steps[0].hits.cached_tokens)
    assert "<b>0 of 64</b>" not in hits._workload.value


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
    assert "Nearest valid value" in hits._refusal.value
    assert hits._workload.value == before
    assert "wb-stale" in hits._workload._dom_classes
    assert "the last valid input" in hits._refusal.value
    type_in(hits, **{field: ""})
    assert hits._refusal.value == ""
    assert "wb-stale" not in hits._workload._dom_classes
    assert panel.session.errors == []


def test_a_prompt_above_the_longest_request_is_reported(tab):
    _panel, hits = tab
    type_in(hits, shared_tokens=32768)
    assert "Expected at most Max model length (max_model_len)" in hits._refusal.value
    assert "wb-stale" in hits._workload._dom_classes


def test_a_plan_that_makes_an_input_impossible_leaves_the_panel_alive(tab):
    panel, hits = tab
    type_in(hits, shared_tokens=20_000)
    panel.set("max_model_len", "16384")
    assert "Expected at most Max model length (max_model_len)" in hits._refusal.value
    assert "wb-stale" in hits._workload._dom_classes
    panel.set("max_model_len", "32768")
    assert hits._refusal.value == ""
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
