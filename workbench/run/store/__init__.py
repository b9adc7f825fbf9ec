"""Persistent results: one row per configuration, device, kernel hash and round, in one file."""

from workbench.run.store.row import Key, Row, StoreError
from workbench.run.store.store import ResultStore

__all__ = ["Key", "ResultStore", "Row", "StoreError"]
