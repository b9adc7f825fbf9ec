"""`make gpu` needs four packages, says where there is no GPU, and goes on where it was stopped."""

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from tests.kernels.gpu_plugin import missing_package
from workbench.kernels.bench.run import Plan
from workbench.kernels.gpu import __main__ as gpu_command
from workbench.kernels.gpu import pieces as gpu_pieces
from workbench.kernels.gpu.__main__ import summary
from workbench.kernels.gpu.goals import GOALS, Goal, goals_table
from workbench.kernels.gpu.pieces import (
    MATRIX,
    NO_OTHER_PLUGINS,
    NO_TESTS,
    REPOSITORY,
    TAIL,
    Piece,
    code_hash,
    pieces,
    pytest_command,
    run_pieces,
)
from workbench.kernels.mode import TritonMode, triton_mode

FEW_PACKAGES = """
import importlib.metadata, runpy, sys
from importlib.machinery import PathFinder

NEEDED = {"torch", "triton", "numpy", "pytest"}

def closure(names):
    "What is installed with these packages, by import name."
    found, waiting = set(), list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name not in found:
            found.add(name)
            try:
                required = importlib.metadata.requires(name) or []
            except importlib.metadata.PackageNotFoundError:
                continue
            waiting += [r.split(";")[0].split("[")[0].split(" ")[0].rstrip("<>=!~0123456789.,")
                        for r in required if "extra ==" not in r]
    return found

tops = importlib.metadata.packages_distributions()
there = closure(NEEDED)
class Blocked:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        owners = {owner.lower().replace("_", "-") for owner in tops.get(top, [])}
        if top not in {"workbench", "tests"} and owners and not owners & there:
            raise ModuleNotFoundError(f"No module named {name!r}", name=top)
sys.meta_path.insert(0, Blocked())
"""


def with_few_packages(*command):
    """Run a module in a process in which no package but the four can be imported."""
    module, *arguments = command
    code = f"{FEW_PACKAGES}\nsys.argv = {[module, *arguments]!r}\n"
    code += f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        env={**os.environ, **NO_OTHER_PLUGINS},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_is_run_again_depends_on_code_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_pieces, "REPOSITORY", tmp_path)
    folder = tmp_path / "kernels"
    (folder / "folder.py").mkdir(parents=True)
    code, text = folder / "a.py", folder / "notes.txt"
    code.write_text("1")
    before = code_hash("kernels")
    text.write_text("other words")
    assert code_hash("kernels") == before
    code.write_text("2")
    assert code_hash("kernels") != before


def test_no_tests_are_what_pytest_calls_so():
    assert NO_TESTS == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.skipif(triton_mode().mode == "gpu", reason="there is a GPU")
def test_without_a_gpu_it_says_so_and_runs_nothing(tmp_path):
    done = with_few_packages("workbench.kernels.gpu", "--results", str(tmp_path))
    assert done.returncode == 2, done.stderr
    assert done.stdout.startswith("No GPU: ")
    assert "Nothing was run" in done.stdout
    assert [*tmp_path.iterdir()] == []


