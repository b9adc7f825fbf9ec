"""Values of command-line arguments: JSON objects and models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any

from workbench.access.app_mode import app_mode
from workbench.models import catalog_names, repository


@dataclass(frozen=True, slots=True)
class CommandFields:
    """Fields of a scenario that a command line sets.

    sources: field -> the words that set it. notes: everything else as notes, one sentence each.
    """

    fields: Mapping[str, Any]
    sources: Mapping[str, str] = dataclass_field(default_factory=dict)
    notes: tuple[str, ...] = ()


def json_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object in `text`; None for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def model_reference(reference: str) -> str:
    """Return a catalog name if there is one; for a folder the config.json in it."""
    return catalog_name(reference) or local_config(reference) or reference


def local_config(reference: str) -> str | None:
    """Return the config.json of a folder on this machine; None if there is none."""
    if app_mode() is not None:  # a log must not reveal which folders exist
        return None
    try:
        inside = Path(reference).expanduser() / "config.json"
        return str(inside) if inside.is_file() else None
    except (OSError, RuntimeError, ValueError):  # a name too long, no home folder, a zero byte
        return None


def catalog_name(reference: str) -> str | None:
    """Return the catalog's name for a hub id or a catalog name, None for any other model."""
    wanted = reference.rstrip("/").casefold()
    for name in catalog_names():
        if wanted in {name, (repository(name) or "").casefold()}:
            return name
    return None
