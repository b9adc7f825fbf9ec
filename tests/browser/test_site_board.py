"""The leader board: its numbers are those of the plans, and each row opens its scenario."""

from __future__ import annotations

import json
from urllib.parse import unquote

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

import workbench as wb
from tests.browser.axe import VIOLATIONS, axe_script
from tests.browser.lab import expect
from tests.browser.site import MODELS, WITH_NPM, watched
from workbench.core.capacity.occupancy import waste
from workbench.core.errors import WorkbenchError

pytestmark = [pytest.mark.browser, pytest.mark.thorough, WITH_NPM]
ROWS = """() => [...document.querySelectorAll("#board tbody tr")].map((row) =>
  [row.querySelector("a").hash, ...[...row.cells].map((cell) => cell.textContent)])"""


@pytest.fixture(scope="module")
def page(browser_context, site):
    with watched(browser_context, site) as page:
        page.goto(site + "board.html")
        page.locator("#board tbody tr").first.wait_for()
        yield page


def choose(page, name, value):
    page.get_by_label(name, exact=True).select_option(value)


def rows(page):
    """Return the scenario and the cells of every row that is shown."""
    found = page.evaluate(ROWS)
    return [(json.loads(unquote(link.partition("=")[2])), cells) for link, *cells in found]


def numbers(fields):
    """Return the cells of numbers as a plan has them."""
    try:
        plan = wb.resolve(**fields)
    except WorkbenchError as error:
        return [f"refused: {error.code}", *"----"]
    if plan.errors:
        return [f"no: {plan.errors[0].code}", *"----"]
    idle = waste(plan, plan.cache, 1).reserved_bytes
    prefix = plan.hits().smallest_prefix()
    concurrency = plan.cache.max_concurrency / fields["tensor_parallel"]
    return ["yes", f"{concurrency:,.2f}", f"{prefix:,}", f"{idle:,} B", f"{plan.block_size:,}"]


def test_every_row_has_the_numbers_of_its_plan(page):
    choose(page, "starts", "")
    seen = 0
    for rules in ("0.23", "0.33"):
        choose(page, "rules", rules)
        choose(page, "TP", "4")
        for fields, cells in rows(page):
            starts, per_gpu, prefix, idle, _waste, block = cells[6:]
            own = [starts, per_gpu, prefix, idle.partition(" (")[0], block]
            assert own == numbers(fields), fields
            assert (fields["rules"], fields["tensor_parallel"]) == (rules, 4)
            seen += 1
    assert seen == len(MODELS) * 4 * 2 * 2 * 2


def test_it_is_sorted_and_filtered_and_its_address_keeps_both(page, site):
    page.goto(site + "board.html#starts=yes&device=H100")
    page.reload()
    for clicks, direction in ((1, "ascending"), (2, "descending")):
        page.get_by_role("button", name="smallest cacheable prefix").click()
        heading = page.locator("th[aria-sort]")
        expect(heading).to_have_attribute("aria-sort", direction)
        prefixes = [int(cells[8].replace(",", "")) for _fields, cells in rows(page)]
        assert prefixes == sorted(prefixes, reverse=clicks == 2)
    assert {fields["device"] for fields, _cells in rows(page)} == {"H100"}
    before = rows(page)
    page.reload()
    page.locator("#board tbody tr").first.wait_for()
    assert rows(page) == before


def test_everybody_can_use_it(page):
    page.evaluate(axe_script())
    for width in (400, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(VIOLATIONS, "body") == []


def test_it_links_to_the_architectures_that_are_read(page):
    page.get_by_role("link", name="Which architectures are exact, read or refused").click()
    expect(page.locator("h1")).to_contain_text("Architectures that are read")
