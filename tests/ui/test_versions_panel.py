"""The tab "Versions": two rule sets compared, also where one of them refuses."""

from __future__ import annotations

import pytest

import workbench as wb

TITLE = "Versions"


def tab_of(**scenario):
    panel = wb.explore(**scenario)
    return panel, panel.open(TITLE)


def figure_of(tab):
    return tab.figure.figure


def test_it_shows_what_an_upgrade_changes():
    _panel, tab = tab_of(model="kimi-linear-48b-a3b")
    assert "1,888 tokens" in tab._table.value
    assert "1,920 tokens" in tab._table.value
    assert [trace.name for trace in figure_of(tab).data][-1] == "vLLM 0.33"


def test_it_follows_the_scenario_and_both_pickers():
    panel, tab = tab_of(model="kimi-linear-48b-a3b")
    panel.apply(enable_prefix_caching=True)
    assert "prefix caching" not in tab._table.value.split("<details>")[0]
    tab.new.value = "0.23"
    assert "No number of this scenario changes." in tab._table.value
    tab.old.value = "before-37467"
    assert "before-37467" in tab._table.value
    assert panel.session.errors == []


def test_a_refusal_of_the_chosen_rules_still_compares():
    panel, tab = tab_of(model="bamba-9b")
    panel.apply(rules="0.33")
    assert panel.scenario.rules == "0.33"
    assert "refused" in tab._table.value
    assert panel.session.errors == []


@pytest.mark.slow
def test_the_whole_catalog_is_a_table_and_goes_with_another_version():
    panel, tab = tab_of(model="llama-3.1-8b")
    tab.catalog.click()
    for name in wb.catalog_names():
        assert name in tab._matrix.value
    tab.new.value = "before-37467"
    assert tab._matrix.value == ""
    assert panel.session.errors == []


def test_settings_that_another_version_does_not_know_are_reported():
    _panel, tab = tab_of(
        model="nemotron-3-nano-30b-a3b", enable_prefix_caching=True, mamba_cache_mode="all"
    )
    assert "Mamba cache mode" in tab._table.value


def test_a_draft_model_that_cannot_be_read_is_a_message_in_place_of_the_matrix(panel):
    tab = panel.open("Versions")
    panel.session.replace(draft_model="no-such-model")
    tab.catalog.click()
    assert "no-such-model" in tab._matrix.value
