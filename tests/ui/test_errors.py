"""A planted exception is shown, recorded, and gone with the next valid click."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.ui.panels import figure, is_stale, is_verdict_stale
from workbench.ui import tabs
from workbench.ui.session import STRICT_VARIABLE
from workbench.views import html

PLANTED = "planted <img src=x onerror=alert(1)>"


class PlantedError(RuntimeError):
    """An error that nothing in the workbench raises."""


def fail(*_args, **_kwargs):
    raise PlantedError(PLANTED)


PLACES = {
    "headline": (html, "headline_html"),
    "backends": (tabs, "grid_html"),
    "facts": (html, "facts_html"),
    "figure": ("workbench.ui.explorer", "page"),
    "trace": (html, "trace_html"),
    "pickers": ("workbench.ui.controls.Controls", "refresh"),
    "resolve": ("workbench.ui.session", "resolve_model"),
}


def plant(monkeypatch, place):
    target, name = PLACES[place]
    if isinstance(target, str):
        monkeypatch.setattr(f"{target}.{name}", fail)
    else:
        monkeypatch.setattr(target, name, fail)


@pytest.mark.parametrize("place", PLACES)
def test_a_planted_exception_is_shown_recorded_and_recovered_from(
    failing_panel, monkeypatch, place
):
    panel = failing_panel
    panel.open("Backends by TP" if place == "backends" else "Why")
    with monkeypatch.context() as planted:
        plant(planted, place)
        panel.controls["tensor_parallel"].value = 2
    area = panel._error_area.value
    assert 'data-workbench-error="_picked"' in area
    assert "PlantedError: planted &lt;img" in area
    assert "Traceback (most recent call last)" in area
    assert "<img" not in area
    assert is_stale(panel)
    assert is_verdict_stale(panel)
    [recorded] = panel.session.errors
    assert recorded.callback == "_picked"
    assert recorded.summary == f"PlantedError: {PLANTED}"
    assert "def fail" not in recorded.traceback
    assert "in fail" in recorded.traceback

    panel.controls["tensor_parallel"].value = 4
    assert panel._error_area.value == ""
    assert not is_stale(panel)
    assert not is_verdict_stale(panel)
    assert panel.plan == wb.resolve(panel.scenario)
    assert panel.scenario.tensor_parallel == 4
    assert len(panel.session.errors) == 1


def test_an_exception_while_legal_values_are_found(failing_panel, monkeypatch):
    with monkeypatch.context() as planted:
        planted.setattr("workbench.ui.controls.Controls.offer_legal", fail)
        failing_panel.controls["tensor_parallel"].value = 2
        assert failing_panel.controls["tensor_parallel"].value == 2
    assert 'data-workbench-error="_offer"' in failing_panel._error_area.value
    assert failing_panel.plan == wb.resolve(failing_panel.scenario)


def test_an_exception_in_a_tab_that_is_opened_later(failing_panel, monkeypatch):
    panel = failing_panel
    with monkeypatch.context() as planted:
        plant(planted, "backends")
        panel.open("Backends by TP")
    assert 'data-workbench-error="_opened"' in panel._error_area.value
    assert is_stale(panel)


def test_an_exception_in_the_first_show_still_gives_a_panel(monkeypatch):
    with monkeypatch.context() as planted:
        plant(planted, "facts")
        panel = wb.explore()
    assert 'data-workbench-error="_first_show"' in panel._error_area.value
    assert figure(panel) is None
    panel.controls["tensor_parallel"].value = 2
    assert panel._error_area.value == ""
    assert figure(panel) is not None


def test_an_exception_in_a_remedy_is_shown(monkeypatch):
    panel = wb.explore(block_size=15)
    with monkeypatch.context() as planted:
        plant(planted, "trace")
        panel._apply({"block_size": 16})
    assert 'data-workbench-error="_apply"' in panel._error_area.value
    assert panel.session.errors[0].callback == "_apply"


def test_an_exception_while_a_refusal_is_shown(failing_panel, monkeypatch):
    panel = failing_panel
    with monkeypatch.context() as planted:
        planted.setattr(html, "refusal_html", fail)
        panel._apply({"tensor_parallel": 3})
    assert panel.session.errors[0].callback == "_apply"
    assert is_stale(panel)


@pytest.mark.parametrize("place", PLACES)
def test_strict_raises_as_well(failing_panel, monkeypatch, place):
    monkeypatch.setenv(STRICT_VARIABLE, "1")
    failing_panel.open("Backends by TP" if place == "backends" else "Why")
    with monkeypatch.context() as planted:
        plant(planted, place)
        with pytest.raises(PlantedError):
            failing_panel.controls["tensor_parallel"].value = 2
    assert 'data-workbench-error="_picked"' in failing_panel._error_area.value
    assert len(failing_panel.session.errors) == 1
    failing_panel.controls["tensor_parallel"].value = 4
    assert failing_panel.plan.settings.tensor_parallel == 4


def test_strict_lets_bad_input_and_refusals_be(monkeypatch):
    monkeypatch.setenv(STRICT_VARIABLE, "1")
    panel = wb.explore()
    panel.controls["block_size"].value = "x"
    panel.session.request(panel.scenario.replace(tensor_parallel=3))
    assert panel.error.code == "heads_not_divisible"
    assert panel.session.errors == []
