"""Download config.json of a hub repository: that one file, within seconds."""

import logging
import socket
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any, Final
from urllib.parse import SplitResult

from workbench.core.errors import ConfigError, cut
from workbench.models import hub_file
from workbench.models.hub_address import AddressError, proxy_address
from workbench.models.json_file import parse_config, read_config
from workbench.models.names import same_layers

HUB_SECONDS: Final = 5
"""Longest wait for the hub."""
REST_SECONDS: Final = 60
"""How long a hub that failed gets no further request: a batch would pay the wait for every line."""
PROBE_SECONDS: Final = 3
WORKER: Final = "config.json from the hub"
PORTS: Final = {"http": 80, "https": 443}
SOCKS_PORT: Final = 1080
ANSWERS: Final = (401, 403, 404)
"""Status codes that speak of one repository; any other error is one of the hub, or on the way."""

_failures: dict[str, tuple[float, str]] = {}
"""Address of a hub -> when it failed, and how."""


_configs: dict[str, dict[str, Any]] = {}
"""Hub id -> what this process read: a change of a scenario must not wait for a network."""


class _NoAnswerError(Exception):
    """The hub could not be reached, or gets no request now."""


def download_config(hub_id: str) -> dict[str, Any]:
    """Return the object of `config.json` in the repository `hub_id` (owner/name).

    Read once per process. Waits `HUB_SECONDS` at most; a copy that an earlier call or vLLM left in
    the hub's cache serves where the hub does not answer. Errors: ConfigError if the hub cannot be
    reached or lacks the file, AddressError if a variable holds an address that none can be.
    """
    if hub_id in _configs:
        return _configs[hub_id]
    hub_file.endpoint()
    cached = hub_file.cached_config(hub_id)
    try:
        config = _ask_hub(hub_id)
    except AddressError:
        if cached is None:
            raise
        config = read_config(cached)
    except _NoAnswerError as error:
        if cached is None:
            raise _not_fetched(hub_id, str(error)) from None
        config = read_config(cached)
    except hub_file.StatusError as error:
        raise _not_fetched(hub_id, f"{error} of {_tried()}") from error
    _configs[hub_id] = config
    return config


def is_read(hub_id: str) -> bool:
    """Return whether this process has read that repository's config.json."""
    return hub_id in _configs


def _ask_hub(hub_id: str) -> dict[str, Any]:
    """Return the downloaded object; remember a hub that does not answer."""
    hub, _ = _way()
    at, how = _failures.get(hub.geturl(), (0.0, ""))
    rest = at + REST_SECONDS - monotonic()
    if how and rest > 0 and not hub_file.is_offline():
        raise _NoAnswerError(f"{how}, and no request is sent again for {rest:.0f} seconds")

    def download() -> Path | bytes:
        if not hub_answers():
            raise _NoAnswerError(f"no connection to {_tried()}")
        return hub_file.fetched_config(hub_id, HUB_SECONDS)

    try:
        found = _within(HUB_SECONDS, download)
    except hub_file.StatusError as error:
        if error.status in ANSWERS:
            raise
        how = f"status {error.status} of {_tried()}"
    except _NoAnswerError as error:
        how = str(error)
    except Exception as error:  # noqa: BLE001  (errors of the client below it)
        how = f"{type(error).__name__} of {_tried()}"
    else:
        return read_config(found) if isinstance(found, Path) else parse_config(found, hub_id)
    if hub_file.is_offline():
        how = "HF_HUB_OFFLINE is set, and the hub's cache lacks it"
    _failures[hub.geturl()] = (monotonic(), how)
    raise _NoAnswerError(how)


def _within(seconds: float, work: Callable[[], Path | bytes]) -> Path | bytes:
    """Return what `work` returns or raises in a thread of its own.

    Past the limit the thread is left alone: the hub's client cannot be interrupted, and tries for
    a minute.
    """
    future: Future[Path | bytes] = Future()

    def settle() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  (raised again in the calling thread)
            future.set_exception(error)

    logging.getLogger("huggingface_hub.utils._http").addFilter(_is_not_of_worker)
    Thread(target=settle, name=WORKER, daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():  # the client's own time limit
            raise
        message = f"{_tried()} did not answer within {seconds:g} seconds"
        raise _NoAnswerError(message) from None


def _is_not_of_worker(record: logging.LogRecord) -> bool:
    """Hide what the hub's client says of its retries: the message of this module says it."""
    return record.threadName != WORKER


def hub_answers() -> bool:
    """Return whether the hub's host, or the proxy on the way to it, takes a connection."""
    if hub_file.is_offline():
        return True
    hub, proxy = _way()
    host = proxy or hub
    try:
        address = host.hostname or "", host.port or PORTS.get(host.scheme, SOCKS_PORT)
        socket.create_connection(address, timeout=PROBE_SECONDS).close()
    except (OSError, ValueError):  # ValueError: a name that is none
        return False
    return True


def _way() -> tuple[SplitResult, SplitResult | None]:
    """Return the hub's address, and the proxy that a request to it passes. Errors: AddressError."""
    hub = hub_file.endpoint()
    return hub, None if hub_file.is_offline() else proxy_address(hub)


def _tried() -> str:
    """Return the hub's host, and the proxy on the way to it, without any password."""
    hub, proxy = _way()
    through = f" through the proxy {proxy.hostname}" if proxy else ""
    return cut(f"{hub.hostname}{through}")


def _not_fetched(hub_id: str, reason: str) -> ConfigError:
    same, operands = same_layers(hub_id)
    known = same or "choose a catalog name, which works offline (`workbench models`)"
    return ConfigError(
        "hub_not_reachable",
        f"config.json of {cut(hub_id)} could not be fetched ({reason}). Download it by "
        f"hand and give its path, or {known}.",
        field="model",
        operands=operands,
    )
