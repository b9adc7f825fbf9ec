"""The search for the model of a log that names none: the likeliest first, and how far it went."""

from __future__ import annotations

import re

import pytest

from tests.interop.test_log_explain import SIZE, log_of
from workbench.interop.exchange import explain_log
from workbench.interop.logs import candidates


@pytest.mark.parametrize(("most", "is_whole"), [(40, False), (10**6, True)])
def test_a_search_says_how_many_combinations_it_tried(most, is_whole, monkeypatch):
    monkeypatch.setattr(candidates, "MOST_TRIED", most)
    [text] = explain_log(SIZE.format(523)).missing
    tried = int(re.search(r"([\d,]+) (?:likeliest )?combinations", text)[1].replace(",", ""))
    assert (tried < most, tried == most) == (is_whole, not is_whole)
    assert ("The others were not tried" in text) != is_whole


@pytest.mark.parametrize("why", ["enough", "fewer changes fit", ""])
def test_a_search_that_stops_with_candidates_says_so(why, monkeypatch):
    monkeypatch.setattr(candidates, "MOST", 3 if why == "enough" else 10**6)
    if not why:
        fewer = candidates.STEPS[: candidates.STEPS.index(candidates.THREE_LIKELY)]
        monkeypatch.setattr(candidates, "STEPS", fewer)
    report = explain_log(log_of("size_alone_528"))
    assert report.scenes
    assert (len(report.scenes) == 3) == (why == "enough")
    [text] = report.missing
    assert "pick a candidate" in text
    assert ("stopped after" in text) == bool(why)


def test_what_is_likelier_is_tried_before_the_search_ends(monkeypatch):
    every = explain_log(log_of("size_alone_528")).scenes
    monkeypatch.setattr(candidates, "MOST_TRIED", 60)
    few = explain_log(log_of("size_alone_528")).scenes
    assert few
    assert all(len(scene.fields) == len(few[0].fields) for scene in few)
    assert {scene.words for scene in few} <= {scene.words for scene in every}
