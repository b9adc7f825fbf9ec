"""The catalog: real models as data files, and loading a model from any reference to one."""

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from workbench.access.app_mode import check_model
from workbench.core.errors import ConfigError, unknown_name_message
from workbench.core.model import Model
from workbench.models.hub import download_config
from workbench.models.json_file import parse_config, read_config
from workbench.models.read import read_model

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


@lru_cache(maxsize=1)
def catalog_names() -> tuple[str, ...]:
    """Return the names of the catalog, sorted.

    >>> wb.catalog_names()[:2]
    ('bamba-9b', 'deepseek-v3')
    """
    folder = resources.files("workbench.models") / "catalog"
    names = (entry.name for entry in folder.iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in names if name.endswith(".json")))


def catalog_config(name: str) -> dict[str, Any]:
    """Return one catalog file's object, with `_source`; ConfigError for an unknown name."""
    if name not in catalog_names():
        raise ConfigError(
            "unknown_model",
            unknown_name_message("Model", name, catalog_names())
            + " `workbench models` lists the catalog; a path of a config.json or a hub id "
            "(owner/name) is accepted too.",
            field="model",
        )
    path = resources.files("workbench.models") / "catalog" / f"{name}.json"
    return parse_config(path.read_bytes(), name)


@lru_cache(maxsize=256)
def _catalog_model(name: str) -> Model:
    return read_model(catalog_config(name), name)


def load_model(reference: str | Path | Mapping[str, Any]) -> Model:
    """Return the model of a catalog name, a path, a hub id, or a config object.

    A path is what exists on disk, or ends in .json, or starts with "." or "/". A hub id
    (owner/name) outside the catalog downloads that repository's config.json and nothing else.
    Errors: ConfigError; AppRefusal in an app.

    >>> len(wb.load_model("bamba-9b").layers)
    32
    """
    if isinstance(reference, str) and (name := _catalog_name(reference)) is not None:
        return _catalog_model(name)
    return read_model(*labelled_config(reference))


def labelled_config(reference: str | Path | Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return the object of a config.json and what it is called: see `load_model`."""
    if isinstance(reference, Mapping):
        labels = (reference.get("_name_or_path"), reference.get("model_type"))
        label = next((text for text in labels if isinstance(text, str) and text), "config")
        return reference, label[:120]
    if isinstance(reference, Path):
        return read_config(reference), _file_label(reference)
    if not isinstance(reference, str):
        raise ConfigError(
            "unknown_model",
            "Invalid model. Expected a catalog name, a path, a hub id or a config object; got a "
            f"{type(reference).__name__}.",
            field="model",
        )
    if (name := _catalog_name(reference)) is not None:
        return catalog_config(name), name
    path = _path(reference)
    if path is not None:
        check_model(reference)
        return read_config(path), _file_label(path)
    if HUB_ID.fullmatch(reference):
        check_model(reference)
        return download_config(reference), reference
    return catalog_config(reference), reference


def _catalog_name(reference: str) -> str | None:
    """Return the catalog name that a name or a hub id means; None for a path and other models."""
    if (folded := reference.casefold()) in catalog_names():
        return folded
    if _path(reference) is not None:
        return None
    return next((name for name, hub_id in _hub_ids().items() if folded == hub_id.casefold()), None)


@lru_cache(maxsize=1)
def _hub_ids() -> dict[str, str]:
    """Return the hub id of each catalog name."""
    return {name: catalog_config(name)["_source"]["repo"] for name in catalog_names()}


def repository(reference: str | Mapping[str, Any]) -> str | None:
    """Return what an engine can load for a model: a hub id or a folder; None if unknown.

    A catalog name gives the hub id that its file came from, a config.json its folder, a config
    object its own name.
    """
    if not isinstance(reference, str):
        named = reference.get("_name_or_path")
        return named if isinstance(named, str) and named else None
    for name, hub_id in _hub_ids().items():
        if reference.casefold() in {name, hub_id.casefold()}:
            return hub_id
    path = _path(reference)
    if path is not None:
        if path.is_dir():
            return str(path)
        return str(path.parent) if path.name == "config.json" else None
    return reference if HUB_ID.fullmatch(reference) else None


def _path(reference: str) -> Path | None:
    """Return what looks like a path as one; None for other references."""
    if "\0" in reference or len(reference) > 4096:
        return None
    if not reference.startswith((".", "/", "~")) and not reference.endswith(".json"):
        return None
    return Path(os.path.expanduser(reference))  # noqa: PTH111  (Path's raises without a home)


def _file_label(path: Path) -> str:
    return path.parent.name or path.name if path.name == "config.json" else path.stem or path.name
