"""Replaced widgets are closed: neither the kernel nor the browser keeps them."""

from __future__ import annotations

import ipywidgets as widgets
import pytest
from ipywidgets.widgets import widget as every

import workbench as wb
from workbench.ui.tabs import PANELS

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


@pytest.mark.parametrize("title", PANELS)
def test_a_change_closes_the_widgets_that_it_replaces(title):
    panel = wb.explore(**SCENARIOS[0])
    tab = panel.open(title)
    change_everything(panel, tab)
    before = alive()
    for _round in range(ROUNDS):
        change_everything(panel, tab)
    assert len(alive()) == len(before)
    assert panel.session.errors == []


def test_what_a_message_offers_is_closed_too():
    panel = wb.explore()
    log = panel.open("Log")
    log.text.value = "vllm serve Qwen/Qwen3.5-4B --block-size 528"
    log.explain.click()
    before = alive()
    for _round in range(ROUNDS):
        log.explain.click()
    assert len(alive()) == len(before)


def test_a_closed_button_still_had_its_click(panel):
    panel.session.replace(block_size=15)
    [button, *_rest] = [
        child
        for box in panel._problems._list.children
        for child in getattr(box, "children", ())
        if isinstance(child, widgets.Button)
    ]
    button.click()
    assert panel.scenario.block_size != 15
    assert button.comm is None
