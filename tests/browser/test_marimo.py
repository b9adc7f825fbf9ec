"""marimo shows the front door, and a cell follows it; marimo itself is fetched for this test."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from urllib.error import URLError
from urllib.request import urlopen

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

import workbench as wb
from tests.browser.lab import expect
from tests.built_wheel import ROOT

MARIMO = "marimo==0.25.2"
START_SECONDS = 120
pytestmark = pytest.mark.thorough


@contextmanager
def served():
    """Yield the address of the example as marimo serves it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # uv puts marimo on top of the environment of these tests, and changes nothing in it
    uv = [sys.executable, "-m", "uv", "run", "-q", "--no-project", "--with", MARIMO]
    serve = ["marimo", "run", ROOT / "docs" / "marimo_front_door.py", "--headless", "--no-token"]
    settings = {"VIRTUAL_ENV": sys.prefix, "PYTHONPATH": str(ROOT), "DO_NOT_TRACK": "1"}
    process = subprocess.Popen(
        [*uv, *serve, "--port", str(port)],
        env=os.environ | settings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}/"
    end = time.monotonic() + START_SECONDS
    try:
        while not _answers(address):
            assert process.poll() is None, "marimo ended"
            assert time.monotonic() < end, "marimo did not start"
            time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait()


def _answers(address):
    with suppress(URLError, OSError), urlopen(address, timeout=5):
        return True
    return False


def test_the_front_door_answers_and_a_cell_follows_it(browser_context):
    with served() as address:
        page = browser_context.new_page()
        page.goto(address)
        tile = page.locator('[data-tile="why"] .wb-tile-value')
        plan = wb.resolve(model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4)
        expect(tile).to_have_text(f"{plan.block_size:,} tokens")
        box = page.locator('[data-key="omnibox"]')
        box.fill("bamba-9b, 2 x H100")
        box.press("Enter")
        plan = wb.resolve(model="bamba-9b", device="H100", tensor_parallel=2)
        expect(tile).to_have_text(f"{plan.block_size:,} tokens")
        expect(page.locator("body")).to_contain_text(f"{plan.block_size:,} tokens in a block")
        page.close()
