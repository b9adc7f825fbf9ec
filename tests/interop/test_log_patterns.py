"""Patterns of log lines are searched in a time that grows with the text, whatever it holds."""

from __future__ import annotations

from itertools import pairwise
from re import _constants as op
from re import _parser as parser

import pytest

from tests.groups import in_groups
from workbench.interop import quoted
from workbench.interop.logs import explain, failure, text
from workbench.interop.logs.find import MESSAGES

MANY = 10_000
"""Repetitions that a pattern may have at every place: more of them count as without a limit."""
ALPHABET = frozenset(chr(code) for code in range(128)) | set("▀█│é")
WITHOUT_TEXT = {op.AT, op.ASSERT, op.ASSERT_NOT, op.GROUPREF}
REPEATS = {op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT}
SEARCHED = {
    "COLOUR": text.COLOUR,
    "PROGRESS": text.PROGRESS,
    "BEGINNING": explain.BEGINNING,
    "LEVEL_BELOW_ERROR": failure.LEVEL_BELOW_ERROR,
    "VALUES": quoted.VALUES,
}
"""Patterns that are looked for everywhere in a line; others are tried at one place of it."""
PATTERNS = {name: entry.pattern for name, entry in MESSAGES.items()} | SEARCHED


def tree(pattern, flags=0):
    return parser.parse(pattern, flags)


def characters(items):
    """Return what a part of a pattern may match at any of its places."""
    found = set()
    for kind, value in items:
        if kind in REPEATS:
            found |= characters(value[2])
        elif kind is op.SUBPATTERN:
            found |= characters(value[3])
        elif kind is op.BRANCH:
            found |= set().union(*map(characters, value[1]))
        elif kind not in WITHOUT_TEXT:
            found |= one_character(kind, value)
    return found


def one_character(kind, value):
    if kind is op.ANY:
        return ALPHABET - {"\n"}
    if kind is op.NOT_LITERAL:
        return ALPHABET - {chr(value)}
    if kind is op.LITERAL:
        return {chr(value)}
    assert kind is op.IN, kind
    negated = value[0][0] is op.NEGATE
    found = set().union(*(_of_class(*one) for one in value[negated:]))
    return ALPHABET - found if negated else found


CLASSES = {
    op.CATEGORY_SPACE: str.isspace,
    op.CATEGORY_NOT_SPACE: lambda one: not one.isspace(),
    op.CATEGORY_DIGIT: str.isdigit,
    op.CATEGORY_WORD: lambda one: one.isalnum() or one == "_",
    op.CATEGORY_NOT_WORD: lambda one: not (one.isalnum() or one == "_"),
}


def _of_class(kind, value):
    if kind is op.LITERAL:
        return {chr(value)}
    if kind is op.RANGE:
        return {chr(code) for code in range(value[0], value[1] + 1)}
    return {one for one in ALPHABET if CLASSES[value](one)}


def endless(items, before=(), *, is_end=True):
    """Yield repetitions without a limit that a search may begin again and again inside of.

    One is safe if something that every search passes before it cannot be inside of it, so that the
    next search begins after it; or if it ends the pattern, which then matches.
    """
    before = list(before)
    for number, (kind, value) in enumerate(items):
        is_last = is_end and number == len(items) - 1
        if kind in REPEATS:
            _, most, inner = value
            if most > MANY and not is_last and not any(stops(one, inner) for one in before):
                yield kind, value
            yield from endless(inner, before, is_end=False)
        for inner in inside(kind, value):
            yield from endless(inner, before, is_end=is_last)
        before += passed([(kind, value)])


def inside(kind, value):
    """Return the parts of a pattern of which one is there."""
    if kind is op.SUBPATTERN:
        return [value[3]]
    return value[1] if kind is op.BRANCH else []


def passed(items):
    """Return what is always there: a list of alternatives each, of characters each."""
    found = []
    for kind, value in items:
        if kind in REPEATS:
            found += passed(value[2]) if value[0] else []
        elif kind is op.SUBPATTERN:
            found += passed(value[3])
        elif kind is op.BRANCH:
            found.append([passed(one) for one in value[1]])
        elif kind is op.ASSERT_NOT and value[0] < 0:
            found.append(ALPHABET - characters(value[1]))
        elif kind not in WITHOUT_TEXT:
            found.append(one_character(kind, value))
    return found


def stops(one, inner):
    """Return whether this cannot be inside of a repetition, whichever alternative is there."""
    if isinstance(one, list):
        return all(any(stops(part, inner) for part in alternative) for alternative in one)
    return one.isdisjoint(characters(inner))


def adjacent(items):
    """Yield two repetitions without a limit, one after the other, that may match the same text.

    The last one of a pattern takes all that is left, and the pattern matches.
    """
    flat = [first(one) for one in items if one[0] not in WITHOUT_TEXT]
    for one, other in pairwise(flat[:-1]):
        are_endless = all(kind in REPEATS and value[1] > MANY for kind, value in (one, other))
        if are_endless and characters([one]) & characters([other]):
            yield one, other


def first(one):
    """Return the first part of a group, however deep it is; others as they are."""
    kind, value = one
    return first(value[3][0]) if kind is op.SUBPATTERN else one


@in_groups
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_is_searched_in_a_time_that_grows_with_the_text(name):
    pattern = PATTERNS[name]
    found = tree(pattern.pattern, pattern.flags)
    assert not list(endless(found))
    assert not list(adjacent(found))


@pytest.mark.parametrize(
    "pattern",
    [
        r"begins .*? ends",
        r"version \(v([^)]+)\)",
        r"(?:a|b)[a-z ]+:",
        r"(?<![^\s'])\S*vllm",
        r"size \d+ for [\w, ]+? backend",
        r"(\w+)=(\w+)",
    ],
)
def test_a_pattern_that_takes_a_square_of_the_text_is_found(pattern):
    assert list(endless(tree(pattern)))


@pytest.mark.parametrize(
    "pattern", [r"of \d+ tokens", r"=(\w+),(\w+)", r"from \{.*", r"a .{0,99}? b", r"x:\s+.*"]
)
def test_a_pattern_that_does_not_passes(pattern):
    assert not list(endless(tree(pattern)))
    assert not list(adjacent(tree(pattern)))


def test_two_repetitions_of_the_same_text_are_found():
    assert list(adjacent(tree(r"s:\s+([\w ]+?)\s+x")))
