"""Models by the words that people use for them: "qwen3 next", "granite small", "gemma 3"."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from workbench.models.catalog import catalog_names
from workbench.models.names import TUNED

OTHER_THINGS = frozenset({"mamba", "mamba1", "mamba2"})
"""First words of names that mean a kind of layer where they stand alone."""


def models_called(text: str) -> tuple[str, ...]:
    """Return the models of the catalog that words can mean: the one, or all of a family."""
    words = re.split(r"[\s_-]+", text.casefold())
    plain = [one for one in words if not TUNED.fullmatch(one)]
    forms = [words, plain] if 0 < len(plain) < len(words) else [words]
    found = [_named(one) for one in forms]
    return next((one for one in found if len(one) == 1), found[0])


def letters_of(name: str) -> str:
    """Return the letters, digits and dots of a name in lower case."""
    return re.sub(r"[^a-z0-9.]", "", name.casefold())


def _named(words: Sequence[str]) -> tuple[str, ...]:
    letters = letters_of("".join(words))
    exact = [one.name for one in _known() if one.letters == letters]
    begins = [one.name for one in _known() if one.letters.startswith(letters)]
    is_long = len(words) > 1
    ordered = [one.name for one in _known() if is_long and _has_in_order(one.words, words)]
    in_any_order = [one.name for one in _known() if is_long and {*one.words} >= {*words}]
    if letters in OTHER_THINGS:
        return ()
    for found in (exact, begins, ordered, in_any_order):
        if len(found) == 1:
            return tuple(found)
    return tuple(one.name for one in _known() if letters in one.beginnings or one.name in ordered)


class _Known(NamedTuple):
    """A name of the catalog, as it is compared with words."""

    name: str
    words: Sequence[str]
    letters: str
    beginnings: frozenset[str]
    """The letters of its first words: a family's."""


@lru_cache(maxsize=1)
def _known() -> tuple[_Known, ...]:
    return tuple(map(_name_as_known, catalog_names()))


def _name_as_known(name: str) -> _Known:
    words = name.casefold().split("-")
    return _Known(name, words, letters_of(name), frozenset(accumulate(map(letters_of, words[:-1]))))


def _has_in_order(name: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether a name begins with the first word and has all others, in their order.

    People write 4 for 4.0.
    """
    rest = iter(name[1:])
    return name[0] == words[0] and all(
        any(one in {word, f"{word}.0"} for one in rest) for word in words[1:]
    )
