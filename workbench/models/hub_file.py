"""config.json of the hub: through huggingface_hub where it is installed, else over plain HTTPS.

The library adds the cache that vLLM fills, and the token of a login.
"""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.error import HTTPError
from urllib.parse import SplitResult
from urllib.request import Request, urlopen

from workbench.core.errors import ConfigError, cut, shown
from workbench.models.hub_address import ENDPOINT, PUBLIC_HUB, hub_address
from workbench.models.json_file import MAX_BYTES

FILE: Final = "config.json"
YES: Final = ("1", "ON", "YES", "TRUE")
"""Values of HF_HUB_OFFLINE that the library reads as true."""


class StatusError(Exception):
    """The hub answered with an error; the text is its name."""

    def __init__(self, name: str, status: int | None) -> None:
        super().__init__(name)
        self.status = status


def has_library() -> bool:
    """Return whether huggingface_hub is installed."""
    return find_spec("huggingface_hub") is not None


def endpoint() -> SplitResult:
    """Return the hub's address: HF_ENDPOINT, or the public one. Errors: AddressError."""
    # Checked first: with a wrong one the library cannot be imported.
    found = hub_address(os.environ.get(ENDPOINT, PUBLIC_HUB))
    if not has_library():
        return found
    from huggingface_hub import constants

    return hub_address(constants.ENDPOINT)


def is_offline() -> bool:
    """Return whether HF_HUB_OFFLINE forbids requests."""
    if has_library():
        from huggingface_hub import constants

        return constants.HF_HUB_OFFLINE
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in YES


def cached_config(hub_id: str) -> Path | None:
    """Return the copy in the library's cache. Errors: ConfigError for an id that no hub has."""
    if not has_library():
        return None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        cached = try_to_load_from_cache(hub_id, FILE)
    except HFValidationError as error:
        raise ConfigError(
            "invalid_hub_id",
            f"Invalid hub id {shown(hub_id)}. Expected owner/name of letters, digits, '-', '_' and "
            f"'.', as on the hub. {cut(str(error))}",
            field="model",
        ) from None
    return Path(cached) if isinstance(cached, str) else None


def fetched_config(hub_id: str, seconds: float) -> Path | bytes:
    """Return the file as the library keeps it, or its bytes. Errors: StatusError, OSError."""
    if has_library():
        return _from_library(hub_id)
    if is_offline():
        raise OSError("no request is sent while HF_HUB_OFFLINE is set")
    request = Request(f"{endpoint().geturl()}/{hub_id}/resolve/main/{FILE}")  # noqa: S310  (http or https)
    if token := os.environ.get("HF_TOKEN"):
        # Not to where the hub redirects: another host must not see it.
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with urlopen(request, timeout=seconds) as answer:  # noqa: S310
            found: bytes = answer.read(MAX_BYTES + 1)
    except HTTPError as error:
        needs = " (set HF_TOKEN)" if error.code in {401, 403} else ""
        raise StatusError(f"status {error.code}{needs}", error.code) from None
    return found


def _from_library(hub_id: str) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(hf_hub_download(hub_id, FILE))
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        raise StatusError(type(error).__name__, status) from error
