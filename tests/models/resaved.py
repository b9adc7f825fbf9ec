"""Catalog models as another transformers saves them, from tests/data/resaved."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

from workbench.models import catalog_config

FOLDER = Path(__file__).parents[1] / "data" / "resaved"
NEWEST, *OLDER = "5.20.2", "5.12.1", "4.57.6"
RELEASES = (NEWEST, *OLDER)
"""Of transformers: 5.16 renamed kinds of layers, and 5.0 moved fields."""


@cache
def changes(release: str = NEWEST) -> dict[str, Any]:
    """Return model -> what saving it again changed."""
    text = (FOLDER / f"{release}.json").read_text(encoding="utf-8")
    models: dict[str, Any] = json.loads(text)["models"]
    return models


def saved_again(name: str, release: str = NEWEST) -> dict[str, Any]:
    """Return the config.json of a catalog model, saved again."""
    config = copy.deepcopy(catalog_config(name))
    for pointer, value in changes(release)[name]["set"].items():
        *path, key = pointer.split("/")[1:]
        place = config
        for part in path:
            place = place[part]
        place[key] = copy.deepcopy(value)
    for pointer in changes(release)[name]["removed"]:
        *path, key = pointer.split("/")[1:]
        place = config
        for part in path:
            place = place[part]
        del place[key]
    return config
