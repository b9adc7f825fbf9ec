"""A matrix really run, by the command and by the plugin: what it finds and what it leaves."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.commands import run
from workbench.notebooks import read_matrix
from workbench.notebooks.expectations import ARTIFACT_KIB

ROOT = Path(__file__).parents[2]
MATRIX = """
format = 1

[notebook."good.ipynb"]
gpu_cells = 1
volatile = ["folder"]

[notebook."good.ipynb".cases.three]
parameters = { count = 3 }
quick = true

[notebook."good.ipynb".cases.wrong-name]
parameters = { cuont = 3 }

[notebook."good.ipynb".cases.wrong-type]
parameters = { count = "three" }

[notebook."broken.ipynb".cases.a]
[notebook."committed.ipynb".cases.a]
[notebook."untagged.ipynb".cases.a]
"""


@pytest.fixture
def folder(tmp_path, fixture_path):
    """A matrix with a good notebook and three broken ones next to it."""
    good = json.loads(fixture_path("good").read_text(encoding="utf-8"))
    shutil.copy(fixture_path("good"), tmp_path / "good.ipynb")
    shutil.copy(fixture_path("output_widget_error"), tmp_path / "broken.ipynb")
    good["cells"][5]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "3"}]
    (tmp_path / "committed.ipynb").write_text(json.dumps(good), encoding="utf-8")
    good["cells"][5]["outputs"] = []
    good["cells"][3]["metadata"]["tags"] = []
    (tmp_path / "untagged.ipynb").write_text(json.dumps(good), encoding="utf-8")
    (tmp_path / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    return tmp_path


def command(folder, *more):
    arguments = ["notebook", "run", "--matrix", folder / "matrix.toml", "--output", folder / "out"]
    return run(*(*arguments, *more))


@pytest.mark.notebook
def test_goldens_are_recorded_compared_and_go_stale(folder):
    done = command(folder, "--only", "good::three")
    assert done.exit_code == 1
    update = re.search(r"record it: workbench (notebook run .* --update-goldens)", done.output)[1]
    done = run(*update.split(), "--output", str(folder / "out"))
    assert done.exit_code == 0, done.output
    path = folder / "goldens" / "good.json"
    kept = json.loads(path.read_text(encoding="utf-8"))["cases"]
    results = {"total": 3, "label": None, "strict": "1", "offline": "1"}
    assert kept == {"three": {"parameters": {"count": 3}, "results": results}}

    done = command(folder, "--quick", "--junit", folder / "junit.xml")
    assert done.exit_code == 0, done.output
    assert "1 runs: 1 ok, 0 failed" in done.output
    assert "1 GPU cells skipped" in done.output
    suite = ET.parse(folder / "junit.xml").getroot().find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")
    numbers = {each.get("name"): each.get("value") for each in suite.find("testcase/properties")}
    assert int(numbers["peak_bytes"]) > 2**20
    assert numbers["skipped_gpu_cells"] == "1"
    assert "bytes" in numbers["cell_12"]


@pytest.mark.notebook
@pytest.mark.thorough
def test_every_failure_has_its_message_its_command_and_its_place_in_the_reports(folder):
    # `good::three` is excluded: it is the other test's
    names = ["good::wrong-name", "good::wrong-type", "broken::a", "committed::a", "untagged::a"]
    only = [word for name in names for word in ("--only", name)]
    done = command(folder, *only, "--workers", 2, "--junit", folder / "junit.xml")
    assert done.exit_code == 1
    for kind, words in (
        ("unknown_parameter", "Nearest: count"),
        ("parameter_type", "Expected int"),
        ("widget_error", "hidden in an output widget"),
        ("leftover", "outputs is left from a run"),
        ("parameters_cell", "exactly one cell tagged 'parameters'"),
    ):
        assert re.search(rf"{kind}.*{re.escape(words)}", done.output), (kind, done.output)
    assert "5 runs: 0 ok, 5 failed" in done.output
    for name in names:
        assert f"--only {name}" in done.output

    suite = ET.parse(folder / "junit.xml").getroot().find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("5", "5")
    kinds = {case.get("name"): case.find("failure").get("type") for case in suite.iter("testcase")}
    assert kinds["wrong-name"] == "unknown_parameter"
    page = (folder / "out" / "index.html").read_text(encoding="utf-8")
    assert "5 of 5 failed" in page
    for target in re.findall(r'href="([^"]+)"', page):
        assert (folder / "out" / target).stat().st_size > 500
    assert 'href="broken--a.html"' in page
    assert "<script" not in page
    executed = folder / "out" / "broken--a.executed.ipynb"
    assert executed.stat().st_size < ARTIFACT_KIB * 1024
    assert "widgets" not in json.loads(executed.read_text(encoding="utf-8"))["metadata"]

    # the command of the one cell that failed, as it was printed
    rerun = re.search(r"rerun: workbench (notebook run .* --to-cell 3)", done.output)[1]
    again = run(*rerun.split(), "--output", str(folder / "again"))
    assert again.exit_code == 1
    assert "hidden in an output widget" in again.output
    assert "no_results" not in again.output
    cells = json.loads((folder / "again" / "broken.executed.ipynb").read_text(encoding="utf-8"))
    assert len(cells["cells"]) == 4


@pytest.mark.thorough
@pytest.mark.notebook
def test_the_plugin_makes_a_test_of_every_case(folder):
    for name in ("committed", "untagged"):
        (folder / f"{name}.ipynb").unlink()
    text = MATRIX.replace('[notebook."committed.ipynb".cases.a]\n', "")
    text = text.replace('[notebook."untagged.ipynb".cases.a]\n', "")
    text = text.replace("gpu_cells = 1", "gpu_cells = 1\ngolden = false")
    (folder / "matrix.toml").write_text(text, encoding="utf-8")

    def plugged(*more):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-p", "workbench.notebooks.pytest_plugin"),
                *("-p", "no:cacheprovider", "matrix.toml", *more),
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    code, said = plugged("--collect-only", "-q", "-m", "notebook and not matrix")
    assert (code, said.count("::good::")) == (0, 1)
    code, said = plugged("-v", "--notebook-output", "kept", "--junit-xml", "junit.xml")
    assert code == 1
    assert re.search(r"good::three PASSED", said)
    assert re.search(r"::goldens PASSED", said)
    assert "3 failed, 2 passed" in said
    assert "widget_error in cell 3: ValueError: hidden in an output widget" in said
    assert "--to-cell 3" in said
    assert "pytest_plugin.py" not in said.partition("short test summary")[0]
    # of the good notebook and of the broken one
    assert "2 x no GPU: nothing was timed" in said
    assert (folder / "kept" / "good--three.executed.ipynb").exists()
    assert "skipped_gpu_cells" in (folder / "junit.xml").read_text(encoding="utf-8")


def test_one_notebook_and_a_matrix_do_not_go_together(folder):
    notebook = str(folder / "good.ipynb")
    for words in ([], [notebook, "--matrix", str(folder / "matrix.toml")], [notebook, "--quick"]):
        done = run("notebook", "run", *words)
        assert (done.exit_code, "atrix" in done.output) == (2, True), done.output
    done = command(folder, "--to-cell", 1)
    assert (done.exit_code, "apply to one notebook" in done.output) == (2, True)
    done = command(folder, "--only", "good::for")
    assert (done.exit_code, "good::three" in done.output) == (2, True)


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("good", 0, ""),
        ("committed", 1, "leftover in cell 5"),
        ("untagged", 1, "parameters_cell"),
    ],
)
def test_sources_are_checked_without_running_them(folder, name, code, words):
    done = run("notebook", "check", str(folder / f"{name}.ipynb"))
    assert done.exit_code == code
    assert words in done.output
    if code == 0:
        assert done.output == ""


def test_a_folder_is_checked_and_house_rules_on_request(folder):
    done = run("notebook", "check", str(folder))
    assert "committed.ipynb" in done.output
    assert "cell_count" not in done.output
    done = run("notebook", "check", "--house-rules", str(folder))
    assert "broken.ipynb: cell_count" in done.output


WITHOUT_CPU = ("06_flex_attention", "05_block_sizes_you_may_choose")
"""Notebooks about what vLLM does not have on a CPU."""


def test_our_matrix_has_every_notebook_with_four_models_and_four_platforms():
    matrix = read_matrix(ROOT / "notebooks" / "matrix.toml")
    found = {path for path in (ROOT / "notebooks").rglob("*.ipynb") if "." not in path.parent.name}
    assert {case.notebook for case in matrix.cases} == found
    for path in found:
        text = path.read_text(encoding="utf-8")
        given = [case.parameters for case in matrix.cases if case.notebook == path]
        for name in ("model", "platform"):
            if f'"{name}: str' in text:
                least = 4 - (name == "platform" and path.stem in WITHOUT_CPU)
                assert len({values.get(name) for values in given} - {None}) >= least, (path, name)
        assert all(values["smoke"] is True for values in given)


def test_the_quick_part_is_small():
    matrix = read_matrix(ROOT / "notebooks" / "matrix.toml")
    assert 8 <= len(matrix.select(quick=True)) <= 20
    assert len(matrix.cases) > 150


@pytest.mark.thorough
@pytest.mark.notebook
def test_every_kernel_has_another_hash_seed_and_can_have_the_same(make_notebook, tmp_path):
    from workbench.notebooks import run_notebook

    source = "import os\nfrom workbench.notebooks import record_results\n"
    source += (
        "record_results(seed=os.environ['PYTHONHASHSEED'], proxy=os.environ.get('HTTPS_PROXY'))"
    )
    cell = {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": ""}
    notebook = make_notebook({**cell, "execution_count": None, "outputs": []}, source)
    path = tmp_path / "seed.ipynb"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    first = run_notebook(path, output_dir=tmp_path)
    assert first.results == {"seed": str(first.hash_seed), "proxy": None}
    again = run_notebook(path, output_dir=tmp_path, hash_seed=first.hash_seed)
    other = run_notebook(path, output_dir=tmp_path)
    assert again.results["seed"] == first.results["seed"] != other.results["seed"]
