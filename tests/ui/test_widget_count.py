"""Replaced widgets are closed: neither the kernel nor the browser keeps them."""

from __future__ import annotations

import pytest
from ipywidgets.widgets import widget as every

import workbench as wb
from tests.ui.panels import press
from workbench.ui.labs import LABS

ROUNDS = 2
SCENARIOS = (
    {"model": "qwen3-next-80b-a3b", "kv_cache_memory_bytes": "31 GiB"},
    {"model": "qwen3-next-80b-a3b", "kv_cache_memory_bytes": None},
    {"backend": "FLEX_ATTENTION"},
    {"backend": None, "enable_prefix_caching": False},
    {"enable_prefix_caching": True, "block_size": 15},
    {"block_size": None, "tensor_parallel": 2},
    {"model": "plamo-2-1b", "dtype": "float16"},
    {"dtype": "auto", "tensor_parallel": 1},
    {"model": "deepseek-v3"},
)


def alive() -> set[str]:
    return set(every._instances)


def change_everything(panel, tab):
    for changes in SCENARIOS:
        panel.session.replace(**changes)
    for control in ("picture", "part", "level"):
        picker = getattr(tab, control, None)
        for _label, value in getattr(picker, "_options_full", ()):
            picker.value = value


@pytest.mark.parametrize("title", LABS)
def test_a_change_closes_the_widgets_that_it_replaces(title):
    panel = wb.explore(**SCENARIOS[0])
    tab = panel.open(title)
    change_everything(panel, tab)
    before = alive()
    for _round in range(ROUNDS):
        change_everything(panel, tab)
    assert len(alive()) == len(before)
    assert panel.session.errors == []


def test_the_front_door_makes_no_widget_for_what_it_shows(panel):
    before = alive()
    for changes in SCENARIOS:
        panel.session.replace(**changes)
        panel.submit("vllm serve Qwen/Qwen3.5-4B --block-size 528")
        press(panel, "open", "all")
        press(panel, "pin")
    assert alive() == before
