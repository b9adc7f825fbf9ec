"""Replaced widgets are closed: neither the kernel nor the browser keeps them."""

from __future__ import annotations

import gc

import psutil
import pytest
from ipywidgets.widgets import widget as every

import workbench as wb
from tests.soak.duration import LONG_SOAK
from tests.ui.changes import Person
from tests.ui.panels import press
from workbench.door.labs import LABS

FEW, MANY, WARM = 50, 10_000, 2_000
"""WARM: until then a kernel was launched, for which torch and Triton are imported (270 MiB)."""
MOST_GROWTH_BYTES = 50 * 2**20
DOOR = "front door"


def alive() -> int:
    return len(every._instances)


def resident_bytes() -> int:
    gc.collect()
    return psutil.Process().memory_info().rss


def change(person: Person, count: int) -> None:
    for _ in range(count):
        person.change()
    person.settle()
    errors = person.door.session.errors
    assert not errors, "\n".join(one.traceback for one in errors)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("title", [DOOR, *LABS])
def test_fifty_changes_add_no_widget(title, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # a design is saved here
    person = Person(wb.explore(), seed=1, labs=[] if title == DOOR else [title])
    person.settle()
    before = alive()
    change(person, FEW)
    assert alive() == before


def test_the_front_door_makes_no_widget_for_what_it_shows(panel):
    before = set(every._instances)
    panel.submit("vllm serve Qwen/Qwen3.5-4B --block-size 528")
    press(panel, "open", "all")
    press(panel, "pin")
    assert set(every._instances) == before


@pytest.mark.parametrize("changes", [pytest.param(MANY, marks=LONG_SOAK)])
def test_changes_of_everything_add_little_memory_and_no_widget(changes, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    person = Person(wb.explore(), seed=2)
    change(person, WARM)  # torch, Triton and plotly are loaded by what is done first
    widgets, memory = alive(), resident_bytes()
    change(person, changes)
    assert alive() == widgets
    growth = resident_bytes() - memory
    assert growth < MOST_GROWTH_BYTES, f"the kernel grew by {growth / 2**20:,.1f} MiB"
