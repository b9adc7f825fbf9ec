"""What vLLM's own messages, limits and changes mean, where a sentence quotes or names them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from workbench.core.problems import problem_texts
from workbench.interop.glossary import Term, defined
from workbench.interop.logs.messages import MESSAGES
from workbench.interop.named_fields import FIELD_NAMES, SPACE

SHORTEST = 16
"""Characters by which a message is known in a sentence."""
CHANGE = re.compile(r"(?:vllm ?#|#|\bpr #?|\bpull/)(\d{4,6})\b", re.IGNORECASE)
"""A change or an issue of vLLM by its number."""
VALUES = re.compile(r"\([^()]*\)|[{}'\"]|\[[^][]*\]")
"""What is another one in every message."""
IGNORED = r"ignor\w+|no effect|does nothing|not (?:used|respected|applied|taken)"
"""Words for a field that does not do what is expected of it."""


def quoted(text: str) -> Term | None:
    """Return what the message means that a sentence quotes."""
    found = (one for one in MESSAGES.values() if text.find(one.begins) > 0)
    return next((Term(one.begins, one.means) for one in found if len(one.begins) >= SHORTEST), None)


def part_of_message(text: str) -> Term | None:
    """Return what the message means of which a line is a part, without its beginning."""
    words = _without_values(text).strip(" .?")
    if (
        len(words) < SHORTEST
        or " " not in words
        or any(m.begins in text for m in MESSAGES.values())
    ):
        return None
    return next((term for message, term in _texts() if words in message), None)


@cache
def _texts() -> tuple[tuple[str, Term], ...]:
    """Return the words of messages without their values, and what they mean."""
    return tuple(
        (_without_values(declared["vllm_text"]), Term(one.begins, one.means))
        for code, declared in problem_texts().items()
        if declared.get("vllm_text")
        for one in MESSAGES.values()
        if one.matches_problem(code, declared["vllm_text"])
    )


def _without_values(text: str) -> str:
    return " ".join(VALUES.sub("", text).split())


def change_of_vllm(text: str) -> Term | None:
    """Return what is known of a change or an issue that a sentence names by its number."""
    found = CHANGE.search(text)
    if found is None:
        return None
    name = f"#{found[1]}"
    about = (one.means for one in MESSAGES.values() if name in one.means)
    return defined(name) or next((Term(name, words) for words in about), None)


def ignored(text: str) -> Term | None:
    """Return what a field is for, of which a sentence says that it does nothing."""
    if not re.search(rf"\b(?:{IGNORED})\b", text, re.IGNORECASE):
        return None
    found = re.search(rf"block{SPACE}size|{FIELD_NAMES}", text, re.IGNORECASE)
    return defined(found[0]) if found else None


def limits_of(field: str) -> Iterator[str]:
    """Yield what vLLM's checks of a field mean: of its messages, and of rules without values."""
    codes = {code for code, one in problem_texts().items() if one.get("field") == field}
    yield from (one.means for one in MESSAGES.values() if codes & {*one.codes})
    rules = (problem_texts()[code].get("message", "") for code in sorted(codes))
    yield from (one for one in rules if one and "{" not in one)
