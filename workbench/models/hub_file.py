"""config.json of the hub: through huggingface_hub where it is installed, else over plain HTTPS.

The library adds the cache that vLLM fills, and the token of a login. A server may send for ever:
no answer is read beyond `MAX_BYTES` or past the time limit, and none that is compressed.
"""

import os
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import SplitResult
from urllib.request import Request, urlopen

from workbench.core.errors import ConfigError, cut, shown
from workbench.models.hub_address import ENDPOINT, PUBLIC_HUB, hub_address
from workbench.models.json_file import MAX_BYTES

FILE: Final = "config.json"
YES: Final = ("1", "ON", "YES", "TRUE")
"""Values of HF_HUB_OFFLINE that the library reads as true."""


CHUNK: Final = 2**16
_end: ContextVar[float | None] = ContextVar("_end", default=None)
"""When the request of this thread ends; None in others, whose downloads are their own."""


class AnswerTooLongError(Exception):
    """The hub sent more than a config.json can have, for longer than anybody waits, or packed."""


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
    if has_library() and _is_bounded():
        _end.set(monotonic() + seconds)
        return _from_library(hub_id)
    if is_offline():
        raise OSError("no request is sent while HF_HUB_OFFLINE is set")
    request = Request(f"{endpoint().geturl()}/{hub_id}/resolve/main/{FILE}")  # noqa: S310  (http or https)
    if token := _token():
        # Not to where the hub redirects: another host must not see it.
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with urlopen(request, timeout=seconds) as answer:  # noqa: S310
            parts = iter(partial(answer.read1, CHUNK), b"")
            found = b"".join(_bounded(parts, monotonic() + seconds))
    except HTTPError as error:
        needs = " (set HF_TOKEN)" if error.code in {401, 403} else ""
        raise StatusError(f"status {error.code}{needs}", error.code) from None
    return found


def _token() -> str | None:
    if not has_library():
        return os.environ.get("HF_TOKEN")
    from huggingface_hub import get_token

    return get_token()


def _bounded(parts: Iterable[bytes], end: float) -> Iterator[bytes]:
    """Yield the parts of an answer. Errors: AnswerTooLongError."""
    size = 0
    for part in parts:
        size += len(part)
        if size > MAX_BYTES or monotonic() > end:
            raise AnswerTooLongError
        yield part


def _is_bounded() -> bool:
    """Bound what the library reads in this module's threads; False if its client cannot be.

    Of releases before 1.0, whose client is another one, only the cache and the token are used.
    """
    from huggingface_hub.utils import get_session

    hooks = getattr(get_session(), "event_hooks", None)
    if hooks is None:
        return False
    for event, hook in (("request", _unpacked), ("response", _limited)):
        if hook not in hooks[event]:
            hooks[event].append(hook)
    return True


def _unpacked(request: Any) -> None:
    if _end.get() is not None:
        request.headers["Accept-Encoding"] = "identity"


def _limited(response: Any) -> None:
    end = _end.get()
    if end is None:
        return
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise AnswerTooLongError  # a few bytes can become any number of them
    stream = response.stream
    parts = _bounded(stream, end)
    client = import_module(type(response).__module__.partition(".")[0])

    class Limited(client.SyncByteStream):  # type: ignore[name-defined, misc]
        def __iter__(self) -> Iterator[bytes]:
            return parts

        def close(self) -> None:
            stream.close()

    response.stream = Limited()


def _from_library(hub_id: str) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(hf_hub_download(hub_id, FILE))
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        raise StatusError(type(error).__name__, status) from error
