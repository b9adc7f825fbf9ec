"""The check of `make lint` that keeps private words out."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "check_words.py"

PLANTED = [
    ("told = rows", "told", "reported"),
    ('"""The typed size, as asked."""', "typed", "explicit"),
    ('"""The typed size, as asked."""', "asked", "requested"),
    ("# this is no limit", "is no", "is not a"),
    ("# bytes that lie behind the pool", "lie", "stored"),
    ("# bytes that lie behind the pool", "behind", "past the end of"),
    ("# a whole\n# number of blocks", "whole number", "integer"),
    ("a test a file", "a test a file", "per"),
    ("Whoever reads it", "whoever", "the user"),
    ("def test_what_is_no_size(told):", "is no", "is not a"),
    ("def _asked_for():", "asked", "requested"),
]
PLAIN = [
    "import typing  # check_untyped_defs and TypedDict are terms of Python",
    "# a package with py.typed raises a typed error",
    "# there is no limit\n# where there\n# is no block, it is no longer used",
    'report["asked"] = 1  # words: ok, a published name',
    "backends_asked = 1  # part of a longer name",
    "def test_a_wrong_size_is_a_typed_error():",
]


def run_check(*paths: Path) -> subprocess.CompletedProcess[str]:
    """Run the tool; without paths it reads what git tracks."""
    command = [sys.executable, str(TOOL), *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("text", "word", "instead"), PLANTED)
def test_a_planted_word_is_found(tmp_path, text, word, instead):
    path = tmp_path / "room.py"
    path.write_text(f"x = 1\n{text}\n", encoding="utf-8")
    done = run_check(tmp_path)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert any(line.startswith(f"{path}:2: '{word}'") and instead in line for line in lines), lines


@pytest.mark.parametrize("text", PLAIN)
def test_plain_words_pass(tmp_path, text):
    (tmp_path / "room.py").write_text(f"{text}\n", encoding="utf-8")
    done = run_check(tmp_path)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_text_of_notebooks_and_markdown_is_read(tmp_path):
    cell = {"cell_type": "markdown", "source": ["# Title\n", "Nobody knows."]}
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [cell]}, indent=1), encoding="utf-8")
    (tmp_path / "b.md").write_text("Two sizes\nare alike.\n", encoding="utf-8")
    done = run_check(tmp_path)
    assert "a.ipynb:7: 'nobody'" in done.stdout
    assert "b.md:2: 'alike'" in done.stdout


@pytest.mark.thorough
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout of git")
def test_tracked_text_has_plain_words():
    done = run_check()
    assert (done.returncode, done.stdout) == (0, "")


def test_lint_runs_the_check():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "\nlint: types style " in makefile
    assert "tools/check_words.py" in makefile.split("\nstyle:")[1].split("\n\n")[0]


def test_every_exempt_file_exists():
    spec = importlib.util.spec_from_file_location("check_words", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    missing = [name for name in tool.LISTS if not (ROOT / name).exists()]
    assert missing == []
