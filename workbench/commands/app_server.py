"""The server of `workbench app`: Voila, which answers only to a token and to known host names.

Voila runs alone, not as an extension of jupyter_server, where a token opens the whole server API
with terminals, files and `execute_request`. Here a kernel accepts widget messages and no code.
Token, cookie, origin and login page are those of jupyter_server.
"""

import hmac
import json
import logging
import os
import re
import socket
import tempfile
import webbrowser
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from jupyter_server import DEFAULT_STATIC_FILES_PATH
from jupyter_server.auth.identity import IdentityProvider, User
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.log import log_request
from jupyter_server.services.kernels.connection.base import (
    deserialize_binary_message,
    deserialize_msg_from_ws_v1,
)
from tornado.httputil import HTTPServerRequest, split_host_and_port
from tornado.routing import Matcher, Rule
from tornado.web import HTTPError, RequestHandler
from traitlets import Dict
from traitlets.config import Config
from voila.app import Voila
from voila.static_file_handler import AllowListFileHandler, TemplateStaticFileHandler
from voila.tornado.kernel_websocket_handler import VoilaKernelWebsocketHandler

LOCAL = ("localhost", "127.0.0.1", "::1")
TOKEN = re.compile(r"token=[^\s&]+")
SETTINGS: Mapping[str, Any] = {
    "log_function": partial(log_request, record_prometheus_metrics=False),  # without tokens
    "static_path": DEFAULT_STATIC_FILES_PATH,  # of login and error pages
    "static_url_prefix": "/voila/static/",
    "headers": {"Referrer-Policy": "same-origin"},  # the first address holds the token
}
EVERYWHERE = ("", "0.0.0.0", "::", "*")  # noqa: S104  (compared with, not bound to)
FORM_1 = "v1.kernel.websocket.jupyter.org"
FORM_1_SIZES: tuple[int, Literal["little", "big"]] = (8, "little")
SIZES: tuple[int, Literal["little", "big"]] = (4, "big")
"""Bytes and order of the numbers that a binary message of another form begins with."""
FAILED = "The reason is in the terminal that runs the app."
"""What a page says after the number of a cell that failed."""
TEMPLATE = "offline"
TEMPLATE_FILE = re.compile(rf"{TEMPLATE}/static/[\w-]+(\.[\w-]+)+")


class TokenIdentity(IdentityProvider):
    """One token for every user; a cookie keeps it after the first visit."""

    cookie_options = Dict({"samesite": "Strict"})

    def get_token(self, handler: RequestHandler) -> str | None:
        """Return the token that a request brings; nothing unless it is the right one."""
        return self.token if self._is_token(super().get_token(handler)) else None

    def process_login_form(self, handler: RequestHandler) -> User | None:
        """Return a user where the login form holds the token."""
        given = handler.get_argument("password", default="")
        return self.generate_anonymous_user(handler) if self._is_token(given) else None

    def _is_token(self, given: str | None) -> bool:
        """Compare in constant time, which does not reveal where the first difference is."""
        token = str(self.token)
        return bool(token) and hmac.compare_digest((given or "").encode(), token.encode())


class HideToken(logging.Filter):
    """A log filter: tornado logs the address of a failed request with its query string."""

    loggers = ("tornado.general", "tornado.application")
    """Those that log addresses; the log of requests hides the token itself."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace the token in a record."""
        record.msg, record.args = TOKEN.sub("token=[secret]", record.getMessage()), ()
        return True


class OtherHost(Matcher):
    """Matches requests for a host name that this server does not have: DNS rebinding."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self.allowed = allowed

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        """Return what tornado takes for a match, or None."""
        host = split_host_and_port(request.host.lower())[0].strip("[]")
        return None if host in self.allowed else {}


class HostRefused(RequestHandler):
    """The answer to every request for another host."""

    def prepare(self) -> None:
        """Answer in one sentence, whatever the method and the path."""
        self.set_status(403)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(
            "This app is not served under this host name. Open the address that it printed, or "
            "start it with: workbench app --allow-host NAME\n"
        )


class TemplateFiles(TemplateStaticFileHandler):
    """Files of the page's template; any other path is an internal error for Voila."""

    def prepare(self) -> None:
        """Refuse what is not a file of the template."""
        if not TEMPLATE_FILE.fullmatch(self.path_args[0]):
            raise HTTPError(404)


class OwnFiles(JupyterHandler, AllowListFileHandler):
    """Pictures in the notebook's folder, for logged-in users."""


