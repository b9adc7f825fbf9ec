"""Every notebook as it is: its results, and what a reader sees without scripts or a network."""

import json
import re
from html.parser import HTMLParser

import pytest

from tests.notebooks.lessons import LESSONS, NOTEBOOKS, checked_names
from tests.notebooks.sessions import SESSION
from workbench.exercises import EXERCISES
from workbench.notebooks import run_notebook
from workbench.notebooks.page import HIDDEN_CELL, HIDDEN_INPUT, notebook_page

PLOTLY = "application/vnd.plotly.v1+json"
RECORD = re.compile(r"\b[A-Z]\w+\((?:\w+=|\d)|<[\w.]+ object at|^\{'|^\[\(", re.MULTILINE)
"""How Python writes a record, a container, or an object without words of its own."""


RESULTS = {
    **{path.stem: {"checks": [None] * len(checked_names(path))} for path in LESSONS},
    "index": {
        "before": ["pages_not_equal"],
        "after_block_size": 576,
        "exercises": len(EXERCISES),
    },
    "07_tuning_session": {**SESSION, "front": 6, "servers": 6, "block_size": 1088, "kept": 52},
}
"""Notebook -> results that it has as it is, lessons with open exercises."""


class Images(HTMLParser):
    """The pictures of a page with their words, and everything that would leave the page."""

    def __init__(self, page):
        super().__init__()
        self.words, self.outside, self.tags = [], [], set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.add(tag)
        if tag == "img":
            self.words.append(given.get("alt") or "")
        source = given.get("src", "") if tag != "a" else ""
        self.outside += [source] if source and not source.startswith("data:image/") else []


def outputs_of(notebook, *, hidden=False):
    """Yield the outputs of the cells that readers see, or of the hidden ones."""
    for cell in notebook["cells"]:
        if (HIDDEN_CELL in cell["metadata"].get("tags", ())) == hidden:
            yield from cell.get("outputs", ())


def shown_text(output):
    """Return the text of an output that has nothing better."""
    data = output.get("data", {})
    text = output.get("text") or ("" if set(data) - {"text/plain"} else data.get("text/plain", ""))
    return "".join(text)


@pytest.mark.sampled(1)
@pytest.mark.notebook
@pytest.mark.parametrize("path", sorted(NOTEBOOKS.rglob("[0-9i]*.ipynb")), ids=lambda p: p.stem)
def test_every_figure_is_on_the_page_with_its_words_and_no_record_is(path, tmp_path):
    expected = RESULTS.get(path.stem, {})
    result = run_notebook(path, {"smoke": True}, output_dir=tmp_path, expect=expected)
    assert result.problems == ()
    executed = json.loads(result.output_path.read_text(encoding="utf-8"))
    figures = [o for o in outputs_of(executed) if PLOTLY in o.get("data", {})]
    page = (tmp_path / f"{path.stem}.html").read_text(encoding="utf-8")
    images = Images(page)
    others = [o.get("data", {}) for o in outputs_of(executed) if o not in figures]
    drawn = sum("".join(data.get("text/html", "")).count("<img ") for data in others)
    assert len(images.words) == len(figures) + drawn
    assert all(len(words) > 40 for words in images.words)
    assert all("image/svg+xml" in figure["data"] for figure in figures)
    assert images.outside == []
    assert not images.tags & {"script", "link", "iframe", "object"}
    assert "write_results" not in page
    assert [*outputs_of(executed, hidden=True)] == []  # JupyterLab would show them
    assert [text for o in outputs_of(executed) if RECORD.search(text := shown_text(o))] == []


def notebook(*cells):
    return {"cells": [*cells], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def cell(source, tags=(), **data):
    shown = {"output_type": "display_data", "metadata": {}, "data": data}
    return {
        "cell_type": "code",
        "execution_count": 1,
        "id": f"c{abs(hash(source)) % 10**6}",
        "metadata": {"tags": [*tags]},
        "outputs": [shown] if data else [],
        "source": source,
    }


def test_hidden_cells_are_not_on_the_page_and_hidden_input_leaves_the_output():
    page = notebook_page(
        notebook(
            cell("seen = 1"),
            cell("secret = 2", ["remove-cell"], **{"text/plain": "also secret"}),
            cell("folded = 3", ["hide-input"], **{"text/plain": "the output"}),
        )
    )
    assert "seen" in page
    assert "secret" not in page
    assert "folded" not in page
    assert "the output" in page


def test_a_script_in_an_output_can_neither_run_nor_load():
    page = notebook_page(notebook(cell("x", **{"text/html": "<script src=https://a></script>"})))
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert page.index("Content-Security-Policy") < page.index("<script")


def test_the_title_is_the_first_heading_and_is_escaped():
    first = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# Why <b>?"}
    assert "<title>Why &lt;b&gt;?</title>" in notebook_page(notebook(first))


def test_a_plain_nbconvert_in_the_folder_hides_the_same_cells():
    settings = json.loads((NOTEBOOKS / "jupyter_nbconvert_config.json").read_text("utf-8"))
    assert settings["TagRemovePreprocessor"] == {
        "enabled": True,
        "remove_cell_tags": [HIDDEN_CELL],
        "remove_input_tags": [HIDDEN_INPUT],
    }
