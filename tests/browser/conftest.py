"""JupyterLab and Chromium, for all browser tests; skipped where one is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

    from tests.browser.lab import LabPage
    from tests.browser.server import LabServer

REPOSITORY = Path(__file__).parents[2]
BROWSERS = ("/usr/bin/chromium", "chromium", "chromium-browser", "google-chrome")
OFFLINE = (
    # The tests open only their own server, and containers seldom allow a sandbox.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    # To measure the page's memory: `gc()`, and sizes that are not rounded.
    "--js-flags=--expose-gc",
    "--enable-precise-memory-info",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder as a browser test."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")


def browser_path() -> str | None:
    """Return the Chromium to use: WORKBENCH_BROWSER, or the first one found that runs."""
    requested = os.environ.get("WORKBENCH_BROWSER")
    found = filter(None, map(shutil.which, [requested] if requested else BROWSERS))
    return next(filter(_runs, found), None)


def _runs(executable: str) -> bool:
    # Some distributions install a "chromium" that only says how to get one.
    try:
        subprocess.run([executable, "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


@pytest.fixture(scope="session")
def chromium() -> str:
    executable = browser_path()
    if executable is None:
        wanted = os.environ.get("WORKBENCH_BROWSER", "chromium")
        pytest.skip(
            f"no {wanted} that runs: install Chromium, or set WORKBENCH_BROWSER to one; "
            "`make test` installs it unless WORKBENCH_INSTALL_CHROMIUM=no"
        )
    return executable


@pytest.fixture(scope="session")
def server(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    from tests.browser.server import LabServer

    running = LabServer(tmp_path_factory.mktemp("lab"), REPOSITORY / "notebooks")
    yield running
    running.close()


def _while_alone(*, fixture_name: str, config: pytest.Config) -> str:
    """Return the session where browser tests run alone: JupyterLab is loaded once then.

    Next to others a module: while Playwright lives, an event loop is running in this thread, and
    tests of other files that call asyncio.run would fail.
    """
    alone = config.getoption("markexpr", "").startswith("browser")
    return "session" if alone else "module"


@pytest.fixture(scope=_while_alone)
def browser_context(chromium: str) -> Iterator[BrowserContext]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=OFFLINE)
        # One context: JupyterLab's files are loaded once and then come from its cache.
        yield browser.new_context(viewport={"width": 1280, "height": 1000})
        browser.close()


@contextmanager
def lab_page(context: BrowserContext, server: LabServer, screenshots: Path) -> Iterator[LabPage]:
    """Yield a fresh tab; it must make no outside request and log no error on the page's console."""
    from tests.browser.lab import LabPage

    page = LabPage(
        context.new_page(), server, Path(os.environ.get("WORKBENCH_SCREENSHOTS") or screenshots)
    )
    yield page
    # Before closing: a kernel that stops cancels requests, and JupyterLab reports those.
    found = {"outside": [*page.outside_requests], "console": [*page.console_errors]}
    page.close()
    assert found == {"outside": [], "console": []}


@pytest.fixture
def lab(browser_context: BrowserContext, server: LabServer, tmp_path: Path) -> Iterator[LabPage]:
    """Yield a tab for one test."""
    with lab_page(browser_context, server, tmp_path) as page:
        yield page


@pytest.fixture(scope="module")
def shared_lab(
    browser_context: BrowserContext, server: LabServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabPage]:
    """Yield one tab for all tests of a file, since opening and running a notebook takes seconds."""
    with lab_page(browser_context, server, tmp_path_factory.mktemp("screenshots")) as page:
        yield page


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of the static site."""
    from tests.browser.site import served

    with served(tmp_path_factory) as found:
        yield found
