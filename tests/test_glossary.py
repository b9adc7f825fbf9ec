"""docs/glossary.md: its sizes are those of a real plan, and its words are explained once."""

import contextlib
import io
import re
from collections import Counter
from pathlib import Path

GLOSSARY = (Path(__file__).parents[1] / "docs" / "glossary.md").read_text(encoding="utf-8")


def fenced(language):
    return re.search(rf"```{language}\n(.*?)```", GLOSSARY, re.DOTALL)[1]


def test_the_sizes_are_those_of_the_plan():
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(fenced("python"), "glossary.md", "exec"), {})
    assert printed.getvalue() == fenced("text")


def test_every_word_is_explained_once():
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", GLOSSARY, re.MULTILINE)
    words = [word for word, meaning in rows if word != "word"]
    assert len(words) >= 30
    assert {word for word, count in Counter(words).items() if count > 1} == set()
    for word in ("manager block", "page", "kernel block", "group", "SSM layer", "plan", "scenario"):
        assert word in words
