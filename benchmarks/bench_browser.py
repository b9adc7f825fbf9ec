"""Measure what a person waits for in JupyterLab and Chromium: pictures, labs, and a change.

Compared with the shortest message to the kernel and back, measured in turn on the same page.

    python benchmarks/bench_browser.py [--json FILE] [--quick]
"""

import itertools
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from measuring import duration, run, within

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from playwright.sync_api import sync_playwright  # noqa: E402

from tests.browser.conftest import OFFLINE, browser_path  # noqa: E402
from tests.browser.lab import LabPage  # noqa: E402
from tests.browser.server import LabServer  # noqa: E402

BUDGET_P50_S, BUDGET_P95_S, BUDGET_KERNEL_S = 0.06, 0.1, 0.05
BUDGET_FIRST_S = 3.0
BUDGET_LAB_S, LAB_WITHOUT_S = 1.0, 2.9
CHANGES, OPENINGS = 120, 5
PAUSE_MS = 100
"""Between changes, as a person makes them: the end of the one before does not count."""
CELLS = (
    """import os, time, anywidget, workbench as wb
class Echo(anywidget.AnyWidget):
    _esm = '''export default { render({ model }) {
      window.echo = () => new Promise((done) => {
        const heard = () => { model.off("msg:custom", heard); done(); };
        model.on("msg:custom", heard);
        model.send({});
      });
    } };'''
echo = Echo()
echo.on_msg(lambda *_: echo.send({}))
echo""",
    "panel = wb.explore(model='qwen3-next-80b-a3b', device='H100', tensor_parallel=4)\npanel",
)
# The kernel's processor time, of all its threads and of every message.
BUSY = "print(time.process_time())"
IN_PAGE = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
"""What a page needs to be measured."""
FIRST_PICTURE = """async () => {
  inPage.runAll();
  while (!document.querySelector(".jp-OutputArea-output .wb-page")) await painted();
}"""

# A picture, a table or a text; some labs have none until something is launched.
LAB_PICTURE = """async (title) => {
  const known = new Set(document.querySelectorAll(".wb-labs .wb-tab"));
  const drawn = (one) => !known.has(one) && one.querySelector(".main-svg, svg, table, pre");
  const last = performance.now() + 3000;
  document.querySelector(`[aria-expanded][data-do="lab"][data-arg="${title}"]`).click();
  while (![...document.querySelectorAll(".wb-labs .wb-tab")].some(drawn))
    if (performance.now() > last) return;
    else await painted();
}"""


@dataclass(frozen=True)
class Figure:
    """One row of the table: a time, what it is compared with, and its budget."""

    what: str
    seconds: float
    budget_seconds: float | None = None
    echo_seconds: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Return the time in units of a message to the kernel and back."""
        return self.seconds / self.echo_seconds if self.echo_seconds else None


CELLS_OF = {
    "": lambda row: row.what,
    "measured": lambda row: duration(row.seconds),
    "of a message": lambda row: f"{row.ratio:.1f}x" if row.ratio else "",
    "budget": lambda row: within(row.seconds, row.budget_seconds),
    "note": lambda row: row.note,
}


def in_the_browser(scale: float) -> Iterator[Figure]:
    """Open the first notebook, then change a scenario in every view of the front door."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = LabServer(Path(folder), ROOT / "notebooks")
        browser = playwright.chromium.launch(executable_path=browser_path(), args=OFFLINE)
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        try:
            yield from first_pictures(context, server, max(1, int(OPENINGS * scale)))
            page = opened(context, server, server.write_notebook("bench.ipynb", CELLS))
            page.run_all()
            page.page.wait_for_function("window.echo && document.querySelector('.wb-page')")
            yield from changes(page, max(40, int(CHANGES * scale)))
            yield from labs(page)
        finally:
            browser.close()
            server.close()


def opened(context: Any, server: LabServer, notebook: str) -> LabPage:
    """Open a notebook in a tab of its own, its kernel ready and nothing executed."""
    page = LabPage(context.new_page(), server, server.root)
    page.open(notebook)
    page.hide_sidebar()
    page.page.evaluate(IN_PAGE)
    return page


