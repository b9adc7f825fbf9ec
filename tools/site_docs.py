"""Make the documentation: a folder of pages with a search, which uses no other host.

    python tools/site_docs.py FOLDER               # as part of the site: make site
    python tools/site_docs.py FOLDER --notebooks   # runs the notebooks first

The pages are the Markdown of this repository and its notebooks; mkdocs makes them, as
tools/docs/mkdocs.yml says. Notebooks that were not run with these sources are without outputs.
In the site, each of the newest releases has its own documentation, made by its own tools.
"""

import argparse
import json
import re
import shutil
import sys
import tarfile
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # this checkout, whatever is installed

import site_notebooks
import site_tools

import workbench
from workbench.core.architectures import MODEL_REGISTRIES
from workbench.models.coverage import STATUSES, coverage

ROOT = site_tools.ROOT
CONFIG = Path(__file__).parent / "docs" / "mkdocs.yml"
TEXTS = (
    *(
        ROOT / f"{name}.md"
        for name in ("README", "CHANGELOG", "AGENTS", "CONTRIBUTING", "SECURITY")
    ),
    *((ROOT / "docs").glob("*.md")),
    ROOT / "benchmarks" / "README.md",
)
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")
"""A link to a file of the repository."""
SIGNATURE = re.compile(r"(?m)^(#{2,3}) (`((?:wb\.)?[\w.]+)\(.*`)$")
"""A heading of docs/api.md with a signature, too long for the lists of the page and the search."""
FIRST = "---\nsearch:\n  boost: 12\n---\n\n"
"""Before a page that the search shows first: one that says what a word means."""
PUBLISHED = re.compile(r"\[([^\]]+)\]\(\.\./\.\./deployments/github-pages\)")
"""The README's link to the front door, as GitHub knows where it is published."""
OVERVIEW = "notebooks/index.md"
RELEASE = re.compile(r"(?m)^v\d+\.\d+\.\d+$")
"""A tag that `make release` made."""
RELEASES = 3
"""How many have their documentation in the site."""


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--notebooks", action="store_true", help="run the notebooks first")
    options = parser.parse_args()
    add_docs(options.folder, run_notebooks=options.notebooks)
    return 0


def add_docs(folder: Path, run_notebooks: bool = False) -> None:
    """Write the documentation into a folder. Errors: SystemExit, for a broken link as well."""
    if run_notebooks:
        site_notebooks.run_all()
    with tempfile.TemporaryDirectory() as work:
        pages = Path(work)
        write_pages(pages)
        heading = f"Hybrid KV Workbench {workbench.__version__}"
        site_tools.run_module(
            *("mkdocs", "build", "-f", CONFIG, "-d", folder.absolute()),
            settings={"SITE_PAGES": work, "SITE_HEADING": heading, "NO_MKDOCS_2_WARNING": "1"},
        )


def add_releases(site: Path, run_notebooks: bool = False) -> None:
    """Write the newest releases' documentation next to this one, and the list for its menu."""
    git: list[str | Path] = ["git", "-C", ROOT]
    versions = [("docs", f"{workbench.__version__} (main)")]
    # an unpacked archive of the sources has no history
    known = site_tools.run([*git, "tag", "--sort=-v:refname"]) if (ROOT / ".git").exists() else ""
    for tag in RELEASE.findall(known)[:RELEASES]:
        folder = f"docs-{tag}"
        with tempfile.TemporaryDirectory() as work:
            archive = Path(work) / "sources.tar"
            site_tools.run([*git, "archive", "--output", archive, tag])
            with tarfile.open(archive) as packed:
                packed.extractall(work, filter="data")
            script = Path(work) / "tools" / "site_docs.py"
            options = ["--notebooks"] if run_notebooks else []
            site_tools.run([sys.executable, script, site.absolute() / folder, *options])
        versions.append((folder, tag.removeprefix("v")))
    # as mkdocs-material reads it: the folder, and what the menu shows
    menu = [{"version": folder, "title": title, "aliases": []} for folder, title in versions]
    (site / "versions.json").write_text(json.dumps(menu), encoding="utf-8")


def write_pages(pages: Path) -> None:
    """Write what mkdocs reads, at the paths of the repository, so that links are what they are."""
    texts = {path: path.read_text(encoding="utf-8") for path in TEXTS}
    docs = ROOT / "docs"
    texts[docs / "api.md"] = SIGNATURE.sub(r"\1 `\3` { #\3 }\n\n\2", texts[docs / "api.md"])
    texts[docs / "glossary.md"] = FIRST + texts[docs / "glossary.md"]
    texts[docs / "coverage.md"] = coverage_page()
    readme = ROOT / "README.md"
    texts[readme] = PUBLISHED.sub(r'<a href="../index.html">\1</a>', texts[readme])
    for path in site_notebooks.NOTEBOOKS:
        texts[path.with_suffix(".md")] = site_notebooks.as_markdown(path)
        add(path, pages)
    for path, text in texts.items():
        page = pages / path.relative_to(ROOT)
        page.parent.mkdir(parents=True, exist_ok=True)
        follow = partial(followed, path=path, pages=pages)
        page.write_text(LINK.sub(follow, text), encoding="utf-8")
    shutil.copy(CONFIG.with_name("docs.css"), pages)


def followed(found: re.Match[str], path: Path, pages: Path) -> str:
    """Return a link of the repository as one of the pages, and add the file that it opens."""
    link = found[1]
    target = (path.parent / link).resolve()
    if target.suffix == ".ipynb" and target.stem != path.stem:
        return link.removesuffix(".ipynb") + ".md"
    if target.is_dir():
        return "../" * len(path.relative_to(ROOT).parts[1:]) + OVERVIEW
    if target.is_file() and target.suffix != ".md":
        add(target, pages)
    return link


def add(file: Path, pages: Path) -> None:
    """Copy a file of the repository."""
    target = pages / file.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, target)


def coverage_page() -> str:
    """Return the architectures of every release as Markdown."""
    releases = [coverage(rules) for rules in MODEL_REGISTRIES]
    rows = [{row.architecture: row for row in release.rows} for release in releases]
    newest = {name: row for release in rows for name, row in release.items()}
    counts = [
        [one.rules, *(str(one.count(status)) for status in STATUSES), one.origin]
        for one in releases
    ]
    found = [
        [name, *(release[name].status if name in release else "" for release in rows), row.how]
        for name, row in sorted(newest.items())
    ]
    return f"""\
# Architectures that are read

What `workbench coverage` lists. *Exact*: compared with the model that vLLM builds; *read*: there
is a reader, and nothing was compared; *refused*: with the reason.

{table(["vLLM", *STATUSES, "compared with"], counts)}

## Every architecture

How one was checked is that of the newest release that has it.

{table(["architecture", *(one.rules for one in releases), "how"], found)}
"""


def table(heading: list[str], rows: list[list[str]]) -> str:
    """Return a table as Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (heading, ["---"] * len(heading), *rows))


if __name__ == "__main__":
    sys.exit(main())
