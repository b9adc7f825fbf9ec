"""Read settings by their labels or names, each with one value: "max_num_seqs 256"."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from workbench.core.errors import ScenarioError
from workbench.core.versions import RULE_SETS
from workbench.scenario import Scenario
from workbench.sweeps.language import parse_axes

LONGEST = 200
NOT_SET = {"model", "block_size"}
"""A model has readers of its own; a block size is mostly one to explain: "block size 528"."""


def read_settings(text: str) -> dict[str, Any]:
    """Return field -> value; nothing for a text that is not only that."""
    if "\n" in text or len(text) > LONGEST:
        return {}
    try:
        axes = parse_axes(text)
    except ScenarioError:
        return {}
    if NOT_SET & axes.keys() or any(len(values) != 1 for values in axes.values()):
        return {}
    return {name: value for name, (value,) in axes.items()}


def checked_settings(text: str) -> dict[str, Any]:
    """Return what `read_settings` does; nothing for values that the fields take in no release."""
    found = read_settings(text)
    for rules in RULE_SETS:
        with suppress(ScenarioError):
            Scenario.from_dict({"model": "any", "rules": rules, **found})
            return found
    return {}


def settings_in(text: str, names: str) -> dict[str, Any]:
    """Return the fields that a sentence names with a value: "mamba_cache_mode all".

    names: a pattern of what fields are called. In "prefix caching on H100" "on" is not a value.
    """
    pattern = rf"(?<![\w-])((?:{names})(?: to| of|=)? (?!on \w)[\w.-]*\w)"
    found: dict[str, Any] = {}
    for words in re.findall(pattern, text, re.IGNORECASE):
        plain = re.sub(r"(?: to| of|=) (?=[\w.-]+$)", " ", words)
        found |= checked_settings(plain)
    return found
