"""Download config.json of a hub repository: that one file, with a short timeout."""

import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from workbench.core.errors import ConfigError, cut, shown
from workbench.models.json_file import read_config
from workbench.models.names import same_model

PROBE_SECONDS = 3.0


def download_config(hub_id: str) -> dict[str, Any]:
    """Return the object of `config.json` in the repository `hub_id` (owner/name).

    Errors: ConfigError if the hub cannot be reached or lacks the file.
    """
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        cached = try_to_load_from_cache(hub_id, "config.json")
    except HFValidationError as error:
        raise ConfigError(
            "invalid_hub_id",
            f"Invalid hub id {shown(hub_id)}. Expected owner/name of letters, digits, '-', '_' and "
            f"'.', as on the hub. {cut(str(error))}",
            field="model",
        ) from None
    if not isinstance(cached, str) and not hub_answers():
        raise _not_fetched(hub_id, "no connection")
    try:
        path = hf_hub_download(hub_id, "config.json")
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise _not_fetched(hub_id, type(error).__name__) from error
    return read_config(Path(path))


def hub_answers() -> bool:
    """Return whether the hub's host takes a connection; assumed if a proxy is set."""
    # The hub's own client tries for a minute before it gives up, which would freeze a panel.
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE or "https" in getproxies():
        return True
    host = urlsplit(constants.ENDPOINT)
    address = (host.hostname or "", host.port or (80 if host.scheme == "http" else 443))
    try:
        socket.create_connection(address, timeout=PROBE_SECONDS).close()
    except OSError:
        return False
    return True


def _not_fetched(hub_id: str, reason: str) -> ConfigError:
    same = same_model(hub_id)
    known = "choose a catalog name (`workbench models`)"
    if same is not None:
        known = f"give {same.name}, whose layers it has by its name; its KV dtype can be another"
    return ConfigError(
        "hub_not_reachable",
        f"config.json of {cut(hub_id)} could not be fetched ({reason}). Download it by "
        f"hand and give its path, or {known}.",
        field="model",
    )
