"""A planted exception is shown, recorded, and gone with the next valid click."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.ui.panels import press, region
from workbench.door.session import STRICT_VARIABLE

PLANTED = "planted <img src=x onerror=alert(1)>"


class PlantedError(RuntimeError):
    """An error that nothing in the workbench raises."""


def fail(*_args, **_kwargs):
    raise PlantedError(PLANTED)


PLACES = {
    "tiles": "workbench.door.regions.tiles",
    "bar": "workbench.door.regions.scenario_bar",
    "picture": "workbench.door.explanations.page_drawing",
    "cards": "workbench.door.regions.next_cards",
    "answers": "workbench.door.door.answers",
    "next steps": "workbench.door.door.next_steps",
    "resolve": "workbench.door.session.resolve_model",
    "a lab": "workbench.ui.panels.tables.grid_html",
}


def plant(monkeypatch, place):
    monkeypatch.setattr(PLACES[place], fail)


@pytest.mark.parametrize("place", PLACES)
def test_a_planted_exception_is_shown_recorded_and_recovered_from(
    failing_panel, monkeypatch, place
):
    panel = failing_panel
    panel.open("Backends by TP")
    with monkeypatch.context() as planted:
        plant(planted, place)
        panel.apply(tensor_parallel=2)
    shown = region(panel, "error")
    assert 'data-workbench-error="receive"' in shown
    assert "PlantedError: planted &lt;img" in shown
    assert "Traceback (most recent call last)" in shown
    assert "<img" not in shown
    assert panel.view.stale
    assert "wb-stale" in panel.labs.widget._dom_classes
    [recorded] = panel.session.errors
    assert recorded.callback == "receive"
    assert recorded.summary == f"PlantedError: {PLANTED}"
    assert "in fail" in recorded.traceback

    panel.apply(tensor_parallel=4)
    assert region(panel, "error") == ""
    assert not panel.view.stale
    assert "wb-stale" not in panel.labs.widget._dom_classes
    assert panel.plan == wb.resolve(panel.scenario)
    assert panel.scenario.tensor_parallel == 4
    assert len(panel.session.errors) == 1


def test_an_exception_in_a_lab_that_is_opened_later(failing_panel, monkeypatch):
    with monkeypatch.context() as planted:
        plant(planted, "a lab")
        press(failing_panel, "lab", "Backends by TP")
    assert 'data-workbench-error="receive"' in region(failing_panel, "error")
    assert failing_panel.view.stale


def test_an_exception_in_the_first_show_still_gives_a_panel(monkeypatch):
    with monkeypatch.context() as planted:
        plant(planted, "tiles")
        panel = wb.explore()
    assert 'data-workbench-error="start"' in region(panel, "error")
    panel.apply(tensor_parallel=2)
    assert region(panel, "error") == ""
    assert f"{panel.plan.block_size:,} tokens" in region(panel, "answers")


def test_an_exception_while_a_refusal_is_shown(failing_panel, monkeypatch):
    panel = failing_panel
    with monkeypatch.context() as planted:
        planted.setattr("workbench.views.html.refusal_html", fail)
        panel.apply(tensor_parallel=3)
    assert panel.session.errors[0].callback == "receive"
    assert panel.view.stale


@pytest.mark.parametrize("place", PLACES)
def test_strict_raises_as_well(failing_panel, monkeypatch, place):
    monkeypatch.setenv(STRICT_VARIABLE, "1")
    failing_panel.open("Backends by TP")
    with monkeypatch.context() as planted:
        plant(planted, place)
        with pytest.raises(PlantedError):
            failing_panel.apply(tensor_parallel=2)
    assert 'data-workbench-error="receive"' in region(failing_panel, "error")
    assert len(failing_panel.session.errors) == 1
    failing_panel.apply(tensor_parallel=4)
    assert failing_panel.plan.settings.tensor_parallel == 4


def test_strict_lets_bad_input_and_refusals_be(monkeypatch):
    monkeypatch.setenv(STRICT_VARIABLE, "1")
    panel = wb.explore()
    panel.set("block_size", "x")
    panel.apply(tensor_parallel=3)
    assert panel.error.code == "heads_not_divisible"
    assert panel.session.errors == []
