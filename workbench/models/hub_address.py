"""The addresses on the way to the hub, checked before anything connects to them."""

import os
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from workbench.core.errors import ConfigError, shown

ENDPOINT: Final = "HF_ENDPOINT"
PUBLIC_HUB: Final = "https://huggingface.co"
HUB_SCHEMES: Final = ("http", "https")
PROXY_SCHEMES: Final = (*HUB_SCHEMES, "socks5", "socks5h")
HOST: Final = re.compile(r"[\w.-]*\w[\w.-]*|[0-9a-f]*:[0-9a-f:.]*", re.IGNORECASE)
PASSWORD: Final = re.compile(r"^(\w*://)?.*@")


class AddressError(ConfigError):
    """A variable of the environment holds an address that no client can use."""


def hub_address(given: str) -> SplitResult:
    """Return the value of HF_ENDPOINT as an address. Errors: AddressError."""
    return _checked(ENDPOINT, given.rstrip("/"), HUB_SCHEMES, PUBLIC_HUB)


def proxy_address(hub: SplitResult) -> SplitResult | None:
    """Return the proxy on the way to the hub; None without one. Errors: AddressError."""
    if proxy_bypass(hub.hostname or ""):
        return None
    proxies = getproxies()
    scheme = hub.scheme if hub.scheme in proxies else "all"
    given = proxies.get(scheme)
    if not given:
        return None
    names = (f"{scheme}_proxy", f"{scheme}_proxy".upper())
    name = next((name for name in names if os.environ.get(name) == given), "proxy of the system")
    # As clients do: a proxy without a scheme is one of http.
    whole = given if "://" in given else f"http://{given}"
    return _checked(name, whole, PROXY_SCHEMES, "http://proxy.example:3128")


def _checked(name: str, given: str, schemes: tuple[str, ...], example: str) -> SplitResult:
    try:
        address = urlsplit(given)
        has_host = HOST.fullmatch(address.hostname or "") and address.port != 0
    except ValueError:  # brackets that do not match, or a port that is not one
        has_host = None
    if has_host and address.scheme in schemes:
        return address
    without_password = PASSWORD.sub(r"\1***@", given)
    raise AddressError(
        "invalid_address",
        f"Invalid {name} {shown(without_password)}. Expected scheme://host or "
        f"scheme://host:port with the scheme {', '.join(schemes)}, such as {example}. Correct the "
        "variable or unset it; catalog names work without it (`workbench models`).",
        field="model",
    )
