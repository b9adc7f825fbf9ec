"""The class that a config.json names, before any reader is known."""

from collections.abc import Mapping
from typing import Any

from workbench.core.architectures import is_left_to_transformers, versions_with
from workbench.core.errors import ConfigError, shown
from workbench.models.fields import Fields

KEY = "architectures"


def listed_name(config: Mapping[str, Any], place: str) -> str | None:
    """Return the first entry that a version serves, else the first; None without any."""
    listed = config.get(KEY)
    if listed is None or listed == []:
        return None
    if not isinstance(listed, list | tuple) or not all(isinstance(name, str) for name in listed):
        raise ConfigError(
            "config_wrong_value",
            f"Invalid {place}/{KEY} {shown(listed)}. Expected a list of names.",
            field=f"{place}/{KEY}",
        )
    known: str = next((name for name in listed if versions_with(name)), listed[0])
    return known


def is_of_library(fields: Fields) -> bool:
    """Return whether no release has a class of its own, so that the Transformers library runs."""
    return is_left_to_transformers(listed_name(fields.top, "") or "")
