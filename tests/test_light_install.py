"""The bare wheel in an empty environment: what works there, and what says which extra it lacks."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile

import pytest

from tests import built_wheel
from tests.built_wheel import ROOT
from workbench.cli import app, notebook_app, results_app
from workbench.sweeps.store import ResultStore

pytestmark = pytest.mark.slow

MODEL = "qwen3.5-4b"
LOG = ROOT / "tests" / "data" / "logs" / "whole_start_0_33.log"
NOTEBOOK = ROOT / "notebooks" / "00_start.ipynb"
WORKING = {
    "models": ["qwen3.5", "--json"],
    "coverage": ["--rules", "0.33"],
    "backends": ["FLASH_ATTN", "--json"],
    "resolve": ["Qwen/Qwen3.8-27B", "--what-if"],
    "layout": [MODEL, "--num-blocks", "2"],
    "offload": [MODEL, "--cpu-memory", "64 GiB"],
    "transfer": [MODEL, "--prefill", "tensor_parallel=4"],
    "chunks": [MODEL, "gpt-oss-20b", "--chunk", "256"],
    "info": [],
    "report": [MODEL, "-o", "page.html"],
    "explain-log": [str(LOG), "--json"],
}
"""Command -> arguments with which it succeeds without any extra."""
ANSWERS = {"diff": ([MODEL], 1), "verify": ([MODEL], 2)}
"""Command -> arguments and its exit status: a difference; no vLLM here."""
LACKING = {
    ("sweep", MODEL, "-a", "tensor_parallel=1,2"): "sweep",
    ("sweep", "--kernel", "flex"): "kernels",
    ("sweep", "--kernel", "flex", "--dask", "tcp://127.0.0.1:1"): "dask,kernels",
    ("sweep", MODEL, "--dask", "tcp://127.0.0.1:1"): "dask",
    ("inspect", "--target", "sm_90"): "kernels",
    ("report", MODEL, "--figures"): "lab",
    ("lab", str(NOTEBOOK)): "lab",
    ("app", str(NOTEBOOK)): "app",
    ("notebook", "run", str(NOTEBOOK)): "lab,sweep",
    ("notebook", "check", str(NOTEBOOK)): "lab",
    ("results", "list", "results.db"): "sweep",
    ("results", "compare", "results.db"): "sweep",
    ("results", "export", "results.db", "rows.csv"): "sweep",
}
"""Arguments -> the extras that the error names."""


DRIVER = """
import contextlib, io, json, sys
from workbench.cli import app

def answer(words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            app(words)
        except SystemExit as end:
            return [end.code or 0, out.getvalue(), err.getvalue()]

json.dump([answer(words) for words in json.load(sys.stdin)], sys.stdout)
"""
"""Runs commands one after the other in one process: starting Python takes longer than most."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return built_wheel.bare(tmp_path_factory)


@pytest.fixture(scope="module")
def answers(programs, tmp_path_factory):
    """{arguments: (exit status, stdout, stderr)} of every command of the tables."""
    commands = [*((name, *words) for name, words in WORKING.items())]
    commands += [*((name, *words) for name, (words, _) in ANSWERS.items()), *LACKING]

    def make(folder):
        folder.mkdir()
        ResultStore(folder / "results.db").close()
        given = json.dumps(commands)
        done = program(programs, folder, "-c", DRIVER, given=given, name="python")
        assert done.returncode == 0, done.stderr
        (folder / "answers.json").write_text(done.stdout, encoding="utf-8")

    found = built_wheel.once(tmp_path_factory, "answers", make) / "answers.json"
    return dict(zip(commands, json.loads(found.read_text(encoding="utf-8")), strict=True))


def program(programs, folder, *words, given="", name="workbench"):
    kept = {key: os.environ[key] for key in ("HOME", "LANG", "PATH") if key in os.environ}
    return subprocess.run(
        [programs / name, *words],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**kept, "HF_HUB_OFFLINE": "1"},
    )


@pytest.mark.thorough
def test_the_environment_has_nothing_but_small_requirements(programs):
    (site,) = programs.parent.glob("lib/python*/site-packages")
    names = {path.name.partition("-")[0] for path in site.glob("*.dist-info")}
    assert {"hybrid_kv_workbench", "pydantic", "typer"} <= names
    assert not names & {"numpy", "torch", "plotly", "ipython", "huggingface_hub", "psutil"}
    assert len(names) <= 15
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < 40e6


@pytest.mark.parametrize("command", WORKING)
def test_a_command_works_without_extras(answers, command):
    status, stdout, stderr = answers[command, *WORKING[command]]
    assert (status, stderr) == (0, "")
    assert stdout


@pytest.mark.parametrize("command", ANSWERS)
def test_an_answer_with_an_exit_status_of_its_own(answers, command):
    words, expected = ANSWERS[command]
    status, _, stderr = answers[command, *words]
    assert status == expected, stderr
    assert "internal_error" not in stderr


@pytest.mark.parametrize("words", LACKING, ids=" ".join)
def test_a_command_names_the_extra_that_it_lacks(answers, words):
    status, _, stderr = answers[words]
    assert status == 2
    assert stderr.startswith("error [package_missing] This needs ")
    assert stderr.endswith(f"pip install 'hybrid-kv-workbench[{LACKING[words]}]'\n")
    assert len(stderr.splitlines()) == 1


def test_every_command_is_in_a_table():
    named = {words[0] for words in LACKING} | set(WORKING) | set(ANSWERS)
    groups = {"notebook": notebook_app, "results": results_app}
    own = {(one.name or one.callback.__name__).replace("_", "-") for one in app.registered_commands}
    assert own | set(groups) == named
    for name, group in groups.items():
        inner = {one.name for one in group.registered_commands}
        assert inner == {words[1] for words in LACKING if words[0] == name}


def test_a_batch_under_the_name_of_the_distribution(programs, tmp_path):
    lines = '{"model": "bamba-9b"}\n{"model": "no-such-owner/no-such-model"}\n'
    name = "hybrid-kv-workbench"
    done = program(programs, tmp_path, "resolve", "--batch", "-", given=lines, name=name)
    plan, error = map(json.loads, done.stdout.splitlines())
    assert plan["block_size"] == 528
    assert error["error"]["code"] == "hub_not_reachable"


def test_the_public_face_names_the_extra(programs, tmp_path):
    code = "import workbench as wb\nprint(wb.resolve(model='bamba-9b').hits())\nwb.explore"
    done = program(programs, tmp_path, "-c", code, name="python")
    assert "Prefix caching is off" in done.stdout
    assert done.stderr.splitlines()[-1].endswith("pip install 'hybrid-kv-workbench[lab]'")


def test_the_wheel_is_small(tmp_path_factory):
    path = built_wheel.wheel(tmp_path_factory)
    assert path.stat().st_size < 1.95e6  # README says 1.9 MB
    with zipfile.ZipFile(path) as archive:
        assert sum(one.file_size for one in archive.infolist()) < 6e6
