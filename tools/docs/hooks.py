"""What mkdocs does not know of the repository: addresses of the pages and their order."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

SECTIONS = {
    "Start": ("README.md",),
    "Notebooks": ("notebooks/index.md", "notebooks/[0-9]*.md"),
    "Lessons": ("notebooks/lessons/*.md",),
    "Reference": ("docs/glossary.md", "docs/coverage.md", "docs/api.md", "CHANGELOG.md"),
    "Guides": (
        *("docs/how_to_add.md", "docs/notebook_ci.md", "AGENTS.md", "benchmarks/README.md"),
        *("CONTRIBUTING.md", "SECURITY.md"),
    ),
}
"""Heading of the site -> pages, as patterns of their paths. A page without an entry is an error."""
FOLDER = "docs/"
"""Its pages are at the top of the site."""
DIALOG = 'role="dialog"'


def on_config(config: "MkDocsConfig") -> "MkDocsConfig":
    """List the pages of each section."""
    pages = Path(config.docs_dir)
    config.nav = [
        {heading: [path for pattern in patterns for path in matching(pages, pattern)]}
        for heading, patterns in SECTIONS.items()
    ]
    return config


def matching(pages: Path, pattern: str) -> list[str]:
    """Return the paths of pages that match, in order."""
    return sorted(path.relative_to(pages).as_posix() for path in pages.glob(pattern))


def on_files(files: "Files", **_more: Any) -> "Files":
    """Give what is in docs/ an address without that folder; links follow."""
    for file in files:
        if file.src_uri.startswith(FOLDER):
            file.dest_uri = file.dest_uri.removeprefix(FOLDER)
    return files


def on_post_page(output: str, **_more: Any) -> str:
    """Name the dialog of the search, which the theme does not."""
    return output.replace(DIALOG, f'{DIALOG} aria-label="Search"')


def on_post_template(output: str, *, template_name: str, **_more: Any) -> str:
    """Omit the page for wrong addresses: no server of a folder shows it where it works."""
    return "" if template_name == "404.html" else output
