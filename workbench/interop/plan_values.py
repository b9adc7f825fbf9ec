"""Values of a plan that words name: "kernel block size", "blocks of a request"."""

import re
from collections.abc import Iterator
from functools import lru_cache

from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.plan import Plan
from workbench.core.published import Declaration
from workbench.scenario import FIELDS

OF_TILES = {"block_size", *FIELDS}
"""Values that are answered elsewhere: in the first tile, or as a setting."""


@lru_cache(maxsize=1)
def declared_sizes() -> dict[str, Declaration]:
    """Return the published values with a unit, by name: sizes that only a plan has."""
    found = (one for record in (Plan, CachePlan) for one in record.declarations.items())
    return {
        declared.name or name: declared
        for name, declared in found
        if declared.unit and declared.is_published and name not in OF_TILES
    }


@lru_cache(maxsize=1)
def _phrases() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return patterns of at least two words -> name, the longest phrase first."""

    def phrases() -> Iterator[tuple[str, str]]:
        for name in declared_sizes():
            for words in (name.replace("_", " "), Plan.label_of(name)):
                yield words.removesuffix(" bytes").removesuffix(" size"), name

    several = sorted({one for one in phrases() if " " in one[0]}, key=lambda one: -len(one[0]))
    return tuple(
        (re.compile(rf"(?<![\w-]){re.escape(words)}s?(?![\w-])", re.IGNORECASE), name)
        for words, name in several
    )


def named_value(text: str) -> str:
    """Return the published name of the value that a sentence names; "" for none."""
    plain = text.replace("_", " ")
    return next((name for pattern, name in _phrases() if pattern.search(plain)), "")
