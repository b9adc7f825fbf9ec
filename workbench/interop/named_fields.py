"""Words that name a field and its value: `max_model_len 32768`, `block-size=64`."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from workbench.core.errors import ScenarioError
from workbench.scenario import FIELDS
from workbench.scenario.scenario import NAMES

NAMED_FIELD = r"([a-z]\w*(?:[-_]\w+)+)(?: ?= ?| )([^\s=]\S*)"
"""A name of several words, and what follows it; names of one word have other meanings, too."""


class Named(dict[str, Any]):
    """A field by its name: a line of a log has such words, too, next to others."""


def named_field(name: str, value: str) -> Named | None:
    """Return the field of a name with its value; None for other words and values."""
    with suppress(ScenarioError):
        return _read(name, value)
    return None


def check_values(words: str) -> None:
    """Check what follows the name of a field. Errors: ScenarioError with what is allowed."""
    for found in re.finditer(NAMED_FIELD, words, re.IGNORECASE):
        _read(*found.groups())


def _read(name: str, value: str) -> Named | None:
    field = NAMES.get(name.replace("-", "_").casefold())
    return None if field is None else Named({field: FIELDS[field].kind.parse(field, value)})
