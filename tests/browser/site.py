"""The static site, made once for all tests and served to this machine."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.built_wheel import ROOT, once, run

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

MODELS = ("qwen3-next-80b-a3b", "llama-3.1-8b", "bamba-9b", "deepseek-v3.2")
"""Of the leader board."""
WITH_NPM = pytest.mark.skipif(
    not shutil.which("npm"), reason="npm, which brings Pyodide, is missing"
)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_arguments):
        pass


def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, which all processes of a run share."""
    make = [sys.executable, "tools/site.py", "--models", ",".join(MODELS)]
    return once(tmp_path_factory, "site", lambda to: run([*make, to], cwd=ROOT))


@contextmanager
def watched(context: BrowserContext, address: str) -> Iterator[Page]:
    """Yield a tab; it must use no other host and log no error on the page's console."""
    from tests.browser.lab import PATIENCE_MS

    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    addresses: list[str] = []
    wrong: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    page.on("console", lambda line: line.type == "error" and wrong.append(line.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    yield page
    assert wrong == []
    assert [url for url in addresses if not url.startswith((address, "data:", "blob:"))] == []
    page.close()


@contextmanager
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of the site."""
    with served_folder(made(tmp_path_factory)) as address:
        yield address


@contextmanager
def served_folder(folder: Path) -> Iterator[str]:
    """Yield the address of a folder on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()
