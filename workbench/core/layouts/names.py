"""The name of a layout, and what decided it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LayoutName:
    """A layout name, and what decided it."""

    name: str
    reason: str = "as given"
