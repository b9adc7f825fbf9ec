"""Read of which field or which flag of vLLM a question asks the default."""

from __future__ import annotations

import re
from functools import cache

from workbench.core.ranks import SHORT
from workbench.interop.commands.flags import flags_of, releases
from workbench.scenario import FIELDS
from workbench.sweeps.language import LABELS

DEFAULTS = re.compile(
    r"\bdefaults?\b|^(?:what|which) [\w -]*(?:dtype|mode)\b.*\b(?:us|choos|pick)e?s?\b|"
    r"^why (?:is|are) [\w -]+ (?:on|off|enabled|disabled|none)(?= (?:for|in|with|here)\b|\W*$)",
    re.IGNORECASE,
)
"""Words for the value that vLLM takes by itself, and for the reason of one."""
NOT_MEANT = {"model", "config", "default"}
"""Names that such a question has in another meaning: of the model, of the configuration."""


def default_named(text: str) -> str:
    """Return the field, or the flag without one, whose default is in question; else ""."""
    if not DEFAULTS.search(text):
        return ""
    words, names = f" {_plain(text)} ", _names()
    found = (name for name in names if f" {name} " in words)
    return names[next(found, "")]


@cache
def _names() -> dict[str, str]:
    """Return what fields and flags are called -> the field or the flag; the longest name first."""
    flags = {flag: flag for one in releases() for flag in flags_of(one).kinds}
    fields = {flag: field.name for field in FIELDS.values() for flag in field.flags}
    labels = {word: name for name, word in SHORT.items()} | LABELS
    found = {_plain(name): what for name, what in (flags | fields | labels).items()}
    known = {name: what for name, what in found.items() if name not in NOT_MEANT}
    return dict(sorted(known.items(), key=lambda one: -len(one[0]))) | {"": ""}


def _plain(text: str) -> str:
    """Return the words of a text without hyphens, signs and case."""
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))
