"""Load a model from any reference to one."""

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from workbench.access.app_mode import AppRefusal, check_model
from workbench.access.files import is_folder
from workbench.core.errors import ConfigError, a_kind
from workbench.core.model import Model
from workbench.models.catalog import catalog_config, catalog_hub_id, catalog_name, catalog_names
from workbench.models.families.decoder import DEFAULT
from workbench.models.family import find_family
from workbench.models.fields import Fields
from workbench.models.json_file import read_config
from workbench.models.names import same_layers
from workbench.models.read import read_model

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


@lru_cache(maxsize=512)
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
    if isinstance(reference, str) and (name := catalog_name(reference)) is not None:
        return _catalog_model(name)
    return read_model(*labelled_config(reference))


@lru_cache(maxsize=1)
def hybrids_first() -> tuple[str, ...]:
    """Return the names of the catalog, those of hybrid families before the others."""
    return tuple(sorted(catalog_names(), key=lambda name: not is_of_hybrids(name)))


def is_of_hybrids(name: str) -> bool:
    """Return whether a model of the catalog is of a family with hybrids."""
    family, _type = find_family(Fields(catalog_config(name)), DEFAULT)
    return family.is_hybrid


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
            "Invalid model. Expected a catalog name, a path, a hub id or a config object; got "
            f"{a_kind(reference)}.",
            field="model",
        )
    if (name := catalog_name(reference)) is not None:
        return catalog_config(name), name
    path = _path(reference)
    if path is not None:
        check_model(reference)
        return read_config(path), _file_label(path)
    if HUB_ID.fullmatch(reference):
        _check_hub_id(reference)
        from workbench.models.hub import download_config

        return download_config(reference), reference
    return catalog_config(reference), reference


def _check_hub_id(hub_id: str) -> None:
    try:
        check_model(hub_id)
    except AppRefusal as error:
        same, operands = same_layers(hub_id)
        message = f"{error.message} Or {same}." if same else error.message
        raise AppRefusal(error.code, message, field=error.field, operands=operands) from None


def needs_hub(reference: object) -> bool:
    """Return whether reading the model waits for the hub."""
    if not isinstance(reference, str) or catalog_name(reference) or _path(reference) is not None:
        return False
    # Only a hub id needs the client of a network, which takes long to import.
    from workbench.models.hub import is_read

    return HUB_ID.fullmatch(reference) is not None and not is_read(reference)


def repository(reference: str | Mapping[str, Any]) -> str | None:
    """Return what an engine can load for a model: a hub id or a folder; None if unknown.

    A catalog name gives its hub id, a config.json its folder, a config object its own name.
    """
    if not isinstance(reference, str):
        named = reference.get("_name_or_path")
        return named if isinstance(named, str) and named else None
    if (hub_id := catalog_hub_id(reference)) is not None:
        return hub_id
    path = _path(reference)
    if path is not None:
        if is_folder(path):
            return str(path)
        return str(path.parent) if path.name == "config.json" else None
    return reference if HUB_ID.fullmatch(reference) else None


def _path(reference: str) -> Path | None:
    """Return what looks like a path as one; None for other references."""
    if "\0" in reference or len(reference) > 4096:
        return None
    if not reference.startswith((".", "/", "~")) and not reference.endswith(".json"):
        return None
    try:
        return Path(os.path.expanduser(reference))  # noqa: PTH111  (Path's raises without a home)
    except ValueError:  # half a character in the name of a user
        return None


def _file_label(path: Path) -> str:
    return path.parent.name or path.name if path.name == "config.json" else path.stem or path.name
