"""The value of a scenario field, as people read it; `Kind.format` is what they enter."""

import re
from collections.abc import Mapping
from typing import Any, Protocol

from workbench.core.arithmetic import GIB, MIB
from workbench.scenario.fields import FIELDS
from workbench.views.units import short_bytes_text


class AnyRemedy(Protocol):
    """A tried change of the scenario, of one engine or of both sides of a transfer."""

    @property
    def changes(self) -> Mapping[str, Any]:
        """Fields with their new values."""

    def sentence(self, changes: str) -> str:
        """Return what the changes, in these words, lead to."""


OF_A_DRAFTER = ("speculative_method", "draft_model")


def setting_text(name: str, value: Any) -> str:
    """Return a value of a field: "on", "8,192", "20 GiB", "auto (vLLM decides)"."""
    kind = FIELDS[name].kind
    if value is None:
        return FIELDS[name].none
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, dict):
        return "inline config"
    if getattr(kind, "unit", "") == "bytes":
        return ", ".join(map(_size, value if isinstance(value, tuple) else (value,)))
    words = (word for word, one in getattr(kind, "named", {}).items() if one == value)
    return next(words, f"{value:,}" if isinstance(value, int) else kind.format(value))


def changes_text(changes: Mapping[str, Any]) -> str:
    """Return the changed fields with their new values, as the pickers call them.

    That a drafter goes is said by the number of its tokens.
    """
    ends = changes.get("num_speculative_tokens") == 0
    return ", ".join(
        f"{FIELDS[name].label} {setting_text(name, value)}"
        for name, value in changes.items()
        if not (ends and name in OF_A_DRAFTER)
    )


def in_labels(message: str) -> str:
    """Return a message with every field called as its picker is, so that a person finds it.

    The first time its name follows in parentheses, unless the label has the same words. What has
    quotes, a flag, or "=" without spaces is vLLM's own text and stays.
    """
    named: set[str] = set()

    def label(found: re.Match[str]) -> str:
        name = found[0]
        words = FIELDS[name].label
        is_known = name in named or words.casefold() == name.replace("_", " ")
        named.add(name)
        return words if is_known else f"{words} ({name})"

    return FIELD_NAME.sub(label, message)


def _field_name() -> re.Pattern[str]:
    """Return where a message names a field; a plain word does where a message begins with it."""
    words = "|".join(name for name in FIELDS if "_" in name)
    plain = "|".join(name for name in FIELDS if "_" not in name)
    named = rf"(?<![\w.(/'\"`=-])(?:{words})(?![\w'\"`]|=\S)"
    return re.compile(rf"{named}|^(?:{plain})(?= = | ')|(?<=Invalid )(?:{plain})\b")


FIELD_NAME = _field_name()


def remedy_words(remedy: AnyRemedy) -> str:
    """Return the changes of a remedy, as the pickers call them, and what they lead to."""
    return remedy.sentence(changes_text(remedy.changes))


def _size(size_bytes: int) -> str:
    is_whole = size_bytes and size_bytes % MIB == 0
    return f"{size_bytes / GIB:g} GiB" if is_whole else short_bytes_text(size_bytes)
