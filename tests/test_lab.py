"""`workbench lab` really starts JupyterLab, and its address opens the first notebook."""

import json
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

import workbench as wb
from workbench.notebooks import run_notebook
from workbench.scenario.links import VARIABLE

LINK = wb.resolve(model="qwen3-next-80b-a3b", tensor_parallel=2).link()
ROOT = Path(__file__).parents[1]
PATIENCE_S = 300  # reached by what is broken, never by a busy machine
NOTIFICATIONS = "/lab/api/settings/@jupyterlab/apputils-extension:notification"
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/lab/tree/notebooks/00_start\.ipynb\?token=\w+")


def address_of(log, server, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        found = ADDRESS.search(log.read_text(encoding="utf-8"))
        if found:
            return found.group(0)
        time.sleep(0.2)
    pytest.fail(log.read_text(encoding="utf-8")[-2000:])


def opened(address, seconds=PATIENCE_S):
    """The address is printed a moment before anybody listens to it."""
    end = time.monotonic() + seconds
    while True:
        try:
            return urlopen(address, timeout=30)
        except OSError:  # refused, reset, too slow
            if time.monotonic() > end:
                raise
            time.sleep(0.3)


def end_with_children(server):
    family = []
    with suppress(psutil.NoSuchProcess):
        family = [*psutil.Process(server.pid).children(recursive=True), psutil.Process(server.pid)]
    for end, seconds in ((psutil.Process.terminate, 60), (psutil.Process.kill, None)):
        for process in family:
            with suppress(psutil.NoSuchProcess):
                end(process)
        _, family = psutil.wait_procs(family, timeout=seconds)
    server.wait()


@pytest.mark.slow
def test_lab_opens_the_first_notebook(tmp_path):
    log = tmp_path / "lab.log"
    command = [sys.executable, "-m", "workbench", "lab", "--no-browser", "--port", "0"]
    command += ["--link", LINK]
    with log.open("w", encoding="utf-8") as output:
        server = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    try:
        address = address_of(log, server)
        with opened(address) as answer:
            assert answer.status == 200
            assert b"JupyterLab" in answer.read()
        with urlopen(
            address.replace("/lab/tree/notebooks/00_start.ipynb", NOTIFICATIONS)
        ) as answer:
            assert json.load(answer)["schema"]["properties"]["fetchNews"]["default"] == "false"
        (jupyter,) = psutil.Process(server.pid).children()
        assert jupyter.environ()[VARIABLE] == LINK
    finally:
        end_with_children(server)


def test_lab_elsewhere_says_where_to_start_it(tmp_path):
    command = [sys.executable, "-m", "workbench", "lab"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "project folder" in result.stderr


def test_the_first_notebook_opens_with_the_scenario_of_a_link(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, LINK)
    plan = wb.resolve(wb.linked_scenario())
    result = run_notebook(
        ROOT / "notebooks" / "00_start.ipynb", {"smoke": True}, output_dir=tmp_path
    )
    assert result.results["panel_block_size"] == plan.block_size
    assert plan.link() == LINK


@pytest.mark.sampled(1)
@pytest.mark.parametrize("link", ["nonsense", LINK[:-4], "#scenario=~abc", "#scenario=%7B%7D"])
def test_a_damaged_link_opens_nothing(link):
    command = [sys.executable, "-m", "workbench", "lab", "--no-browser", "--link", link]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "link" in result.stderr or "no model" in result.stderr
    assert "Traceback" not in result.stderr
