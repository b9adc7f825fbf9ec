"""Choices by name: adding one touches one place, a wrong name lists the nearest right ones."""

from typing import ClassVar, TypeVar

from workbench.core.errors import ScenarioError, unknown_name_message

Entry = TypeVar("Entry")


class Registry(dict[str, Entry]):
    """A mapping from names to entries that explains itself when a name is wrong.

    `what` is the word for one entry in messages, `field` the scenario field it belongs to.
    """

    changes: ClassVar[int] = 0
    """Entries that were added to any registry, or removed: what is remembered of them is stale."""

    def __init__(self, what: str, field: str) -> None:
        super().__init__()
        self._what = what
        self._field = field

    def add(self, name: str, entry: Entry) -> Entry:
        """Register `entry`; a name that is taken is a ValueError."""
        if name in self:
            raise ValueError(f"{self._what} {name!r} is registered twice")
        self[name] = entry
        Registry.changes += 1
        return entry

    def remove(self, name: str) -> None:
        """Take an entry out again (tests and experiments add toy entries)."""
        del self[name]
        Registry.changes += 1

    def __missing__(self, name: str) -> Entry:
        message = unknown_name_message(self._what, name, self)
        raise ScenarioError("unknown_name", message, field=self._field)
