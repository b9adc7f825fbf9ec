"""What the words of the field mean: declared in glossary.json, which docs/glossary.md shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

from workbench.core.package_data import package_data
from workbench.core.ranks import SHORT
from workbench.core.versions import RULE_SETS
from workbench.scenario import FIELDS
from workbench.scenario.field import Field

DEFINES = re.compile(
    r"(?:(?:what(?:'s| is| are| does| do)|define|explain|(?:the )?(?:meaning|definition) of)\s+"
    r"(?:the difference between )?|(?:the )?difference between (?!.*\bmode))"
    r"(?P<word>.+?)(?:\s+(?:means?|do|for))?[\s?.!]*",
    re.IGNORECASE,
)
"""Of modes the difference that they make is shown, with a change to each."""
SAME = re.compile(r"(?:is|are) (.+) (?:the same|equal) (?:as|to) (.+?)[\s?.!]*", re.IGNORECASE)
"""Two words, whose meanings answer."""
LONGER = (" size", " mode", " layer", " total")
"""What is added to a word: a size of a unit, a mode by its value, the end of a counter."""
MOST_VALUES = 12
"""Of a field that are listed; all are in its control."""
ARTICLES = frozenset({"a", "an", "the", "these", "metric"})


class Term(NamedTuple):
    """A word, its meaning, and the title of the lab that shows it; empty: none does."""

    word: str
    meaning: str
    lab: str = ""


METRICS = "Metrics of a server"
"""The section whose words are names that nothing else has."""


@cache
def glossary() -> Mapping[str, tuple[Term, ...]]:
    """Return the declared words by section."""
    sections = package_data("workbench.interop", "glossary.json")
    return {one["section"]: tuple(Term(**word) for word in one["words"]) for one in sections}


def defined(text: str) -> Term | None:
    """Return the word that a line asks the meaning of, or consists of; None for anything else.

    Words are also found under a longer name: a hash block size with hash block. Two of them, with
    "and" between them, are explained together.
    """
    text = SAME.sub(r"what are \1 and \2", text.strip())
    found = DEFINES.fullmatch(text)
    if found is None:
        return _by_name().get(_name(text)) or _part_of_one(_name(text))
    terms = [_known(name) for name in re.split(r" and | v | versu ", _name(found["word"]))]
    every = [term for term in terms if term is not None]
    if len(every) < len(terms) or len(every) == 1:
        return every[0] if len(every) == len(terms) else None
    meanings = (f"{term.word}: {term.meaning.rstrip('.')}." for term in every)
    return Term(" and ".join(term.word for term in every), " ".join(meanings), every[0].lab)


def metric_named(text: str) -> Term | None:
    """Return the metric that a sentence names."""
    names = {name: term for term in glossary()[METRICS] for name in term.word.split(", ")}
    found = re.search(rf"(?<![a-z_])(?:{'|'.join(names)})(?![a-z_])", text)
    return names[found[0]] if found else None


def _known(name: str) -> Term | None:
    terms = _by_name()
    shorter = next((name.removesuffix(end) for end in LONGER if name.endswith(end)), name)
    return terms.get(name) or terms.get(shorter) or _of_value(name, terms) or _part_of_one(name)


def _part_of_one(name: str) -> Term | None:
    """Return the only word or field that has these words in its name: a retention interval."""
    found = {term for known, term in _by_name().items() if f" {name} " in f" {known} "}
    return found.pop() if len(found) == 1 else None


def _of_value(name: str, terms: Mapping[str, Term]) -> Term | None:
    """Return the second word of two that are known: a value after its field."""
    words = name.split()
    pairs = ((" ".join(words[:at]), " ".join(words[at:])) for at in range(1, len(words)))
    return next((terms[value] for field, value in pairs if terms.keys() >= {field, value}), None)


@cache
def _by_name() -> Mapping[str, Term]:
    """Return words and fields by what they may be called; a word of the glossary comes first."""
    found: dict[str, Term] = {}
    for field in FIELDS.values():
        term = Term(field.label, _meaning(field))
        names = filter(None, (field.name, field.label, SHORT.get(field.name)))
        found |= dict.fromkeys(map(_name, names), term)
    for terms in glossary().values():
        for term in terms:
            found |= dict.fromkeys(_names_of(term), term)
    return found


def _meaning(field: Field) -> str:
    """Return what a field is for, with its values where they are a few words."""
    values = dict.fromkeys(one for name in RULE_SETS for one in field.kind.candidates(name))
    listed = ", ".join(values) if {str} == set(map(type, values)) else ""
    return (
        f"{field.tip}. Values: {listed}."
        if 0 < len(values) <= MOST_VALUES and listed
        else field.tip
    )


def _names_of(term: Term) -> Iterable[str]:
    yield from map(_name, (term.word, *term.word.split(", ")))


def _name(text: str) -> str:
    """Return a name without articles, hyphens, case and plural."""
    words = re.split(r"[\s_-]+", text.casefold().strip("`'\" -"))
    plain = (one.removeprefix("vllm:").removesuffix("s") for one in words)
    return " ".join(one for one in plain if one not in ARTICLES)
