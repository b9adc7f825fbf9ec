"""Every file that a user names is opened by the one reader, whatever the command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import workbench as wb
from workbench.models import catalog_config
from workbench.sweeps.store import Key, ResultStore, Row

ROOT = Path(__file__).parents[1]
WATCHED = """
import json, sys
from typer.testing import CliRunner

found = []

def watch(event, values):
    if event not in {"open", "sqlite3.connect"} or not isinstance(values[0], (str, bytes)):
        return
    path = values[0].decode() if isinstance(values[0], bytes) else values[0]
    if folder not in path or folder + "out" in path:
        return
    frame = sys._getframe(1)
    while frame and "/workbench/" not in frame.f_code.co_filename:
        frame = frame.f_back
    found.append([event, path, frame.f_code.co_filename if frame else "outside"])

from workbench.cli import app
folder = "not there"
sys.addaudithook(watch)
answers = []
for folder, words in json.loads(sys.argv[1]):
    result = CliRunner().invoke(app, words)
    answers.append([result.exit_code, result.output[-300:], found[:]])
    found.clear()
print(json.dumps(answers))
"""
COMMANDS = (
    *("resolve {}/config.json", "resolve {}/model", "resolve {}/scenario.json"),
    *("resolve --batch {}/batch.jsonl", "resolve bamba-9b -s draft_model={}/config.json"),
    *("layout {}/config.json", "chunks {}/config.json", "diff {}/config.json"),
    *("sweep {}/config.json -a tensor_parallel=1,2", "transfer {}/config.json"),
    *("report {}/design.json -o {}/out.html", "report {}/config.json -o {}/out.html"),
    *("explain-log {}/start.log", "explain-log {}/start.log --model {}/config.json"),
    *("results list {}/results.db", "results export {}/results.db {}/out.csv"),
    *("notebook check {}/one.ipynb", "notebook run {}/one.ipynb --output {}/out"),
    "notebook run --matrix {}/matrix.toml --output {}/out",
)


def write_files(folder):
    """Write a file of every kind that a command reads."""
    config = {key: value for key, value in catalog_config("bamba-9b").items() if key[0] != "_"}
    (folder / "model").mkdir()
    for path in (folder / "config.json", folder / "model" / "config.json"):
        path.write_text(json.dumps(config))
    (folder / "scenario.json").write_text(json.dumps({"model": str(folder / "config.json")}))
    (folder / "batch.jsonl").write_text(json.dumps({"model": str(folder / "config.json")}) + "\n")
    log = ROOT / "tests" / "data" / "logs" / "whole_start_0_33.log"
    shutil.copy(log, folder / "start.log")
    wb.save_design(wb.Scenario(model="bamba-9b"), folder / "design.json")
    with ResultStore(folder / "results.db") as store:
        store.put(Row(Key.of({"block_m": 16}, "H100", "abc"), n=1, median_s=1.0))
    fixture = ROOT / "tests" / "notebooks" / "fixtures" / "good.ipynb"
    shutil.copy(fixture, folder / "one.ipynb")
    (folder / "matrix.toml").write_text('[notebook."one"]\ncases = [{ name = "x" }]\n')


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """{command: its exit code, its last words, and what it opened of a folder of its own}."""
    commands = []
    for command in COMMANDS:
        own = tmp_path_factory.mktemp("named")
        write_files(own)
        commands.append((f"{own}/", [word.replace("{}", str(own)) for word in command.split()]))
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(COMMANDS, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.sampled(10)
@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_named_file_is_opened_by_the_reader(answers, command):
    _status, said, found = answers[command]
    readers = {"open": "access/files.py", "sqlite3.connect": "sweeps/store/file.py"}
    assert found, said
    assert [one for one in found if not one[2].endswith(readers[one[0]])] == []