def first_pictures(context: Any, server: LabServer, count: int) -> Iterator[Figure]:
    """Time *Run All* to the painted picture; the first opening has no cache of the browser."""
    times = []
    for _ in range(count):
        page = opened(context, server, "00_start.ipynb")
        times.append(page.page.evaluate(f"() => timed({FIRST_PICTURE}, 0)"))
        page.close()
    note = f"{count} openings; longest {duration(max(times))}"
    yield Figure("first picture after Run All, p50", median(times), BUDGET_FIRST_S, note=note)


def changes(page: LabPage, count: int) -> Iterator[Figure]:
    """Time changes in every view, in turn with the shortest message."""
    views = [one.get_attribute("data-arg") for one in page.element("[role=tab]").all()]
    texts = itertools.cycle(different_texts())
    every: dict[str, list[float]] = {}
    echoes: list[float] = []
    busy: list[float] = []
    for view in views:
        page.element(f'[data-key="view-{view}"]').click()
        page.element(f'[data-key="view-{view}"][aria-selected=true]').wait_for()
        change(page, next(texts))
        before = float(page.execute(BUSY))
        every[view] = []
        for _ in range(max(8, count // len(views))):
            every[view].append(change(page, next(texts)))
        busy.append((float(page.execute(BUSY)) - before) / len(every[view]))
        echoes += [page.page.evaluate("pause => timed(echo, pause)", PAUSE_MS) for _ in range(8)]
    yield from rows(every, median(echoes))
    note = "processor time of all threads; every message of the page is in it"
    yield Figure("kernel per change, slowest view", max(busy), BUDGET_KERNEL_S, note=note)


def labs(page: LabPage) -> Iterator[Figure]:
    """Open every lab once; the first one brings plotly."""
    links = page.element(".wb-door [aria-expanded][data-do=lab]").all()
    titles = [one.get_attribute("data-arg") for one in links]
    given = f"([title, pause]) => timed(() => ({LAB_PICTURE})(title), pause)"
    times = {title: page.page.evaluate(given, [title, 5 * PAUSE_MS]) for title in titles}
    without = [title for title in titles if times[title] > LAB_WITHOUT_S]
    first, *others = [title for title in titles if title not in without]
    slowest = max(others, key=lambda title: times[title])
    yield Figure("first lab to its picture", times[first], note=f"{first}, with plotly")
    middle = duration(median(times[title] for title in others))
    note = f"{slowest}; median of {len(others)}: {middle}; none in {', '.join(without) or 'no lab'}"
    yield Figure("another lab to its picture, slowest", times[slowest], BUDGET_LAB_S, note=note)


def change(page: LabPage, text: str) -> float:
    """Return the seconds from *Show* to the painted picture of another plan."""
    given = "([text, pause]) => timed(() => changed(text), pause)"
    return page.page.evaluate(given, [text, PAUSE_MS])


def rows(every: Mapping[str, Sequence[float]], echo: float) -> Iterator[Figure]:
    """Yield p50 and p95 of all views, and the median of each."""
    together = quantiles([one for times in every.values() for one in times], n=20)
    note = f"{sum(map(len, every.values()))} changes; painted"
    yield Figure("change to painted picture, p50", together[9], BUDGET_P50_S, echo, note)
    yield Figure("change to painted picture, p95", together[18], BUDGET_P95_S, echo, note)
    for view, times in every.items():
        yield Figure(f"  in the view {view}, p50", median(times), BUDGET_P50_S, echo)
    yield Figure("shortest message to the kernel and back", echo, note="painted")


def different_texts() -> Iterator[str]:
    """Yield entries of the omnibox, each of which changes the plan of the one before."""
    for dtype, model in itertools.product(("auto", "fp8"), ("qwen3.5-4b", "bamba-9b")):
        for size in (1, 2, 4, 8):
            yield f"{model}, tp {size}, kv {dtype}, H100"


if __name__ == "__main__":
    run(__doc__.splitlines()[0], (in_the_browser,), CELLS_OF, quick=0.34, derived=["ratio"])