class KernelSocket(VoilaKernelWebsocketHandler):
    """A kernel's messages without the code of the cells; damaged ones end the connection.

    Voila itself reads every binary message as one of form 1: in another form, the length of a
    buffer counts as a number of parts, and the server hangs.
    """

    hides_errors = False

    def on_message(self, message: bytes | str) -> None:
        """Take a message, unless jupyter_server would read it for ever, or copy it many times."""
        is_form_1 = self.selected_subprotocol == FORM_1
        if isinstance(message, str) or has_parts(message, *(FORM_1_SIZES if is_form_1 else SIZES)):
            super().on_message(message)
        else:
            self.close(1007, "damaged message")

    def write_message(self, message: bytes | str | dict[str, Any], binary: bool = False) -> Any:
        """Send a message, unless it holds code, or an error that is hidden here."""
        header, content = self._parts(message)
        kind = header["msg_type"]
        on_error_stream = kind == "stream" and content()["name"] != "stdout"
        if kind == "execute_input" or (self.hides_errors and (kind == "error" or on_error_stream)):
            return None
        return super(VoilaKernelWebsocketHandler, self).write_message(message, binary)

    def _parts(
        self, message: bytes | str | dict[str, Any]
    ) -> tuple[Mapping[str, Any], Callable[[], Mapping[str, Any]]]:
        """Return the header, and the content to be read on demand, in every form of Jupyter's."""
        if isinstance(message, bytes) and self.selected_subprotocol == FORM_1:
            _channel, parts = deserialize_msg_from_ws_v1(message)
            return json.loads(parts[0]), lambda: json.loads(parts[3])
        whole: Any = message
        if isinstance(message, bytes):
            whole = deserialize_binary_message(message)
        elif isinstance(message, str):
            whole = json.loads(message)
        return whole["header"], lambda: whole["content"]


def has_parts(message: bytes, size: int, order: Literal["little", "big"]) -> bool:
    """Return whether a message begins with the offsets of its parts, one after the other in it.

    size: bytes of each offset, and of their number before them.
    """
    begin = size * (int.from_bytes(message[:size], order) + 1)
    if not size < begin <= len(message):
        return False
    places = range(size, begin, size)
    offsets = [int.from_bytes(message[place : place + size], order) for place in places]
    return offsets == sorted(offsets) and offsets[-1] <= len(message)


class QuietKernelSocket(KernelSocket):
    """The same without tracebacks."""

    hides_errors = True


class AppServer(Voila):
    """Voila with a check of host names and token."""

    name = "voila"  # its own configuration files are read, and then overridden
    declared = Config()
    allowed_hosts: frozenset[str] = frozenset(LOCAL)

    def load_config_file(self, *args: Any, **kwargs: Any) -> None:
        """Read the configuration; what the command declares wins."""
        super().load_config_file(*args, **kwargs)
        self.update_config(self.declared)

    def init_handlers(self) -> list[Any]:
        """Return Voila's handlers with a host check before them."""
        quiet = not self.voila_configuration.show_tracebacks
        own = {
            AllowListFileHandler: OwnFiles,
            TemplateStaticFileHandler: TemplateFiles,
            VoilaKernelWebsocketHandler: QuietKernelSocket if quiet else KernelSocket,
        }
        handlers = [
            (pattern, own.get(handler, handler), *rest)
            for pattern, handler, *rest in super().init_handlers()
        ]
        return [Rule(OtherHost(self.allowed_hosts), HostRefused), *handlers]

    def launch_browser(self) -> None:
        """Open a browser by a page that only this user can read: a command line is public."""
        address = f"{self.connection_url}?token={self.identity_provider.token}"
        handle, page = tempfile.mkstemp(suffix=".html")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f'<meta http-equiv="refresh" content="0; url={address}">')
        try:
            webbrowser.open(Path(page).as_uri())
        except webbrowser.Error as error:
            self.log.warning("No web browser found: %s.", error)


def hosts_of(ip: str, allowed: tuple[str, ...]) -> frozenset[str]:
    """Return the accepted host names: those of this machine and those given at the start."""
    bound = socket.gethostname() if ip in EVERYWHERE else ip
    return frozenset(name.lower().strip("[]") for name in (*LOCAL, bound, *allowed))


def serve(
    notebook: Path, voila: Mapping[str, Any], *, hosts: frozenset[str], quiet: bool, theme: str
) -> None:
    """Serve a notebook until Ctrl-C. voila: settings of the server itself."""
    for name in HideToken.loggers:
        logging.getLogger(name).addFilter(HideToken())
    AppServer.allowed_hosts = hosts
    own = {"identity_provider_class": TokenIdentity, "tornado_settings": dict(SETTINGS)}
    AppServer.declared = Config(
        Voila={**voila, **own},
        VoilaConfiguration={
            "template": TEMPLATE,
            "theme": theme,
            "allow_template_override": "NO",
            "allow_theme_override": "NO",
            "show_tracebacks": not quiet,
            "preheat_kernel": False,  # its socket requires no token
            "progressive_rendering": False,
        },
        VoilaExecutor={"cell_error_instruction": FAILED},
    )
    AppServer.launch_instance(argv=[str(notebook)])
