"""JupyterLab as a test drives it: open, run, pick, press, look."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.browser.server import LabServer

# Imported here only, so that the files that import this one are skipped where it is missing.
playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
expect = playwright.expect
PlaywrightTimeout = playwright.TimeoutError

Theme = Literal["JupyterLab Light", "JupyterLab Dark"]
LIGHT: Theme = "JupyterLab Light"
DARK: Theme = "JupyterLab Dark"
INSIDE_SCHEMES = ("about", "blob", "data")
# The only time limit of the browser tests: reached by what is broken, never by a busy machine.
PATIENCE_MS = 180_000
expect.set_options(timeout=PATIENCE_MS)
WIDGET = ":is(.jupyter-widgets, .widget-toggle-buttons)"
NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"  # ipywidgets puts it between the words of an option
FRAME_PIXELS = 200  # JupyterLab's bars above and below a notebook, amply
# anywidget says this where a script took over two seconds to load. Nothing here depends on it:
# what Python changes later comes through plain models (workbench/ui/live_figure.js).
LATE_SCRIPT = "[anywidget] Failed to initialize model."
# JupyterLab says this when a kernel restarts before its debugger has answered.
CANCELED = "Could not restore the debugger state: Canceled future"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


class LabPage:
    """One JupyterLab tab in a browser.

    A control is found by its visible description. What goes wrong is
    collected: `outside_requests` (anything but 127.0.0.1), `console_errors` (of the page),
    `kernel_errors()` (exceptions in the kernel, also those of callbacks, which no cell shows).
    """

    def __init__(self, page: Page, server: LabServer, screenshots: Path) -> None:
        self.page = page
        self.server = server
        self.screenshots = screenshots
        self.console_errors: list[str] = []
        self.outside_requests: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.add_init_script(path=Path(__file__).with_name("in_page.js"))
        page.on("console", lambda line: line.type == "error" and self._complain(line.text))
        page.on("pageerror", lambda error: self._complain(str(error)))
        page.on("request", lambda request: self._check_address(request.url))
        page.on("websocket", lambda socket: self._check_address(socket.url))

    def open(self, notebook: str, theme: Theme = LIGHT) -> None:
        """Show a notebook of the server's root folder, its kernel ready to run."""
        address = f"{self.server.url}lab/tree/{quote(notebook)}?token={self.server.token}&reset"
        self.page.goto(address, wait_until="commit")
        self.page.wait_for_function("path => window.inPage?.isOpen(path)", arg=notebook)
        self.page.evaluate("inPage.ready()")
        self.set_theme(theme)

    def run_all(self) -> None:
        """Run every cell; AssertionError with the traceback if one fails."""
        self.page.evaluate("() => { inPage.runAll() }")  # not awaited: the time limit is ours
        done = "() => inPage.pending() === 0 || inPage.cellErrors().length"
        try:
            self.page.wait_for_function(done)
        except PlaywrightTimeout:
            pending = self.page.evaluate("inPage.pending()")
            raise AssertionError(f"{pending} cells not executed in {PATIENCE_MS} ms") from None
        errors = self.page.evaluate("inPage.cellErrors()")
        assert not errors, _traceback(errors[0])

    def execute(self, code: str) -> str:
        """Run code in the notebook's kernel, outside its cells; return what it printed."""
        result = self.page.evaluate("code => inPage.execute(code)", code)
        assert result["error"] is None, ANSI.sub("", result["error"])
        return result["text"]

    def kernel_errors(self) -> tuple[str, ...]:
        """Return tracebacks of every exception in the kernel since the notebook was opened."""
        return tuple(_traceback(error) for error in self.page.evaluate("inPage.kernelErrors()"))

    def control(self, description: str) -> Locator:
        """Return the widget with this description; visible, or the test waits for it."""
        label = f".widget-label:text-is({json.dumps(description)})"
        found = f".jp-OutputArea-output {WIDGET}:has(> {label}) >> visible=true"
        return self.page.locator(found)

    def options(self, description: str) -> tuple[str, ...]:
        """Return the options of a dropdown or of a row of toggles, as shown."""
        control = self.control(description)
        texts = control.locator("select option, button").all_text_contents()
        return tuple(text.replace(NO_BREAK_SPACE, " ") for text in texts)

    def selected(self, description: str) -> str:
        """Return the shown choice of a dropdown; empty when it shows none."""
        select = self.control(description).locator("select")
        shown = select.evaluate("select => select.selectedOptions[0]?.label ?? ''")
        return shown.replace(NO_BREAK_SPACE, " ")

    def choose(self, description: str, option: str) -> None:
        """Pick an option, by the text shown, in a dropdown, list, toggle row or combobox."""
        control = self.control(description)
        control.wait_for()
        if control.locator("select").count():
            offered = self.options(description)
            assert option in offered, f"{description} offers {offered}, not {option!r}"
            control.locator("select").select_option(index=offered.index(option))
        elif control.locator("button").count():
            control.get_by_role("button", name=option, exact=True).click()
        else:
            self.set_value(description, option)

    def set_value(self, description: str, value: object) -> None:
        """Type into a number or text box, and leave it with Enter."""
        box = self.control(description).locator("input:not([type=range])").first
        box.fill(str(value))
        box.press("Enter")

    def click(self, button: str) -> None:
        """Press the widget button with this text."""
        self.page.locator(".jp-OutputArea-output").get_by_role(
            "button", name=button, exact=True
        ).click()

    def element(self, css: str) -> Locator:
        """Return a part of a widget or an output; for `playwright.sync_api.expect`."""
        return self.page.locator(f".jp-OutputArea-output {css}")

    def text(self, css: str) -> str:
        """Return the text of one shown element, as it reads on screen."""
        self.scroll_to(css)  # JupyterLab does not render cells out of sight: they have no text
        expect(self.element(css)).to_have_text(re.compile(r"\S"), use_inner_text=True)
        return self.element(css).inner_text()

    def figure(self, within: str = "body") -> dict[str, Any]:
        """Return `data` and `layout` of the first plotly figure in an element, arrays as lists."""
        drawn = self.page.wait_for_function("css => inPage.figure(css)", arg=within)
        return drawn.json_value()

    def wait_for_new_figure(self, before: dict[str, Any], within: str = "body") -> dict[str, Any]:
        """Return the figure as soon as its data differ from those of `before`."""
        differs = "([css, old]) => JSON.stringify(inPage.figure(css)?.data) !== old"
        old = self.page.evaluate("data => JSON.stringify(data)", before["data"])
        self.page.wait_for_function(differs, arg=[within, old])
        return self.figure(within)

    def set_theme(self, theme: Theme) -> None:
        """Change JupyterLab's theme, until its colours are there and its splash is gone."""
        self.page.evaluate("theme => inPage.setTheme(theme)", theme)
        self.page.wait_for_function("theme => inPage.hasTheme(theme)", arg=theme)

    def set_viewport(self, width: int, height: int) -> None:
        """Set the browser window's size in CSS pixels; wait until JupyterLab has followed it."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.wait_for_function("width => window.inPage?.fills(width) ?? true", arg=width)

    def scroll_to(self, css: str) -> None:
        """Bring one shown element to the top of the window."""
        _to_the_top(self.element(css))

    def open_panel(self, notebook: str, width: int = 1280, height: int = 1100) -> None:
        """Open a notebook in a window of this size, run it, and bring its main panel to the top."""
        self.set_viewport(width, height)
        self.open(notebook)
        self.run_all()
        self.hide_sidebar()
        self.scroll_to(".wb-panel")

    def open_lab(self, title: str) -> None:
        """Open a lab below the front door, unless it is open, and bring it to the top."""
        link = self.element(f'.wb-lab-links [data-do="lab"][data-arg="{title}"]')
        link.wait_for()
        if link.get_attribute("aria-expanded") == "false":
            link.click()
        expect(link).to_have_attribute("aria-expanded", "true")
        _to_the_top(link)

    def close_lab(self, title: str) -> None:
        """Close the open lab."""
        self.element(f'.wb-lab-links [data-do="lab"][data-arg="{title}"]').click()
        expect(self.element('.wb-lab-links [data-do="lab"][aria-expanded="true"]')).to_have_count(0)

    def set_field(self, field: str, value: object) -> None:
        """Set a field of the scenario with its control under "+"."""
        opened = self.element('[data-chip="all"] > button')
        if opened.get_attribute("aria-expanded") == "false":
            opened.click()
        control = self.element(f'[data-key="all-{field}"]')
        control.focus()
        if control.evaluate("one => one.tagName") == "SELECT":
            control.select_option(value=json.dumps(value))
        else:
            control.fill("" if value is None else str(value))
            control.press("Tab")
        self.press("Escape")
        expect(opened).to_have_attribute("aria-expanded", "false")

    def submit(self, text: str) -> None:
        """Paste a text into the omnibox, and show it."""
        box = self.element('[data-key="omnibox"]')
        box.fill(text)
        self.element('[data-key="submit"]').click()

    def hide_sidebar(self) -> None:
        """Give the notebook the whole width of the window."""
        self.page.evaluate("window.jupyterapp.shell.collapseLeft()")

    def contrast(self, css: str) -> float:
        """Return the WCAG contrast of an element's text against its background, from 1 to 21."""
        return self.element(css).evaluate("inPage.contrast")

    def screenshot(self, name: str, css: str | None = None) -> Path:
        """Save a PNG of the window, or of one shown element as a whole; return its path."""
        self.screenshots.mkdir(parents=True, exist_ok=True)
        path = self.screenshots / f"{name}.png"
        if css is None:
            self.page.screenshot(path=path, animations="disabled")
            return path
        # JupyterLab scrolls inside the window: what does not fit into it cannot be seen.
        window = self.page.viewport_size
        box = self.element(css).bounding_box()
        assert window is not None
        assert box is not None, f"{css} is not visible"
        self.set_viewport(window["width"], max(window["height"], int(box["height"]) + FRAME_PIXELS))
        self.scroll_to(css)
        self.element(css).screenshot(path=path, animations="disabled")
        self.set_viewport(**window)
        return path

    def press(self, key: str) -> None:
        """Press a key of the keyboard, sent to whatever has the focus."""
        self.page.keyboard.press(key)

    def focused_description(self) -> str:
        """Return the description of the control that has the keyboard, or an empty text."""
        return self.page.evaluate(
            "document.activeElement.closest('.jupyter-widgets')"
            "?.querySelector(':scope > .widget-label')?.textContent ?? ''"
        )

    def close(self) -> None:
        """Stop this notebook's kernel and close the tab."""
        self.page.evaluate("window.inPage?.stopKernel?.()")
        self.page.close()

    def _complain(self, text: str) -> None:
        if not text.startswith((LATE_SCRIPT, CANCELED)):
            self.console_errors.append(text)

    def _check_address(self, url: str) -> None:
        address = urlsplit(url)
        if address.hostname != "127.0.0.1" and address.scheme not in INSIDE_SCHEMES:
            self.outside_requests.append(url)


def _to_the_top(shown: Locator) -> None:
    shown.evaluate("element => element.scrollIntoView({block: 'start'})")


def _traceback(error: dict[str, Any]) -> str:
    return ANSI.sub("", "\n".join(error["traceback"]))
