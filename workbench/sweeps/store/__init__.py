"""Persistent results: one row per configuration, device, kernel hash and round, in one file."""

from workbench.sweeps.store.row import Key, Row, StoreError
from workbench.sweeps.store.store import ResultStore

__all__ = ["Key", "ResultStore", "Row", "StoreError"]
