"""The notebooks that people open: house rules, and real runs that a matrix file cannot express.

The other runs, with known answers, stand in notebooks/matrix.toml and test_pages.py. The expected
numbers are vLLM's (reported logs and its own code), not the workbench's.
"""

import ast
import builtins
import json
import re
from pathlib import Path

import pytest

from tests.notebooks.sessions import SESSION
from workbench import adding
from workbench.notebooks import check_notebook_source, run_notebook
from workbench.notebooks.golden import orphans, read_goldens
from workbench.notebooks.matrix import read_matrix

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
NEMOTRON = "nemotron-3-nano-30b-a3b"


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_house_rules(path):
    assert check_notebook_source(path) == ()


def calls_in_prose(cells: list[dict]) -> list[ast.Call]:
    """Return the calls that the text of a notebook shows as code of Python."""
    prose = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    found = []
    for code in re.findall(r"`([^`\n]+)`", prose):
        try:
            found.append(ast.parse(code, mode="eval").body)
        except SyntaxError:
            continue  # a flag, a path, a command
    return [call for one in found for call in ast.walk(one) if isinstance(call, ast.Call)]


def root_of(call: ast.Call) -> str:
    """Return the name with which a call begins."""
    found = call.func
    while isinstance(found, ast.Attribute):
        found = found.value
    return found.id if isinstance(found, ast.Name) else ""


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.rglob("*.ipynb")), ids=lambda path: path.stem)
def test_a_call_that_the_text_suggests_has_a_name_that_a_cell_defines(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    used = {one.id for one in ast.walk(ast.parse(code)) if isinstance(one, ast.Name)}
    given = {"", *used, *dir(builtins), *dir(adding)}
    assert {root_of(call) for call in calls_in_prose(cells)} - given == set()


def test_every_case_of_the_matrix_has_a_golden_for_its_parameters_and_no_golden_is_left_over():
    matrix = read_matrix(NOTEBOOKS / "matrix.toml")
    missing = [
        case.case_id
        for case in matrix.cases
        if case.golden_path
        and read_goldens(case.golden_path).get(case.name, {}).get("parameters") != case.parameters
    ]
    assert missing == []
    assert list(orphans(matrix)) == []


CHANGED = {"enable_prefix_caching", "mamba_cache_mode", "mamba_block_size", "scheduler_block_size"}
"""What the new default of prefix caching changes for every hybrid."""
VERSIONS = {
    "kimi": ({}, {"block_size": [1888, 1920], "kernel_block_size": [1888, 1920]}, []),
    "bamba": ({"model": "bamba-9b"}, None, ["architecture_not_served"]),
    "nemotron-xpu-before": (
        {"model": NEMOTRON, "platform": "xpu", "tensor_parallel": 4, "old": "before-37467"},
        {"block_size": [64, 1088]},
        [],
    ),
}


@pytest.mark.thorough
@pytest.mark.notebook
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[] if case == "nemotron-xpu-before" else pytest.mark.thorough)
        for case in VERSIONS
    ],
)
def test_versions(case, tmp_path):
    parameters, sizes, errors = VERSIONS[case]
    given = {**parameters, "smoke": True}
    expected = {"new_errors": errors}
    notebook = NOTEBOOKS / "08_versions.ipynb"
    result = run_notebook(notebook, given, output_dir=tmp_path, expect=expected)
    assert result.problems == ()
    assert result.ok
    results = result.results
    changed = results["differences"]
    if sizes is None:
        assert changed == {}
        return
    assert set(changed) >= CHANGED
    assert {name: changed[name] for name in sizes} == sizes


@pytest.mark.thorough
@pytest.mark.notebook
def test_a_tuning_session_that_is_run_again_measures_nothing(tmp_path):
    model = {"model": "llama-3.1-8b", "kernel": "block-table"}
    parameters = {**model, "results_folder": str(tmp_path)}
    expected = {**SESSION, "front": 1, "block_size": 16}
    _run("07_tuning_session.ipynb", parameters, expected, tmp_path)
    before = (tmp_path / "results.db").read_bytes()
    _run("07_tuning_session.ipynb", parameters, expected, tmp_path)
    assert (tmp_path / "results.db").read_bytes() == before


@pytest.mark.notebook
def test_full_size_run_without_parameters(tmp_path):
    result = run_notebook(NOTEBOOKS / "00_start.ipynb", {"smoke": False}, output_dir=tmp_path)
    assert result.problems == ()


def _run(name, parameters, expected, folder):
    result = run_notebook(
        NOTEBOOKS / name, {**parameters, "smoke": True}, output_dir=folder, expect=expected
    )
    assert result.problems == ()
    assert result.ok
