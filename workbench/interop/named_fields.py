"""Words that name a field and its value: `max_model_len 32768`, `block-size=64`."""

from __future__ import annotations

from typing import Any

from workbench.core.errors import ScenarioError
from workbench.scenario import FIELDS

NAMED_FIELD = r"([a-z]\w*(?:[-_]\w+)+)(?: ?= ?| )([^\s=]\S*)"
"""A name of several words, and what follows it; names of one word have other meanings, too."""


def _plain(word: str) -> str:
    return word.lstrip("-").replace("-", "_").casefold()


OF_NAMES = {_plain(word): field for field in FIELDS.values() for word in (*field.flags, field.name)}
"""Name or flag of vLLM -> its field."""


class Named(dict[str, Any]):
    """A field by its name: a line of a log has such words, too, next to others."""


def named_field(name: str, value: str) -> Named | None:
    """Return the field of a name with its value; None for other words and values."""
    if (field := OF_NAMES.get(_plain(name))) is None:
        return None
    try:
        return Named({field.name: field.kind.parse(field.name, value)})
    except ScenarioError:
        return None
