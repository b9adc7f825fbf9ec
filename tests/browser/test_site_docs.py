"""The documentation: pages open, the search finds, links lead somewhere, and no host is used."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag, urljoin

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

import workbench
from tests.browser.axe import axe_script
from tests.browser.lab import expect
from tests.browser.site import WITH_NPM, made, served_folder, watched
from tests.built_wheel import ROOT, run

pytestmark = [pytest.mark.browser, pytest.mark.thorough, WITH_NPM]
SERIOUS = """async () => {
  const found = await axe.run("body", { resultTypes: ["violations"] });
  return found.violations.filter((rule) => ["serious", "critical"].includes(rule.impact))
    .flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.html}`));
}"""
ADDRESS = "http://site/"
LESSON = "docs/notebooks/lessons/01_order_of_initialisation.html"


class Addresses(HTMLParser):
    """What a page has and what it names: ids, links, and what a browser loads with it."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids |= {given.get("id"), given.get("name")}
        (self.links if tag == "a" else self.loaded).extend(
            given[key] for key in ("href", "src") if given.get(key)
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made(tmp_path_factory)


@pytest.fixture
def page(browser_context, site):
    with watched(browser_context, site) as page:
        yield page


def test_every_address_of_every_page_is_in_the_site(folder):
    pages = {
        urljoin(ADDRESS, str(path.relative_to(folder))): Addresses(path.read_text("utf-8"))
        for path in [folder / "index.html", *(folder / "docs").rglob("*.html")]
    }
    assert len(pages) > 30
    broken = []
    for start, page in pages.items():
        for link in page.links + page.loaded:
            target, anchor = urldefrag(urljoin(start, link))
            outside = not target.startswith(ADDRESS)
            if (outside and link in page.links) or target.startswith("data:"):
                continue
            path = unquote(target.removeprefix(ADDRESS).partition("?")[0])
            exists = (folder / path).exists()
            if outside or not exists or (anchor and anchor not in pages[target].ids):
                broken.append((start, link))
    assert broken == []


def test_the_front_door_and_the_documentation_lead_to_each_other(page, site):
    page.goto(site)
    page.get_by_role("link", name="Documentation").click()
    expect(page.locator("header")).to_contain_text(workbench.__version__)
    page.goto(site + LESSON)
    page.get_by_role("link", name="Open the front door").click()
    expect(page).to_have_title("Hybrid KV Workbench")


def test_the_search_finds_a_term(page, site):
    page.goto(site + "docs/index.html")
    # The search listens to keys, and to the focus, which reads the text too early for `fill`.
    page.get_by_role("textbox", name="Search").press_sequentially("kernel block")
    found = page.locator(".md-search-result__link", has_text="Blocks and pages").first
    expect(found).to_be_visible()
    found.click()
    expect(page.locator("h1")).to_contain_text("Glossary")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("width", "scheme", "pages"),
    [
        (1280, "light", LESSON),
        (400, "dark", "docs/**/*.html"),
    ],
)
def test_everybody_can_read_it_at_every_size(page, site, folder, width, scheme, pages):
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    found = {}
    for path in folder.glob(pages):
        page.goto(site + str(path.relative_to(folder)))
        page.evaluate(axe_script())
        wrong = page.evaluate(SERIOUS)
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wrong.append("wider than the window")
        if wrong:
            found[path.name] = wrong
    assert found == {}


def test_each_release_has_its_documentation_and_a_menu_leads_there(browser_context, tmp_path):
    checkout, site = tmp_path / "checkout", tmp_path / "site"
    run(["git", "clone", "--quiet", ROOT, checkout], cwd=tmp_path)
    for tag in ("v0.0.9", "v0.0.10", "not-a-release"):
        run(["git", "tag", tag], cwd=checkout)
    script = f"import site_docs; from pathlib import Path; f = Path({str(site)!r}); "
    script += "site_docs.RELEASES = 1; site_docs.add_docs(f / 'docs'); site_docs.add_releases(f)"
    run([sys.executable, "-c", script], cwd=checkout / "tools")
    assert sorted(path.name for path in site.iterdir()) == ["docs", "docs-v0.0.10", "versions.json"]
    with served_folder(site) as address, watched(browser_context, address) as page:
        page.goto(address + "docs/glossary.html")
        expect(page.locator(".md-version__current")).to_contain_text("(main)")
        page.locator(".md-version").hover()
        page.get_by_role("link", name="0.0.10").click()
        expect(page.locator(".md-version__current")).to_have_text("0.0.10")
        page.wait_for_url(f"{address}docs-v0.0.10/**")


def test_notebooks_in_jupyterlite_link_to_notebooks_that_are_there(folder):
    files = folder / "lite" / "files"
    notebooks = list(files.rglob("*.ipynb"))
    links = [
        (path, to)
        for path in notebooks
        for cell in json.loads(path.read_text("utf-8"))["cells"]
        if cell["cell_type"] == "markdown"
        for to in re.findall(r"\]\((?!http)([^)]*)\)", "".join(cell["source"]))
    ]
    assert links
    assert [one for one in links if not (one[0].parent / one[1]).is_file()] == []
