"""What was made of the present plan, so that looking at it again makes nothing twice."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from workbench.core.plan import Plan

Found = TypeVar("Found")


class OncePerPlan:
    """Values of one plan by their key; of older plans none stays."""

    def __init__(self) -> None:
        self._known: tuple[Plan | None, dict[Hashable, Any]] = (None, {})

    def __call__(self, plan: Plan, key: Hashable, make: Callable[[], Found]) -> Found:
        """Return what was made of this very plan before, or make it."""
        known, found = self._known
        if known is not plan:
            self._known = (plan, found := {})
        if key not in found:
            found[key] = make()
        made: Found = found[key]
        return made
