"""Kernels whose TCP ports are taken between choice and use, and kernels that die at the start."""

import json
import os
import socket
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from workbench.cli import app
from workbench.notebooks import execute, run_notebook

PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port")
PROGRAM = """
import json, os, runpy, socket, sys
from pathlib import Path

ports, starts, deaths, log = json.loads(Path(__file__).with_suffix(".json").read_text())
started = Path(log).read_text().splitlines() if Path(log).exists() else []
connection = json.loads(Path(sys.argv[2]).read_text())
Path(log).write_text("\\n".join([*started, connection["transport"]]))
if len(started) < deaths:
    os._exit(5)
if connection["transport"] == "tcp" and len(started) < starts:
    taken = [socket.create_server((connection["ip"], connection[port])) for port in ports]
runpy.run_module("ipykernel_launcher", run_name="__main__")
"""


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Install a kernel that misbehaves at its first starts; the transports that it was given.

    ports: TCP ports of its connection file that another process takes just before the kernel binds
    them, at the first `starts` starts. deaths: how many starts end at once.
    """

    def install(ports=(), starts=99, deaths=0):
        program, log = tmp_path / "program.py", tmp_path / "transports.txt"
        program.write_text(PROGRAM, encoding="utf-8")
        settings = [list(ports), starts, deaths, str(log)]
        program.with_suffix(".json").write_text(json.dumps(settings), encoding="utf-8")
        argv = [sys.executable, str(program), "-f", "{connection_file}"]
        folder = tmp_path / "jupyter" / "kernels" / "crowded"
        folder.mkdir(parents=True)
        spec = {"argv": argv, "display_name": "crowded", "language": "python"}
        (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
        monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
        return lambda: log.read_text(encoding="utf-8").split()

    return install


@pytest.fixture
def run(fixture_path, tmp_path):
    def with_the_kernel(**arguments):
        output = tmp_path / "output"
        path = fixture_path("good")
        return run_notebook(path, output_dir=output, kernel="crowded", **arguments)

    return with_the_kernel


@contextmanager
def no_folder():
    yield None


@pytest.mark.notebook
@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no Unix sockets here")
@pytest.mark.thorough
def test_ports_that_others_take_do_not_matter(kernel, run):
    transports = kernel(PORTS)
    result = run()
    assert result.ok, result.report()
    assert result.failed_starts == ()
    assert "started again" not in result.report()
    assert transports() == ["ipc"]


@pytest.mark.sampled(1)
@pytest.mark.notebook
@pytest.mark.parametrize("port", PORTS)
def test_on_tcp_a_kernel_without_its_port_is_started_again(kernel, run, monkeypatch, port):
    transports = kernel([port], starts=1)
    monkeypatch.setattr(execute, "socket_folder", no_folder)
    monkeypatch.setattr(execute, "START_TIMEOUT_S", 15)  # it lives on without the iopub port
    result = run()
    assert result.ok, result.report()
    assert len(result.failed_starts) == 1
    assert f"kernel started again after: {result.failed_starts[0]}" in result.report()
    assert transports() == ["tcp", "tcp"]


@pytest.mark.notebook
def test_a_kernel_that_always_dies_is_not_started_for_ever(kernel, run):
    transports = kernel(deaths=99)
    result = run()
    [problem] = result.problems
    assert problem.kind == "not_run"
    assert "no kernel became ready in 2 starts: Kernel died" in problem.message
    assert len(transports()) == execute.STARTS


@pytest.mark.notebook
def test_a_kernel_that_dies_in_a_cell_is_not_started_again(kernel, fixture_path, tmp_path):
    transports = kernel()
    path = fixture_path("dead_kernel")
    result = run_notebook(path, output_dir=tmp_path / "output", kernel="crowded")
    assert [problem.kind for problem in result.problems] == ["kernel_died"]
    assert result.failed_starts == ()
    assert len(transports()) == 1


@pytest.mark.notebook
@pytest.mark.thorough
def test_every_report_admits_a_second_start(kernel, fixture_path, tmp_path, monkeypatch):
    kernel(deaths=1)
    python3 = tmp_path / "jupyter" / "kernels" / "crowded"
    python3.rename(python3.with_name("python3"))  # a matrix runs this one
    (tmp_path / "good.ipynb").write_bytes(fixture_path("good").read_bytes())
    matrix = tmp_path / "matrix.toml"
    case = '[notebook."good.ipynb"]\ngpu_cells = 1\ngolden = false\n'
    matrix.write_text(f'format = 1\n{case}[notebook."good.ipynb".cases.a]\n', encoding="utf-8")
    output, junit = tmp_path / "output", tmp_path / "junit.xml"
    words = ["notebook", "run", "--matrix", matrix, "--output", output, "--junit", junit]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    assert "kernel started again: good::a: Kernel died before replying" in done.output
    suite = ET.parse(junit).getroot().find("testsuite")
    for properties in (suite.find("properties"), suite.find("testcase/properties")):
        numbers = {each.get("name"): each.get("value") for each in properties}
        assert numbers["failed_kernel_starts"] == "1"
    assert "kernel started again after: Kernel died" in suite.find("testcase/system-out").text
    assert "✓ ok, kernel started again" in (output / "index.html").read_text(encoding="utf-8")


def test_the_socket_folder_is_private_short_and_gone_afterwards(tmp_path, monkeypatch):
    deep = tmp_path / ("deep" * 20) / ("deeper" * 20)
    deep.mkdir(parents=True)
    for base in (tmp_path, deep, tmp_path / "missing"):
        monkeypatch.setattr(tempfile, "tempdir", str(base))
        with execute.socket_folder() as folder:
            found = Path(folder)
            assert found.stat().st_mode & 0o077 == 0
            assert list(found.iterdir()) == []
            assert len(os.fsencode(f"{folder}/k0-ipc-5")) <= 107  # of Linux; less on macOS
        assert not found.exists()
    assert list(deep.iterdir()) == []


def test_without_any_folder_for_sockets_there_is_none(tmp_path, monkeypatch):
    deep = tmp_path / ("deep" * 20) / ("deeper" * 20)
    deep.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    monkeypatch.setattr(execute, "_SHORT_BASE", str(tmp_path / "missing"))
    with execute.socket_folder() as folder:
        assert folder is None
