"""The tab "Groups and capacity": every picture, any prompt length, and invalid input."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench.ui.panels.capacity import PICTURES

TITLE = "Groups and capacity"


@pytest.fixture
def tab():
    panel = wb.explore(model="qwen3.5-4b", kv_cache_memory_bytes="20 GiB")
    return panel, panel.open(TITLE)


def shown(tab):
    return tab._figure.figure


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_that_of_the_plan_and_follows_a_change(tab, name):
    panel, capacity = tab
    capacity.picture.value = name
    panel.apply(tensor_parallel=2)
    fresh = PICTURES[name](panel.plan, panel.answers.length_tokens)
    assert shown(capacity).layout.title.text == fresh.layout.title.text
    for live, new in zip(shown(capacity).data, fresh.data, strict=True):
        if new.x is not None:
            assert list(live.x) == list(new.x)
            assert list(live.y) == list(new.y)
        if new.type == "heatmap":
            assert list(map(list, live.text)) == list(map(list, new.text))


def test_the_prompt_length_changes_the_picture(tab):
    _panel, capacity = tab
    capacity.picture.value = "capacity over TP and dtype"
    before = list(shown(capacity).data[0].y)
    capacity.prompt.value = "100,000"
    assert "<td>100,000</td>" in capacity._tables.value
    assert list(shown(capacity).data[0].y) != before


def test_the_prompt_length_is_that_of_the_front_door_while_none_is_entered(tab):
    panel, capacity = tab
    assert "<td>32,768</td>" in capacity._tables.value
    for text in ("how many 48K requests fit?", "100000-token requests"):
        panel.submit(text)
        length = panel.answers.length_tokens
        assert capacity.prompt.placeholder == str(length)
        assert f"<td>{length:,}</td>" in capacity._tables.value
    capacity.prompt.value = "20K"
    assert "<td>20,480</td>" in capacity._tables.value
    capacity.prompt.value = ""
    assert "<td>100,000</td>" in capacity._tables.value


@pytest.mark.parametrize(
    ("text", "nearest"),
    [("0", 1), ("-1", 1), ("ten", 32768), ("1.5", 32768), ("999,999", 262144), ("1M", 262144)],
)
def test_an_invalid_prompt_length_is_reported_and_loses_nothing(tab, text, nearest):
    panel, capacity = tab
    before = shown(capacity).to_json()
    capacity.prompt.value = text
    assert f"Nearest valid value: {nearest}" in capacity._error.value
    assert shown(capacity).to_json() == before
    assert "wb-stale" in capacity._figure.widget._dom_classes
    assert "the last valid input" in capacity._error.value
    capacity.prompt.value = "128"
    assert capacity._error.value == ""
    assert "wb-stale" not in capacity._figure.widget._dom_classes
    assert panel.session.errors == []


def test_pages_that_differ_leave_no_picture():
    panel = wb.explore(
        model="nemotron-3-nano-30b-a3b", platform="xpu", tensor_parallel=4, rules="before-37467"
    )
    capacity = panel.open(TITLE)
    assert capacity._figure.widget.layout.display == "none"
    assert "cannot be made equal" in capacity._tables.value
    panel.apply(rules="0.23")
    assert capacity._figure.widget.layout.display is None
