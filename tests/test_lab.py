"""`workbench lab` really starts JupyterLab, and its address opens the first notebook."""

import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

ROOT = Path(__file__).parents[1]
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/lab/tree/notebooks/00_start\.ipynb\?token=\w+")


def address_of(log, server, seconds=180):
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        found = ADDRESS.search(log.read_text(encoding="utf-8"))
        if found:
            return found.group(0)
        time.sleep(0.2)
    pytest.fail(log.read_text(encoding="utf-8")[-2000:])


def opened(address, seconds=180):
    """The address is printed a moment before anybody listens to it."""
    end = time.monotonic() + seconds
    while True:
        try:
            return urlopen(address, timeout=30)
        except OSError:  # refused, reset, too slow
            if time.monotonic() > end:
                raise
            time.sleep(0.3)


@pytest.mark.slow
def test_lab_opens_the_first_notebook(tmp_path):
    log = tmp_path / "lab.log"
    command = [sys.executable, "-m", "workbench", "lab", "--no-browser", "--port", "18871"]
    with log.open("w", encoding="utf-8") as output:
        server = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    try:
        with opened(address_of(log, server)) as answer:
            assert answer.status == 200
            assert b"JupyterLab" in answer.read()
    finally:
        family = [*psutil.Process(server.pid).children(recursive=True), psutil.Process(server.pid)]
        for process in family:
            process.terminate()
        psutil.wait_procs(family, timeout=20)
        server.wait(timeout=20)


def test_lab_elsewhere_says_where_to_start_it(tmp_path):
    command = [sys.executable, "-m", "workbench", "lab"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "folder of the project" in result.stderr
