"""The lab "Export": the copied text, and the files that it saves."""

from __future__ import annotations

import pytest

import workbench as wb


@pytest.fixture
def tab(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    panel = wb.explore(model="qwen3.5-4b", tensor_parallel=2)
    yield panel, panel.open("Export")
    assert panel.session.errors == []


def test_a_design_and_a_page_are_saved_and_open_again(tab, tmp_path):
    panel, taken = tab
    taken.name.value = "ours <1>"
    taken.save.click()
    assert "ours &lt;1&gt;.json" in taken._saved.value
    loaded = wb.load_design(tmp_path / "ours <1>.json")
    assert loaded.plan == panel.plan
    page = (tmp_path / "ours <1>.html").read_text(encoding="utf-8")
    assert "ours &lt;1&gt;" in page
    assert "--tensor-parallel-size 2" in page


def test_nothing_is_overwritten(tab, tmp_path):
    _panel, taken = tab
    (tmp_path / "design.html").write_text("mine")
    taken.save.click()
    assert "design.html already exists" in taken._saved.value
    assert (tmp_path / "design.html").read_text() == "mine"
    assert not (tmp_path / "design.json").exists()


def test_a_missing_folder_is_reported(tab):
    _panel, taken = tab
    taken.name.value = "none/design"
    taken.save.click()
    assert "cannot be written" in taken._saved.value


def test_without_a_plan_nothing_is_saved(tab, tmp_path):
    panel, taken = tab
    panel.session.request(panel.scenario.replace(max_model_len=10**9))
    assert taken.save.disabled
    assert taken.python.text.startswith("# ")
    panel.session.request(panel.scenario.replace(max_model_len=4096))
    assert not taken.save.disabled
