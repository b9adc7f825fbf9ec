"""Devices, named pipes, huge and deeply nested files: every command refuses them in plain words."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from tests.commands import run

ROOT = Path(__file__).parents[1]
DEEP = 100_000
COMMANDS = {
    "resolve": ["resolve", "{json}"],
    "batch": ["resolve", "--batch", "{any}"],
    "explain-log": ["explain-log", "{any}"],
    "report": ["report", "{json}", "-o", "{out}"],
    "layout": ["layout", "{json}"],
    "notebook run": ["notebook", "run", "{any}", "--output", "{out}"],
    "notebook check": ["notebook", "check", "{any}"],
    "app": ["app", "{any}", "--no-browser", "--port", "0"],
    "matrix": ["notebook", "run", "--matrix", "{any}", "--output", "{out}"],
    "results": ["results", "list", "{any}"],
    "replay": ["sweep", "--kernel", "flex", "--replay", "--results", "{any}"],
}
KINDS = ("device", "pipe", "sparse", "deep")


def hostile(folder: Path, kind: str) -> Path:
    """A file of this kind whose name ends in .json."""
    path = folder / f"{kind}.json"
    if kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "sparse":
        with path.open("wb") as file:
            file.truncate(5 * 10**9)
    else:
        path.write_text('{"model": ' + "[" * DEEP + "]" * DEEP + "}\n")
    return path


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    if sys.platform == "win32":
        pytest.skip("named pipes and address limits are not there")
    folder = tmp_path_factory.mktemp("hostile")
    paths = {kind: str(hostile(folder, kind)) for kind in KINDS}
    questions = {
        (name, kind): [word.format(json=path, any=path, out=str(folder / "out")) for word in words]
        for name, words in COMMANDS.items()
        for kind, path in paths.items()
    }
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "hostile_commands.py")],
        input=json.dumps(list(questions.values())),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(questions, json.loads(done.stdout), strict=True))


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes are not there")
@pytest.mark.parametrize(
    ("command", "kind"),
    [*product(["lab", "app"], ["device", "pipe", "folder"]), ("app", "kernel file")],
)
def test_nothing_is_started_for_what_cannot_be_read(tmp_path, monkeypatch, command, kind):
    pytest.importorskip("voila", reason="Voila is not installed: pip install '.[app]'")

    def start(*_):
        pytest.fail("a server was started")

    monkeypatch.setattr(subprocess, "call", start)
    monkeypatch.setattr("workbench.commands.app_server.serve", start)
    path = str({"folder": tmp_path / "none" / "x.ipynb", "kernel file": "/proc/kmsg"}.get(kind, ""))
    result = run(command, path or str(hostile(tmp_path, kind)))
    assert result.exit_code == 2
    assert re.search("cannot be read|does not exist|is not a notebook", result.output)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_hostile_file_is_refused_in_plain_words(outcomes, command, kind):
    found = outcomes[command, kind]
    assert found["raised"] is None, found
    assert "Traceback" not in found["output"]
    assert len(found["output"]) < 2000
    if command == "batch" and kind == "deep":
        assert found["exit"] == 0
        assert "scenario_not_json" in found["output"]
    else:
        assert found["exit"] == 2, found
        if kind != "deep":
            reasons = ("cannot be read", "is not a results file")  # a results file may be large
            assert any(reason in found["output"] for reason in reasons), found
