"""An executed notebook as one HTML page that needs neither a script nor a network."""

from pathlib import Path
from typing import Final

from workbench.notebooks.document import Notebook, notebook_text, source_of

HIDDEN_CELL: Final = "remove-cell"
"""Tag of a cell that readers do not see: checks, and results for CI."""
HIDDEN_INPUT: Final = "hide-input"
"""Tag of a cell of which readers see the output alone."""
SHOWN: Final = ("text/html", "image/svg+xml", "image/png", "image/jpeg", "text/markdown")
"""Types of an output, the first that it has is shown; text where it has none."""


def notebook_page(notebook: Notebook) -> str:
    """Return the page: cells without the hidden ones, their outputs, pictures with their words.

    A policy in the page keeps a browser from running scripts and from loading anything.
    """
    import nbformat
    from jinja2 import Environment, FileSystemLoader
    from nbconvert import HTMLExporter
    from traitlets.config import Config

    settings = Config()
    settings.HTMLExporter.template_name = "basic"
    settings.NbConvertBase.display_data_priority = [*SHOWN, "text/plain"]
    settings.TagRemovePreprocessor.remove_cell_tags = {HIDDEN_CELL}
    settings.TagRemovePreprocessor.remove_input_tags = {HIDDEN_INPUT}
    settings.TagRemovePreprocessor.enabled = True
    # Its metadata says nothing to a reader, and may lack what nbconvert wants.
    read = nbformat.reads(notebook_text({**notebook, "metadata": {}}), as_version=4)
    body, _resources = HTMLExporter(config=settings).from_notebook_node(read)
    loader = FileSystemLoader(Path(__file__).with_name("templates"))
    page = Environment(loader=loader).get_template("page.html.j2")  # noqa: S701 - it holds HTML
    return page.render(title=_heading(notebook), body=body, pygments=_code_style())


def _heading(notebook: Notebook) -> str:
    """Return the first heading of a notebook, as text of an element."""
    from html import escape

    lines = (line for cell in notebook["cells"] for line in source_of(cell).splitlines())
    return escape(next((line.lstrip("# ") for line in lines if line.startswith("#")), "Notebook"))


def _code_style() -> str:
    """Return the colours of code, for light and for dark."""
    from pygments.formatters import HtmlFormatter

    light, dark = (
        HtmlFormatter(style=name, nobackground=True).get_style_defs(".highlight")
        for name in ("default", "github-dark")
    )
    return f"{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}"
