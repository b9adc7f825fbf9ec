"""The tab "Live check": a Python without vLLM is reported in the panel; a result is a table."""

from __future__ import annotations

import os

import pytest

from tests.ui.panels import shown_in_time
from workbench.door.session import Session
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve
from workbench.ui.panels.verify import VerifyPanel

PYTHON = os.environ.get("WORKBENCH_VLLM_PYTHON")


@pytest.fixture
def panel():
    scenario = Scenario(model="qwen3-8b")
    found = VerifyPanel(Session(scenario, lambda _outcome: None))
    found.show(resolve(scenario))
    return found


def test_a_python_without_vllm_is_reported_in_the_panel(panel):
    panel.python.value = "/nowhere/python"
    panel.start.click()
    assert shown_in_time(panel.jobs)
    assert "cannot be started" in panel.jobs.status.value
    assert not panel.start.disabled
    assert panel.session.errors == []


@pytest.mark.vllm
@pytest.mark.skipif(PYTHON is None, reason="WORKBENCH_VLLM_PYTHON names no Python")
def test_the_answer_is_a_table_that_goes_stale(panel):
    panel.python.value = PYTHON
    panel.start.click()
    assert shown_in_time(panel.jobs)
    table = panel.widget.children[-1]
    assert 'data-same="true"' in table.value
    assert 'data-same="false"' not in table.value
    panel.show(resolve(Scenario(model="qwen3-8b", tensor_parallel=2)))
    assert "wb-stale" in table._dom_classes
