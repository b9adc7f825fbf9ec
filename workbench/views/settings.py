"""The value of a scenario field, as people read it; `Kind.format` is what they enter."""

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
    return f"{value:,}" if isinstance(value, int) else kind.format(value)


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


def remedy_words(remedy: AnyRemedy) -> str:
    """Return the changes of a remedy, as the pickers call them, and what they lead to."""
    return remedy.sentence(changes_text(remedy.changes))


def _size(size_bytes: int) -> str:
    is_whole = size_bytes and size_bytes % MIB == 0
    return f"{size_bytes / GIB:g} GiB" if is_whole else short_bytes_text(size_bytes)
