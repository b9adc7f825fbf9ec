"""Words that name a field and its value: `max_model_len 32768`, `block-size=64`."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from workbench.core.errors import ScenarioError
from workbench.scenario import FIELDS
from workbench.scenario.kinds import Switch
from workbench.scenario.scenario import NAMES
from workbench.sweeps.language import LABELS

NAMED_FIELD = r"([a-z]\w*(?:[-_]\w+)+)(?: ?= ?| )([^\s=]\S*)"
"""A name of several words, and what follows it; names of one word have other meanings, too."""


READ_ELSEWHERE = {"block_size"} | {
    name for name, field in FIELDS.items() if isinstance(field.kind, Switch)
}
"""A block size is mostly one to explain: "block size 528"; what follows a switch is not its value:
"prefix caching 32K"."""
SPACED = sorted(
    (one for one in LABELS if " " in one and LABELS[one] not in READ_ELSEWHERE), key=len
)
LABELLED = rf"({'|'.join(map(re.escape, reversed(SPACED)))})(?: ?= ?| (?:of |to )?)([^\s=]*\d\S*)"
"""The label of a field, or its name with spaces, and a number or a name with one after it."""


class Named(dict[str, Any]):
    """A field by its name: a line of a log has such words, too, next to others."""


def named_field(name: str, value: str) -> Named | None:
    """Return the field of a name with its value; None for other words and values."""
    with suppress(ScenarioError):
        return _read(name, value)
    return None


def labelled_field(label: str, value: str) -> Named | None:
    """Return the field of a label with its value; None for a value that it does not take."""
    return named_field(LABELS[label.casefold()], value)


def check_values(words: str) -> None:
    """Check what follows the name of a field. Errors: ScenarioError with what is allowed."""
    for found in re.finditer(NAMED_FIELD, words, re.IGNORECASE):
        _read(*found.groups())


def _read(name: str, value: str) -> Named | None:
    field = NAMES.get(name.replace("-", "_").casefold())
    return None if field is None else Named({field: FIELDS[field].kind.parse(field, value)})
