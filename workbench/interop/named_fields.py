"""Words that name a field and its value: `max_model_len 32768`, `block-size=64`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from workbench.core.errors import ScenarioError
from workbench.scenario import FIELDS
from workbench.scenario.kinds import Switch
from workbench.scenario.scenario import NAMES
from workbench.sweeps.language import LABELS, SWITCHES

NAMED_FIELD = r"([a-z](?=\w*[-_]\w)\w*+(?:-\w++)*+)(?: ?= ?| )([^\s=]\S*)"
"""A name of several words, and what follows it; names of one word have other meanings, too.

Nothing is tried twice: `_` is in `\\w`, and a row of them can be cut into words in 2^n ways."""


SPACE = "[ _-]"
"""Between the words of a name: mamba_cache_mode, mamba-cache-mode, mamba cache mode."""
NAMED_FIELDS = {
    re.sub(SPACE, " ", words): name
    for words, name in LABELS.items()
    if not words.isalpha() and name != "block_size"
}
"""Label or name of several words -> field: single ones are in other sentences, too, and a block
size is mostly one to explain."""


def any_name(names: Iterable[str]) -> str:
    """Return the pattern of some names of several words, the longest first."""
    longest = sorted(names, key=len, reverse=True)
    return "|".join(re.escape(one).replace(r"\ ", SPACE) for one in longest)


FIELD_NAMES = any_name(NAMED_FIELDS)
WITH_VALUE = any_name(
    one for one, name in NAMED_FIELDS.items() if not isinstance(FIELDS[name].kind, Switch)
)
"""What follows a switch is not its value: "prefix caching 32K"."""
LABELLED = rf"({WITH_VALUE})(?: ?= ?| (?:of |to )?)([^\s=]*\d\S*)"
"""Such a name, and a number or a name with one after it."""


class Named(dict[str, Any]):
    """A field by its name: a line of a log has such words, too, next to others."""


def named_field(name: str, value: str) -> Named | None:
    """Return the field of a name with its value; None for other words and values."""
    with suppress(ScenarioError):
        return _read(name, value)
    return None


def labelled_field(label: str, value: str) -> Named | None:
    """Return the field of a label with its value; None for a value that it does not take."""
    return named_field(field_called(label), value)


def field_called(words: str) -> str:
    """Return the field that has this name in a sentence; "" for none."""
    return NAMED_FIELDS.get(re.sub(SPACE, " ", words.casefold()), "")


def check_values(words: str) -> None:
    """Check what follows the name of a field. Errors: ScenarioError with what is allowed."""
    for found in re.finditer(NAMED_FIELD, words, re.IGNORECASE):
        _read(*found.groups())


def _read(name: str, value: str) -> Named | None:
    field = NAMES.get(name.replace("-", "_").casefold())
    if field is None:
        return None
    kind = FIELDS[field].kind
    is_switched = isinstance(kind, Switch) and value.casefold() in SWITCHES
    return Named({field: SWITCHES[value.casefold()] if is_switched else kind.parse(field, value)})
