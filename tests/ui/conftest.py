"""A panel per test, and the promise that no callback failed unless a test says so."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench.ui.session import STRICT_VARIABLE


@pytest.fixture(autouse=True)
def ordinary_errors(monkeypatch):
    """Errors are shown, not raised, whatever the environment of the test run says."""
    monkeypatch.delenv(STRICT_VARIABLE, raising=False)


@pytest.fixture
def panel():
    """The panel of the default scenario; its session must have no error in the end."""
    panel = wb.explore(model="nemotron-3-nano-30b-a3b")
    yield panel
    assert panel.session.errors == []


@pytest.fixture
def failing_panel():
    """The same, for tests that plant errors."""
    return wb.explore(model="nemotron-3-nano-30b-a3b")
