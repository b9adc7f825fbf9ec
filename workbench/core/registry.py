"""Choices by name: adding one touches one place, a wrong name lists the nearest right ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from workbench.core.errors import ScenarioError, unknown_name_message

Entry = TypeVar("Entry")


class Registry(Mapping[str, Entry], Generic[Entry]):
    """A mapping from names to entries that explains itself when a name is wrong.

    `what` is the word for one entry in messages, `field` the scenario field it belongs to.
    """

    changes: ClassVar[int] = 0
    """Entries that were added to any registry, or removed: what is remembered of them is stale."""

    def __init__(self, what: str, field: str) -> None:
        self._what = what
        self._field = field
        self._entries: dict[str, Entry] = {}

    def add(self, name: str, entry: Entry) -> Entry:
        """Register `entry`; a name that is taken is a ValueError."""
        if name in self._entries:
            raise ValueError(f"{self._what} {name!r} is registered twice")
        self._entries[name] = entry
        Registry.changes += 1
        return entry

    def remove(self, name: str) -> None:
        """Take an entry out again (tests and experiments add toy entries)."""
        del self._entries[name]
        Registry.changes += 1

    def __getitem__(self, name: str) -> Entry:
        try:
            return self._entries[name]
        except (KeyError, TypeError):
            message = unknown_name_message(self._what, name, self._entries)
            raise ScenarioError("unknown_name", message, field=self._field) from None

    def get(self, name: str, default: Any = None) -> Any:
        """Return the entry, or `default` without a complaint."""
        return self._entries.get(name, default)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
