"""docs/notebook_ci.md to its end: its notebook, its matrix and its command, as they are printed."""

import re
import shlex
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.commands import run
from workbench.notebooks.worker import STARTS

PAGE = (Path(__file__).parents[2] / "docs" / "notebook_ci.md").read_text(encoding="utf-8")


def block(language):
    return re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[1]


@pytest.mark.notebook
@pytest.mark.thorough
def test_another_project_can_follow_the_page(tmp_path, monkeypatch):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (folder / "squares.ipynb").write_text(block("json"), encoding="utf-8")
    (folder / "matrix.toml").write_text(block("toml"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = run(*shlex.split(block("sh"))[1:])
    assert done.exit_code == 0, done.output
    assert "2 runs: 2 ok" in done.output
    suite = ET.parse(tmp_path / "out" / "junit.xml").getroot().find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("2", "0")
    index = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    page = (tmp_path / "out" / re.search(r'href="([^"]+--ten\.html)"', index)[1]).read_text()
    assert "285" in page
    assert "record_results" not in page


def test_the_number_of_starts_is_the_runner_s():
    assert f"{STARTS} starts in all" in PAGE
