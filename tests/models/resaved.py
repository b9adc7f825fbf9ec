"""Catalog models as a newer transformers saves them, from tests/data/resaved."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

from workbench.models import catalog_config

FILE = Path(__file__).parents[1] / "data" / "resaved" / "5.20.2.json"


@cache
def changes() -> dict[str, Any]:
    """Return model -> what saving it again changed."""
    models: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))["models"]
    return models


def saved_again(name: str) -> dict[str, Any]:
    """Return the config.json of a catalog model, saved again."""
    config = copy.deepcopy(catalog_config(name))
    for pointer, value in changes()[name]["set"].items():
        *path, key = pointer.split("/")[1:]
        place = config
        for part in path:
            place = place[part]
        place[key] = copy.deepcopy(value)
    for pointer in changes()[name]["removed"]:
        *path, key = pointer.split("/")[1:]
        place = config
        for part in path:
            place = place[part]
        del place[key]
    return config
