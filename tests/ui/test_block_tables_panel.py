"""The tab "Block tables": real launches from buttons; a refused input loses nothing."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.ui.panels import shown_in_time

TITLE = "Block tables"
PATIENCE_S = 300  # reached by what is broken, never by a busy machine


@pytest.fixture
def tab():
    panel = wb.explore(
        model="qwen3.5-4b",
        backend="FLASHINFER",
        max_model_len=4096,
        num_gpu_blocks_override=60,
        max_num_seqs=8,
    )
    tables = panel.open(TITLE)
    tables.batch.value = "q70_2q1s900"
    return panel, tables


def do(tables, name):
    assert not tables.buttons[name].disabled, name
    tables.buttons[name].click()
    assert shown_in_time(tables.jobs, PATIENCE_S)


def test_nothing_is_launched_before_start(tab):
    _panel, tables = tab
    assert tables._step is None
    enabled = {name for name, button in tables.buttons.items() if not button.disabled}
    assert enabled == {"Start", "Run it", "Compile"}


def test_the_tab_explains_itself_in_spite_of_a_refusal():
    tables = wb.explore(model="llama-3.1-8b", tensor_parallel=3).open(TITLE)
    assert "Press <b>Start</b>" in tables._status.value


def test_a_batch_goes_through_its_life(tab):
    panel, tables = tab
    for name, rows in (
        ("Start", (0, 1, 2)),
        ("Decode 1", (0, 1, 2)),
        ("Finish", (1, 2)),
        ("Admit", (1, 2, 0)),
        ("Move", (6, 2, 0)),
        ("Shrink", (6, 2, 0)),
        ("Grow back", (6, 2, 0)),
    ):
        do(tables, name)
        assert "✓ agrees" in tables._status.value, name
        assert tables.row.options == rows
        assert tables.jobs.status.value == ""
    assert all(one.widget.layout.display is None for one in tables._figures)
    assert panel.session.errors == []


def test_the_pictures_follow_the_group(tab):
    _panel, tables = tab
    do(tables, "Start")
    attention = tables._tables_figure.figure.layout.title.text
    tables.group.value = next(value for _label, value in tables.group.options if value == 0)
    assert tables._tables_figure.figure.layout.title.text != attention


def test_the_damage_of_a_mistake_is_shown(tab):
    _panel, tables = tab
    do(tables, "Run it")
    assert "tokens are not in their own slot" in tables._damage.value
    assert "Pool: the 60 blocks of this plan" in tables._damage.value


def test_a_mistake_that_the_pool_cannot_hold_is_refused_in_words(tab):
    panel, tables = tab
    tables.batch.value = "9q1s3000"
    do(tables, "Run it")
    assert "of the pool are free" in tables.jobs.status.value
    assert tables._damage.value == ""
    assert panel.session.errors == []


@pytest.mark.thorough
def test_kernels_are_compiled_for_a_target_that_is_not_here(tab):
    _panel, tables = tab
    tables.target.value = "gfx942"
    do(tables, "Compile")
    assert "fast, any size: gather_and_slots" in tables._compiled.value
    assert "gfx942" in tables._compiled.value
    assert "s_endpgm" in tables._compiled.value
    assert tables._step is None


@pytest.mark.parametrize("batch", ["", "q", "q5s4", "2x", "<img src=x>"])
def test_an_invalid_batch_is_reported_and_loses_nothing(tab, batch):
    panel, tables = tab
    do(tables, "Start")
    before = tables._step
    tables.batch.value = batch
    tables.buttons["Start"].click()
    assert "batch_not_readable" in tables.jobs.status.value or "segment" in tables.jobs.status.value
    assert "<img" not in tables.jobs.status.value
    assert tables._step is before
    assert panel.session.errors == []


def test_a_refusal_of_the_tables_is_reported_and_loses_nothing(tab):
    panel, tables = tab
    do(tables, "Start")
    tables.newcomer.value = "q4000"
    do(tables, "Admit")
    assert "token budget" in tables.jobs.status.value
    assert "✓ agrees" in tables._status.value
    do(tables, "Decode 1")
    assert tables.jobs.status.value == ""
    assert panel.session.errors == []


def test_another_plan_ends_what_was_running(tab):
    panel, tables = tab
    do(tables, "Start")
    panel.apply(tensor_parallel=2)
    assert tables._step is None
    assert all(one.widget.layout.display == "none" for one in tables._figures)
    assert tables.buttons["Decode 1"].disabled
    do(tables, "Start")
    assert "✓ agrees" in tables._status.value


def test_an_exception_in_the_launching_thread_is_shown(tab, monkeypatch):
    panel, tables = tab
    do(tables, "Start")

    def fail(*_args, **_kwargs):
        raise RuntimeError("planted")

    monkeypatch.setattr(tables._tables.tables, "step", fail)
    monkeypatch.delenv("WORKBENCH_STRICT", raising=False)
    do(tables, "Decode 1")
    assert "RuntimeError: planted" in tables._error.value
    assert [error.callback for error in panel.session.errors] == ["_run"]
    panel.session.errors.clear()


def test_tables_of_0_33_are_distinguished():
    fields = {"max_model_len": 4096, "num_gpu_blocks_override": 60, "max_num_seqs": 8}
    panel = wb.explore(model="qwen3.5-4b", backend="FLASHINFER", rules="0.33", **fields)
    tables = panel.open(TITLE)
    tables.batch.value = "q70_2q1s900"
    do(tables, "Start")
    assert tables._step.groups[0].table_holds == "manager blocks"
    assert tables._step.mismatch is None
    assert panel.session.errors == []
