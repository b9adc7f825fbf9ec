"""Inside the kernel: refuse and record every attempt to reach the network.

A notebook that downloads something passes on the machine of its author and fails, or changes its
numbers, everywhere else. Standard library only, like `guard`.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy")
"""Variables that the runner removes: a proxy on this machine would hide where a request goes."""
_LOCAL = frozenset({"", "localhost", "localhost.localdomain", "ip6-localhost"})


class NetworkUseError(ConnectionError):
    """Raised when code tries to use the network; code that handles the error still works."""


def refuse_network(record: Callable[[str, BaseException], None]) -> None:
    """Refuse every connection and look-up outside this machine, permanently.

    `record(kind, error)` is called first, so that code that swallows the error is found too.
    """

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        host = _host(event, arguments)
        if host is not None and not is_local(host):
            error = NetworkUseError(
                f"{event} to {host!r}: a notebook runs offline; commit the data that it needs"
            )
            try:
                raise error
            except NetworkUseError:
                record("network_use", error)
            raise error

    sys.addaudithook(watch)


def _host(event: str, arguments: tuple[Any, ...]) -> str | None:
    """Return the host that an audit event names; None if the event is not of the network."""
    if event in {"socket.connect", "socket.sendto"}:
        address = arguments[1]
        return str(address[0]) if isinstance(address, tuple) else None
    if event in {"socket.getaddrinfo", "socket.gethostbyname"}:
        host = arguments[0]
        return host.decode(errors="replace") if isinstance(host, bytes) else str(host or "")
    if event == "urllib.Request":
        address = urlsplit(str(arguments[0]))
        return address.hostname or "" if address.scheme not in {"file", "data"} else None
    return None


def is_local(host: str) -> bool:
    """Return whether the name or address means this machine."""
    name = host.rstrip(".").casefold()
    if name in _LOCAL or name == socket.gethostname().casefold():
        return True
    try:
        address = ipaddress.ip_address(name.split("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
