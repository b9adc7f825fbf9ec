"""The static site, made once for all tests and served to this machine."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.built_wheel import ROOT, once, run

MODELS = ("qwen3-next-80b-a3b", "llama-3.1-8b", "bamba-9b", "deepseek-v3.2")
"""Of the leader board."""
WITH_NPM = pytest.mark.skipif(
    not shutil.which("npm"), reason="npm, which brings Pyodide, is missing"
)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_arguments):
        pass


@contextmanager
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of the site; all processes of a run share its folder."""
    make = [sys.executable, "tools/site.py", "--models", ",".join(MODELS)]
    folder = once(tmp_path_factory, "site", lambda to: run([*make, to], cwd=ROOT))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()
