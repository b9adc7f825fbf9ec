"""A working plan that notes what stages read of it before they write it, and what they write."""

from functools import partial
from typing import Any

from workbench.core.working_plan import UntracedPlan

FIXED = frozenset({"model", "rules"})
"""What all decisions of one memory have in common."""
APPENDED = frozenset({"log_lines", "problems"})
"""What stages only add to."""


class Watch(UntracedPlan):
    """A plan that begins empty: a value is fetched and noted when it is read first."""

    __slots__ = ("plan", "read", "written")

    def __init__(self, plan: UntracedPlan) -> None:
        keep = partial(object.__setattr__, self)
        keep("plan", plan)
        keep("read", {})
        keep("written", set())
        keep("settings", _WatchedSettings(plan.settings, self.read))
        for name in FIXED:
            keep(name, getattr(plan, name))
        for name in APPENDED:
            keep(name, ())

    def __getattr__(self, name: str) -> Any:
        value = self.read[name] = getattr(self.plan, name)
        object.__setattr__(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        self.written.add(name)
        object.__setattr__(self, name, value)


class _WatchedSettings:
    """Settings that note what is read of them."""

    def __init__(self, settings: object, read: dict[str, Any]) -> None:
        self._settings, self._read = settings, read

    def __getattr__(self, name: str) -> Any:
        value = self._read[f"settings.{name}"] = getattr(self._settings, name)
        vars(self)[name] = value
        return value
