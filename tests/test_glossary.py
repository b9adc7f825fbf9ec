"""docs/glossary.md: its sizes are those of a real plan, and its words are explained once."""

import contextlib
import io
import re
from collections import Counter
from pathlib import Path

from workbench.interop.glossary import glossary

GLOSSARY = (Path(__file__).parents[1] / "docs" / "glossary.md").read_text(encoding="utf-8")


def fenced(language):
    return re.search(rf"```{language}\n(.*?)```", GLOSSARY, re.DOTALL)[1]


def test_the_sizes_are_those_of_the_plan():
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(fenced("python"), "glossary.md", "exec"), {})
    assert printed.getvalue() == fenced("text")


def table(terms):
    rows = [f"| {term.word} | {term.meaning} |" for term in terms]
    return "\n".join(["| word | meaning |", "|---|---|", *rows])


def test_the_document_has_the_words_that_questions_are_answered_with():
    sections = re.split(r"^## (.+)\n\n", GLOSSARY, flags=re.MULTILINE)[1:]
    found = dict(zip(sections[::2], sections[1::2], strict=True))
    assert found.keys() == glossary().keys()
    for title, terms in glossary().items():
        assert found[title].startswith(table(terms) + "\n"), title


def test_every_word_is_explained_once():
    terms = [term for terms in glossary().values() for term in terms]
    words = [word for term in terms for word in term.word.split(", ")]
    assert len(words) >= 30
    assert {word for word, count in Counter(words).items() if count > 1} == set()
    for word in ("manager block", "page", "kernel block", "group", "SSM layer", "plan", "scenario"):
        assert word in words
