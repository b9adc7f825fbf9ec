"""A learner's progress: kept, shown and reset; damaged files are reported."""

import json
import os
import subprocess
import sys

import pytest

import workbench as wb
from workbench.exercises import EXERCISES
from workbench.exercises.progress import ProgressError, progress_path


@pytest.fixture
def kept(monkeypatch, tmp_path):
    path = tmp_path / "state" / "progress.json"
    monkeypatch.setenv("WORKBENCH_PROGRESS", str(path))
    return path


def entry(name):
    return next(entry for entry in wb.progress() if entry.name == name)


def test_nothing_is_written_before_something_is_answered(kept):
    assert len(wb.progress()) == len(EXERCISES)
    wb.check(None, "slot_of")
    wb.check(None, "slot_of", solve=True)
    assert wb.progress().solved == ()
    assert not kept.parent.exists()


def test_tries_are_counted_and_solved_stays_solved(kept):
    wb.check(lambda *_: 5, "slot_of")
    wb.check(EXERCISES["slot_of"].solution(), "slot_of")
    wb.check(lambda *_: 5, "slot_of")
    assert (entry("slot_of").tries, entry("slot_of").solved) == (3, True)
    assert wb.progress().solved == ("slot_of",)
    assert json.loads(kept.read_text())["exercises"] == {"slot_of": {"tries": 3, "solved": True}}
    assert [*kept.parent.iterdir()] == [kept]


def test_progress_is_there_in_the_next_session(kept):
    wb.check(EXERCISES["slot_of"].solution(), "slot_of")
    code = "import workbench as wb; print(*wb.progress().solved)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "slot_of"


def test_reset_forgets_everything(kept):
    wb.check(EXERCISES["slot_of"].solution(), "slot_of")
    assert wb.reset_progress().solved == ()
    assert not kept.exists()
    assert wb.reset_progress().solved == ()


def test_it_prints_and_shows_itself_by_lessons(kept):
    wb.check(EXERCISES["slot_of"].solution(), "slot_of")
    shown = wb.progress()
    assert repr(shown).startswith(f"1 of {len(EXERCISES)} exercises solved")
    assert [entry.lesson for entry in shown] == sorted(entry.lesson for entry in shown)
    assert "✓ lesson 3, the slot of a token: 1 try" in repr(shown)
    assert shown._repr_html_().count("✓ solved") == 1
    assert shown._repr_html_().count("… open") == len(EXERCISES) - 1
    assert len(shown[:2]) == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b'{"version": 1}',
        b'{"version": 2, "exercises": {}}',
        b'{"version": 1, "exercises": {"slot_of": 3}}',
        b'{"version": 1, "exercises": {"slot_of": {"tries": -1, "solved": true}}}',
        b'{"version": 1, "exercises": {"slot_of": {"tries": true, "solved": 1}}}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_reported_and_answers_are_still_graded(kept, content):
    kept.parent.mkdir()
    kept.write_bytes(content)
    with pytest.raises(ProgressError, match="is damaged") as caught:
        wb.progress()
    assert str(kept) in caught.value.message
    assert "wb.reset_progress()" in caught.value.message
    checked = wb.check(EXERCISES["slot_of"].solution(), "slot_of")
    assert checked.ok is True
    assert checked.rows[-1][0] == "progress"
    assert kept.read_bytes() == content
    assert wb.reset_progress().solved == ()


def test_a_place_that_cannot_be_written_is_reported(kept):
    kept.parent.write_text("a file where a folder should be")
    checked = wb.check(EXERCISES["slot_of"].solution(), "slot_of")
    assert checked.ok is True
    assert "cannot be" in dict(checked.rows)["progress"]


def test_a_folder_in_its_place_is_reported_by_reading_and_by_reset(kept):
    kept.mkdir(parents=True)
    with pytest.raises(ProgressError, match="cannot be read"):
        wb.progress()
    with pytest.raises(ProgressError, match="cannot be removed"):
        wb.reset_progress()


def test_exercises_of_another_version_are_kept(kept):
    kept.parent.mkdir()
    kept.write_text('{"version": 1, "exercises": {"gone": {"tries": 2, "solved": true}}}')
    wb.check(EXERCISES["slot_of"].solution(), "slot_of")
    assert set(json.loads(kept.read_text())["exercises"]) == {"gone", "slot_of"}
    assert wb.progress().solved == ("slot_of",)


def test_the_place_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("WORKBENCH_PROGRESS", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert progress_path() == tmp_path / "hybrid-kv-workbench" / "progress.json"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    if os.name == "posix":
        assert progress_path().is_relative_to(tmp_path / ".local" / "state")
