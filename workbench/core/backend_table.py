"""The backends of one version, by name: a later version's table may be made from an earlier one."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from workbench.core.backends import Backend, LayerQuery
from workbench.core.registry import Registry

Change = Callable[[Backend], Backend]
Found = TypeVar("Found")
REMEMBERED = 4096
"""Answers about its backends that a table keeps."""


class BackendTable(Registry[Backend]):
    """Attention backends by name; one that is added here reaches every table made from this one."""

    def __init__(self, own: tuple[Backend, ...], inherited: tuple[Backend, ...] = ()) -> None:
        super().__init__("backend", "backend")
        self._heirs: list[tuple[BackendTable, Change]] = []
        self._tried: dict[tuple[str, bool, str], tuple[Backend, ...]] = {}
        self._found: dict[Hashable, Any] = {}
        self.own = frozenset(record.name for record in own)
        for record in (*inherited, *own):
            self.add(record.name, record)

    def derive(self, change: Change, new: tuple[Backend, ...] = ()) -> BackendTable:
        """Return a later version's table: every record as `change` leaves it, and the new ones."""
        heir = BackendTable(new, tuple(map(change, self.values())))
        self._heirs.append((heir, change))
        return heir

    def add(self, name: str, entry: Backend) -> Backend:
        """Register a backend here and in the tables of later versions, as they change it."""
        super().add(name, entry)
        self._tried.clear()
        self._found.clear()
        for heir, change in self._heirs:
            if name not in heir.own:
                heir.add(name, change(entry))
        return entry

    def remove(self, name: str) -> None:
        """Take a backend out here and in the tables of later versions."""
        super().remove(name)
        self._tried.clear()
        self._found.clear()
        for heir, _change in self._heirs:
            if name not in heir.own:
                heir.remove(name)

    def remembered(self, key: Hashable, find: Callable[[], Found]) -> Found:
        """Return what `find` says about the backends of this table, found once for a key."""
        if key not in self._found:
            if len(self._found) >= REMEMBERED:
                self._found.clear()
            self._found[key] = find()
        found: Found = self._found[key]
        return found

    def order(self, query: LayerQuery) -> tuple[str, ...]:
        """Return the backends that a layer tries where none is requested, in order."""
        # Source: `get_attn_backend_cls` of each platform; the numbers are at the records.
        ranked = ((backend.rank(query), backend.name) for backend in self._candidates(query))
        return tuple(name for _, name in sorted((r, name) for r, name in ranked if r is not None))

    def on_request(self, query: LayerQuery) -> frozenset[str]:
        """Return what may be requested on XPU and CPU, which test nothing but know few backends."""
        besides = (backend.name for backend in self.values() if backend.on_request(query))
        return frozenset((*self.order(query), *besides))

    def _candidates(self, query: LayerQuery) -> tuple[Backend, ...]:
        """Return the backends with a rank on the platform; remembered, since layers ask often."""
        key = query.platform, query.attention.use_mla, query.attention.compression
        if key not in self._tried:
            self._tried[key] = tuple(
                backend
                for backend in self.values()
                if key[2] == backend.compression
                and any(
                    rank.platform == key[0]
                    and key[1] == (backend.is_mla if rank.mla is None else rank.mla)
                    for rank in backend.ranks
                )
            )
        return self._tried[key]
