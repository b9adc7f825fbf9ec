"""A panel per test, and a check that no callback failed unless a test expects it."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench.door.session import STRICT_VARIABLE


@pytest.fixture(autouse=True)
def ordinary_errors(monkeypatch):
    """Show errors instead of raising them, whatever the environment of the test run says."""
    monkeypatch.delenv(STRICT_VARIABLE, raising=False)


@pytest.fixture
def panel():
    """Yield the panel of the default scenario; its session must have no error in the end."""
    panel = wb.explore(model="nemotron-3-nano-30b-a3b")
    yield panel
    assert panel.session.errors == []


@pytest.fixture
def failing_panel():
    """Yield the same, for tests that plant errors."""
    return wb.explore(model="nemotron-3-nano-30b-a3b")
