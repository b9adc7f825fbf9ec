import copy
import json

import pytest

from tests.commands import run
from workbench.notebooks import check_notebook_source

LONG = "def f():\n" + "".join(f"    x{number} = {number}\n" for number in range(11))


@pytest.fixture
def good(fixture_path):
    return json.loads(fixture_path("good").read_text(encoding="utf-8"))


@pytest.fixture
def kinds(tmp_path):
    def check(notebook):
        path = tmp_path / "a.ipynb"
        path.write_text(json.dumps(notebook), encoding="utf-8")
        return [problem.kind for problem in check_notebook_source(path)]

    return check


def test_a_folder_that_a_run_has_left_is_not_checked(tmp_path):
    left = tmp_path / "out" / ".run-abc"
    left.mkdir(parents=True)
    (left / "input.ipynb").write_text("{}", encoding="utf-8")
    assert run("notebook", "check", str(tmp_path)).exit_code == 0
    assert run("notebook", "check", str(left)).exit_code == 2


def test_the_good_notebook_breaks_no_rule(fixture_path):
    assert check_notebook_source(fixture_path("good")) == ()


@pytest.mark.parametrize(
    ("key", "value"), [("outputs", [{"output_type": "stream", "text": ""}]), ("execution_count", 3)]
)
def test_what_a_run_leaves_in_a_cell_is_found(good, kinds, key, value):
    good["cells"][3][key] = value
    assert kinds(good) == ["leftover"]


@pytest.mark.parametrize("key", ["widgets", "papermill"])
def test_what_a_run_leaves_in_the_metadata_is_found(good, kinds, key):
    good["metadata"][key] = {}
    assert kinds(good) == ["leftover"]


def test_injected_parameters_are_found(good, kinds):
    injected = copy.deepcopy(good["cells"][3])
    injected["metadata"]["tags"] = ["injected-parameters"]
    good["cells"].insert(4, injected)
    assert kinds(good) == ["leftover"]


def test_another_kernel_is_found(good, kinds):
    good["metadata"]["kernelspec"]["name"] = "conda-env"
    assert kinds(good) == ["kernelspec"]


@pytest.mark.parametrize(
    "line",
    ["smoke = True  # untyped", "smoke: bool = True", "smoke = True", "smoke: bool = True  #"],
)
def test_a_parameter_needs_type_and_comment(good, kinds, line):
    source = "".join(good["cells"][3]["source"]).splitlines()
    good["cells"][3]["source"] = "\n".join([line, *source[1:]])
    assert kinds(good) == ["parameter_style"]


def test_an_unused_parameter_is_found(good, kinds):
    good["cells"][3]["source"] += ["\nseed: int = 0  # any"]
    assert kinds(good) == ["unused_parameter"]


def test_a_notebook_needs_a_parameters_cell(good, kinds):
    good["cells"][3]["metadata"]["tags"] = []
    assert kinds(good) == ["parameters_cell"]


def test_too_few_and_too_many_cells_are_found(good, kinds):
    markdown = good["cells"][0]
    few = {**good, "cells": [markdown, *good["cells"][2:6], good["cells"][-2]]}
    assert kinds(few) == ["cell_count"]
    assert kinds({**good, "cells": good["cells"] + [markdown] * 16}) == ["cell_count"]


@pytest.mark.parametrize("source", [LONG, "async " + LONG, f"if True:\n    pass\n{LONG}"])
def test_a_long_function_is_found(good, kinds, source):
    good["cells"][7]["source"] = source
    assert kinds(good) == ["long_function"]


def test_ten_lines_fit(good, kinds):
    good["cells"][7]["source"] = LONG.rsplit("    ", 1)[0]
    assert kinds(good) == []


@pytest.mark.parametrize(
    "source",
    [
        "!pip install x",
        "%pip install x",
        "if True:\n  ! pip3 install x",
        "!apt install x",
        "!sudo apt-get install x",
        "!{sys.executable} -m pip install x",
        "!python3 -m pip install x",
        "%conda install x",
        "%%bash\ncd a && pip install x",
        "!uv add x",
    ],
)
def test_an_install_is_found(good, kinds, source):
    good["cells"][7]["source"] = source
    assert kinds(good) == ["install"]


@pytest.mark.parametrize("source", ["# !pip install x", "%%bash\nls", "!ls pip", "text = 'pip'"])
def test_what_installs_nothing_is_left_alone(good, kinds, source):
    good["cells"][7]["source"] = source
    assert kinds(good) == []


@pytest.mark.parametrize("source", ["# A statement", "No heading", "text\n## Part\n# Why?"])
def test_the_title_has_to_be_a_question(good, kinds, source):
    good["cells"][0]["source"] = source
    assert kinds(good) == ["title"]


def test_a_cell_that_is_not_python_is_found(good, kinds):
    good["cells"][7]["source"] = "x ="
    assert kinds(good) == ["syntax"]


@pytest.mark.parametrize("line", ["assert 1", "    assert x", "wb.write_results({})"])
def test_checks_that_readers_see_are_found(good, kinds, line):
    good["cells"][3]["source"] = f"if True:\n    pass\n{line.strip()}"
    assert kinds(good) == ["harness"]


@pytest.mark.parametrize(
    "metadata", [{"tags": ["remove-cell"]}, {"jupyter": {"source_hidden": True}}]
)
def test_a_cell_that_is_hidden_by_half_is_found(good, kinds, metadata):
    good["cells"][3]["metadata"] = metadata
    assert "harness" in kinds(good)


def test_one_visible_cell_of_code_is_a_panel_and_needs_no_text(good, kinds):
    hidden = {"tags": ["remove-cell"], "jupyter": {"source_hidden": True}}
    code = [cell for cell in good["cells"] if cell["cell_type"] == "code"]
    for cell in code[:-1]:
        cell["metadata"] = hidden | {"tags": [*cell["metadata"].get("tags", ()), *hidden["tags"]]}
    code[-1]["metadata"] = {}
    code[-1]["source"] = "panel"
    good["cells"] = [good["cells"][0], *code]
    assert kinds(good) == []
