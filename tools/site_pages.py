"""The pages of the site that are not documentation: one frame, and what is in each."""

from dataclasses import dataclass
from html import escape
from string import Template

from site_tools import ROOT

from workbench.core.architectures import MODEL_REGISTRIES
from workbench.door.labs import LESSON_PAGE

FOLDER = ROOT / "workbench" / "site"
NAME = "Hybrid KV Workbench"


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page: its words, and which of the folder's files it loads."""

    file: str
    """Its name in the site, and that of what is between header and footer."""
    link: str
    description: str
    style: str
    script: str
    imports: str = ""
    """What the script imports, requested with it."""
    has_python: bool = True
    """Whether Python computes in the page, which needs WebAssembly."""


PAGES = (
    Page(
        file="index.html",
        link="Front door",
        description="Which KV-cache block size vLLM chooses, why, whether prefixes hit, how many "
        "requests fit, and whether it starts.",
        style="front_door.css",
        script="page.js",
        imports="front_door.js",
    ),
    Page(
        file="log.html",
        link="Log doctor",
        description="Paste the start-up log of vLLM: the fatal error first, then every known line, "
        "its rule and what to change.",
        style="forms.css",
        script="log.js",
    ),
    Page(
        file="board.html",
        link="Leader board",
        description="Block sizes, smallest cacheable prompts, bytes of an idle request and "
        "concurrency of hybrid models in vLLM, per device.",
        style="forms.css",
        script="board.js",
        has_python=False,
    ),
)
OTHERS = {"docs/index.html": "Documentation", LESSON_PAGE: "First lesson"}
PROMISE = "Python computes everything in this page: what you enter never leaves your browser. "


def page(one: Page) -> str:
    """Return a page as HTML."""
    is_first = one is PAGES[0]
    links = {other.file: other.link for other in PAGES if other is not one} | OTHERS
    return Template((FOLDER / "frame.html").read_text(encoding="utf-8")).substitute(
        wasm=" 'wasm-unsafe-eval'" if one.has_python else "",
        title=NAME if is_first else f"{one.link} - {NAME}",
        description=escape(one.description),
        style=one.style,
        script=one.script,
        preload=f'<link rel="modulepreload" href="{one.imports}">\n' if one.imports else "",
        heading=NAME if is_first else one.link,
        links=" ".join(f'<a href="{to}">{escape(name)}</a>' for to, name in links.items()),
        body=(FOLDER / one.file).read_text(encoding="utf-8").strip(),
        promise=PROMISE if one.has_python else "",
        releases=" and ".join(MODEL_REGISTRIES),
    )