@pytest.mark.thorough
@pytest.mark.skipif(triton_mode().mode == "gpu", reason="there is a GPU")
def test_a_rehearsal_runs_a_piece_without_a_gpu(tmp_path):
    arguments = ("--rehearse", "--only", "test test_kernel_spec", "--results", str(tmp_path))
    done = with_few_packages("workbench.kernels.gpu", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test test_kernel_spec.py: ok" in done.stdout
    assert "1 ok" in done.stdout
    assert "not measured" in done.stdout
    assert all(
        "--quick" in p.command for p in pieces(tmp_path, reduced=True) if p.name[:5] == "bench"
    )
    assert not any("--quick" in p.command for p in pieces(tmp_path))


@pytest.mark.parametrize(
    ("mode", "rehearse", "code"),
    [
        ("gpu", False, 0),
        ("gpu", True, 0),
        ("interpreter", False, 2),
        ("interpreter", True, 0),
        ("compiler", True, 2),
        ("unavailable", True, 2),
    ],
)
def test_pieces_run_on_a_gpu_or_as_a_rehearsal(mode, rehearse, code, tmp_path, monkeypatch, capsys):
    device = "GPU 1" if mode == "gpu" else None
    decided = TritonMode(mode, "as the test says", device, "3", "2")
    monkeypatch.setattr(gpu_command, "triton_mode", lambda: decided)
    arguments = ["--list", "--only", "bench flex P1", "--results", str(tmp_path)]
    assert gpu_command.main([*arguments, *["--rehearse"] * rehearse]) == code
    shown = capsys.readouterr().out
    if code:
        assert shown.startswith("No GPU: as the test says.")
        assert not [*tmp_path.iterdir()]
    else:
        assert shown == "bench flex P1\n"
        assert [one.name for one in tmp_path.iterdir()] == ["GPU-1" if device else "rehearsal"]


@pytest.mark.thorough
def test_benchmarks_need_four_packages():
    done = with_few_packages("workbench.kernels.bench", "block-table", "--workloads", "W9")
    assert (done.returncode, done.stderr) == (2, "")
    assert "Invalid workload 'W9'" in done.stdout


@pytest.mark.thorough
def test_tests_need_four_packages_and_others_are_skipped():
    folder = REPOSITORY / "tests" / "kernels"
    files = (folder / "test_kernel_spec.py", folder / "block_table" / "test_numbers.py")
    _python, _m, *command = pytest_command(*files)
    done = with_few_packages(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_numbers.py is skipped: it needs hypothesis" in done.stdout
    assert "passed" in done.stdout


def test_a_missing_package_is_found_through_files_of_tests(tmp_path):
    (tmp_path / "tests").mkdir()
    helper, test = tmp_path / "tests" / "helper.py", tmp_path / "tests" / "test_it.py"
    test.write_text("import json\nfrom tests.helper import x\n")
    helper.write_text("import numpy\n")
    assert missing_package(test) is None
    helper.write_text("from no_such_package.part import x\n")
    assert missing_package(test) == "no_such_package"


def counting(folder, name, code):
    """A piece that notes each run in a file."""
    log = folder / "log"
    run = f"open({str(log)!r}, 'a').write({name!r} + ' ')\n{code}"
    return Piece(name, (sys.executable, "-c", run))


def test_a_run_goes_on_where_it_was_stopped(tmp_path):
    log, lines = tmp_path / "log", []
    chosen = [
        counting(tmp_path, "right", ""),
        counting(tmp_path, "wrong", "raise SystemExit(1)"),
        counting(tmp_path, "endless", "import time; time.sleep(60)"),
        Piece("absent", ("no-such-program",), skipped="no-such-program is not on PATH"),
    ]
    found = run_pieces(chosen, tmp_path, "one", lines.append, piece_s=3)
    assert [outcome.status for outcome in found] == ["ok", "failed", "cut off", "skipped"]
    assert log.read_text() == "right wrong endless "
    # only what did not run to its end runs again
    found = run_pieces(chosen, tmp_path, "one", lines.append, piece_s=3)
    assert log.read_text() == "right wrong endless endless "
    # other code: everything is out of date; and no piece begins that could end too late
    assert run_pieces(chosen, tmp_path, "two", lines.append, seconds=1, piece_s=3) == []
    assert log.read_text() == "right wrong endless endless "
    assert sum("run the command again" in line for line in lines) == 4
    text = summary(found, 5)
    assert "1 ok, 1 failed, 1 cut off, 1 skipped" in text
    assert "1 pieces are left" in text
    assert "no-such-program is not on PATH" in text


def test_of_a_long_output_the_end_is_kept(tmp_path):
    code = f"print('first' + ' ' * {TAIL} + 'last')"
    [found] = run_pieces([counting(tmp_path, "long", code)], tmp_path, "one", print, piece_s=30)
    assert len(found.output) == TAIL
    assert found.output.split() == ["last"]


MEETING = """
import pathlib, sys, time
folder, name, others = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
(folder / name).touch()
end = time.monotonic() + 20
while not all((folder / other).exists() for other in others):
    assert time.monotonic() < end
    time.sleep(0.01)
"""
ALONE = """
import pathlib, sys, time
running = pathlib.Path(sys.argv[1])
running.touch(exist_ok=False)
time.sleep(0.3)
running.unlink()
"""


def test_workers_run_tests_at_a_time_and_benchmarks_alone(tmp_path):
    def meeting(name, other):
        command = (sys.executable, "-c", MEETING, str(tmp_path), name, other)
        return Piece(f"test {name}", command)

    def timed(name):
        command = (sys.executable, "-c", ALONE, str(tmp_path / "running"))
        return Piece(f"bench {name}", command, alone=True)

    chosen = [meeting("a", "b"), meeting("b", "a"), timed("c"), timed("d")]
    found = run_pieces(chosen, tmp_path, "one", lambda _line: None, piece_s=30, workers=2)
    assert [(outcome.name, outcome.status) for outcome in found] == [
        (piece.name, "ok") for piece in chosen
    ]


def test_benchmarks_with_chosen_peers(tmp_path):
    for piece in pieces(tmp_path, peers="vllm,cudnn"):
        assert ("vllm,cudnn" in piece.command) == piece.name.startswith("bench")
    plan = Plan((), True, print, peers=("vllm", "bit"))
    assert [name for name in ("fast", "vllm 0.33.0", "bitwise", "torch") if plan.has(name)] == [
        "fast",
        "vllm 0.33.0",
        "bitwise",
    ]
    assert Plan((), True, print).has("torch")


def test_there_is_a_piece_for_every_test_file_and_case(tmp_path):
    names = [piece.name for piece in pieces(tmp_path)]
    assert len(set(names)) == len(names)
    files = {path.name for path in (REPOSITORY / "tests" / "kernels").rglob("test_*.py")}
    tested = {name.rpartition("/")[2].removeprefix("test ") for name in names}
    assert files <= tested
    assert {"bench block-table W7", "bench flex D2"} <= set(names)
    for piece in pieces(tmp_path):
        if piece.name.startswith("sanitizer"):
            assert bool(piece.skipped) == (piece.command[0] == "compute-sanitizer")


def test_every_notebook_that_launches_kernels_has_a_piece_which_wants_a_gpu(tmp_path):
    found = {piece.name: piece for piece in pieces(tmp_path) if piece.name.startswith("notebook")}
    table = tomllib.loads(MATRIX.read_text(encoding="utf-8"))["notebook"]
    wanted = {}
    for notebook, entry in table.items():
        cases = (
            {name: case for name, case in entry["cases"].items() if case.get("gpu")}
            if ("cases" in entry)
            else {}
        )
        launches = "kernels_ran_in" in entry["results"]
        assert bool(cases) == launches, notebook
        for name, case in cases.items():
            assert case["expect"]["kernels_ran_in"] == "gpu"
            wanted[f"notebook {notebook.removesuffix('.ipynb')}::{name}"] = case["gpu"] == "alone"
    assert {name: piece.alone for name, piece in found.items()} == wanted
    assert [*wanted.values()].count(True) == 2
    # the matrix runs what contains the text of --only
    ids = [piece.command[piece.command.index("--only") + 1] for piece in found.values()]
    assert not any(one != other and one in other for one in ids for other in ids)


def test_a_rehearsal_runs_notebooks_small_and_without_a_gpu(tmp_path):
    for piece in pieces(tmp_path, reduced=True):
        if piece.name.startswith("notebook"):
            assert "--parameter=smoke=true" in piece.command
            assert "--matrix" not in piece.command


@pytest.mark.thorough
def test_labs_are_skipped_where_their_packages_are_missing(tmp_path):
    arguments = ("--rehearse", "--only", "lab ,notebook", "--results", str(tmp_path))
    done = with_few_packages("workbench.kernels.gpu", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "notebook 05_block_tables::gpu: skipped" in done.stdout
    assert "lab test_flex_launch.py: skipped" in done.stdout
    assert " papermill, " in done.stdout
    assert ": ok" not in done.stdout


def test_what_a_piece_runs_besides_kernels_is_part_of_its_source(tmp_path):
    piece = counting(tmp_path, "notebook one", "")
    for more in ("a", "a", "b"):
        changed = replace(piece, more_source=more)
        [found] = run_pieces([changed], tmp_path, "one ", print, piece_s=30)
        assert (found.status, found.source) == ("ok", f"one {more}")
    assert (tmp_path / "log").read_text().count("notebook one") == 2


@pytest.mark.parametrize(
    ("must", "aim", "value", "said"),
    [
        (3, 6, 2.99, "missed"),
        (3, 6, 3, "reached"),
        (3, 6, 5.99, "reached"),
        (3, 6, 6, "aim reached"),
        (1.3, 1.15, 1.31, "missed"),
        (1.3, 1.15, 1.3, "reached"),
        (1.3, 1.15, 1.15, "aim reached"),
    ],
)
def test_a_goal_is_reached_at_its_limit(must, aim, value, said):
    assert Goal("", "", must, aim, lambda _results: value).verdict(()) == (f"{value:.2f}", said)


def test_goals_are_read_from_the_results(tmp_path):
    assert goals_table(tmp_path).count("not measured") == len(GOALS)
    step = {"clock": "wall", "piece": "step"}
    for case, ratio in (("W1", 2.0), ("W2", 8.0)):
        peers = {"fast": 1.0, "fast, arrays": 0.5, "vllm 0.33.0": ratio}
        rows = [
            {**step, "workload": case, "peer": n, "ratio": {"median": r}} for n, r in peers.items()
        ]
        result = {"steps": rows}
        (tmp_path / f"block-table {case}.json").write_text(json.dumps(result))
    rate = {"peer": "fast", "us": 100.0, "copy_bytes_per_s": 4e12}
    flex = [{**rate, "case": "P2", "flop": 46e9}, {**rate, "case": "D2", "bytes": 3e8, "flop": 1}]
    bits = [{"promised": True, "differing": 3}, {"promised": False, "differing": 9}]
    text = json.dumps({"rates": flex, "bits": bits})
    (tmp_path / "flex P2.json").write_text(text)
    table = {line.split("  ")[0]: line for line in goals_table(tmp_path).splitlines()}
    step = "block tables, a step, wall, vLLM 0.33 / ours"
    assert table[f"{step}, lists"].split()[-2:] == ["4.00", "reached"]
    assert table[f"{step}, arrays"].split()[-3:] == ["8.00", "aim", "reached"]
    assert table["prefill of 8K, page 64"].endswith("460.00    aim reached")
    assert table["decode of 64 x 8K"].endswith("75.00     missed")
    assert table["elements with other bits where equal ones are promised"].endswith("missed")
