"""Persistent results: one row per configuration, device, kernel hash and round, in one file."""

from workbench.sweeps.store.row import Key, Row, StoreError
from workbench.sweeps.store.store import LEASE_S, ResultStore

__all__ = ["LEASE_S", "Key", "ResultStore", "Row", "StoreError"]
