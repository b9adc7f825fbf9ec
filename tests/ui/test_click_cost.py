"""A click resolves the new scenario once, and what is shown of other scenarios once."""

from __future__ import annotations

import sys
import threading

import pytest

import workbench as wb
from tests.ui.panels import press
from workbench.core.errors import Refused
from workbench.core.remedies import changed_plan
from workbench.core.resolve import resolve
from workbench.core.what_if.outcomes import comparable_backends
from workbench.door.labs import LABS
from workbench.door.regions import regions

NEEDED_BY_LAB = {
    "Offload and transfer": 17,
    "Prefix hits": 16,
    "Chunks": 5,
    "Flex attention": 5,
    "Versions": 5,
}
"""Resolutions that an open lab needs of its own, at most."""
SIZES_OF_RANKS = 4
"""The lab *Backends by TP* resolves every backend with 1, 2, 4 and 8 ranks."""
NEXT_STEPS = 16
"""Changes that are tried for the cards, at most, where nothing stops the start."""


class Counter:
    """Counts the resolutions of the thread that clicks, and of the others."""

    def __init__(self):
        self.threads = []

    def __call__(self, *args, **options):
        self.threads.append(threading.get_ident())
        return resolve(*args, **options)

    def of_click(self):
        """Return the number since the last call in this thread."""
        own = self.threads.count(threading.get_ident())
        self.threads.clear()
        return own


@pytest.fixture
def counter(monkeypatch):
    """Count every resolution, whatever module calls it."""
    counted = Counter()
    for name, module in list(sys.modules.items()):
        if name.startswith("workbench") and getattr(module, "resolve", None) is resolve:
            monkeypatch.setattr(module, "resolve", counted)
    monkeypatch.setattr("workbench.door.session.resolve_model", counted)
    return counted


@pytest.mark.parametrize("title", LABS)
def test_a_click_is_one_resolution_its_next_steps_and_what_the_open_lab_needs(counter, title):
    door = wb.explore(model="qwen3.5-4b")
    door.open(title)
    needed = NEEDED_BY_LAB.get(title, 0)
    if title == "Backends by TP":
        needed = 1 + len(comparable_backends(door.plan)) * SIZES_OF_RANKS
    counter.of_click()
    door.apply(tensor_parallel=2)
    assert 1 <= counter.of_click() <= 1 + NEXT_STEPS + needed


def test_another_look_at_the_same_scenario_resolves_nothing(counter):
    door = wb.explore(model="qwen3.5-4b")
    counter.of_click()
    press(door, "view", "hits")
    assert counter.of_click() == 0


@pytest.mark.parametrize("text", ["bamba-9b", "vllm serve Qwen/Qwen3.5-4B -tp 2", "nonsense-9b"])
def test_what_is_submitted_is_drawn_once(monkeypatch, text):
    door = wb.explore(model="qwen3.5-4b")
    drawn = []
    monkeypatch.setattr(
        "workbench.door.door.regions", lambda state: drawn.append(state) or regions(state)
    )
    door.submit(text)
    door.set("tensor_parallel", "2")
    assert len(drawn) == 2


def test_remedies_are_tried_once_per_plan(counter):
    """Two problems with the same candidates, and two views of them, resolve each of them once."""
    plan = wb.resolve(model="qwen3.5-4b", block_size=15, kv_cache_memory_bytes="1 GiB")
    assert plan.problems
    tried = [changes for problem in plan.problems for changes in problem.candidates]
    counter.threads.clear()
    for _view in range(2):
        for problem in plan.problems:
            plan.remedies(problem)
    assert 0 < len(counter.threads) <= len({str(sorted(one.items())) for one in tried})


def test_what_was_tried_for_a_plan_is_not_that_of_an_equal_one():
    first, second = (wb.resolve(model="qwen3.5-4b") for _ in range(2))
    assert first == second
    assert changed_plan(first, {"block_size": 32}) is changed_plan(first, {"block_size": 32})
    assert changed_plan(first, {"block_size": 32}) is not changed_plan(second, {"block_size": 32})
    for _again in range(2):
        with pytest.raises(Refused):
            changed_plan(first, {"tensor_parallel": 3})
