"""What `make gpu` gives to its pieces, counts of them, and wants of their results."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from workbench.kernels.bench import __main__ as bench_command
from workbench.kernels.gpu import __main__ as gpu_command
from workbench.kernels.gpu import pieces as gpu_pieces
from workbench.kernels.gpu.__main__ import summary
from workbench.kernels.gpu.goals import goals_table
from workbench.kernels.gpu.pieces import PIECE_S, Outcome, Piece, code_hash, pieces, run_pieces
from workbench.kernels.mode import TritonMode


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """A function: arguments, mode, how pieces end -> exit code, what is printed, what is given."""
    given = []

    def run(*arguments, mode="gpu", ends=("ok",)):
        decided = TritonMode(mode, "no such GPU", "NVIDIA H200 (1)" * (mode == "gpu"), "3", "2")
        monkeypatch.setattr(gpu_command, "triton_mode", lambda: decided)

        def run_them(chosen, folder, source, say, **limits):
            given.append(SimpleNamespace(chosen=chosen, folder=folder, source=source, **limits))
            say("run")
            return [
                Outcome(piece.name, end, 1.0, source)
                for piece, end in zip(chosen, ends, strict=False)
            ]

        monkeypatch.setattr(gpu_command, "run_pieces", run_them)
        return gpu_command.main([*arguments, "--results", str(tmp_path / "results")]), given

    return run


def test_by_default_all_pieces_run_one_at_a_time_without_a_limit(ran, capsys, tmp_path):
    code, [found] = ran()
    assert [piece.name for piece in found.chosen] == [piece.name for piece in pieces(tmp_path)]
    assert found.folder == tmp_path / "results" / "NVIDIA-H200-1"
    assert (found.seconds, found.piece_s, found.workers) == (float("inf"), 9 * 60, 1)
    assert found.source == code_hash("kernels", "tests/kernels")
    assert code == 1  # one of them ran
    text = capsys.readouterr().out
    assert text.startswith(f"NVIDIA H200 (1): {len(found.chosen)} pieces; results in ")
    assert "\n1 ok\n" in text
    assert "not measured" in text


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        (("ok", "ok"), 0),
        (("ok", "skipped"), 0),
        (("ok", "failed"), 1),
        (("failed", "ok"), 1),
        (("ok", "cut off"), 1),
        (("ok",), 1),
        ((), 1),
    ],
)
def test_a_run_is_right_when_every_piece_is(ran, ends, code):
    arguments = ("--only", "bench flex P1,bench flex D1", "--minutes", "9", "--workers", "3")
    found, [given] = ran(*arguments, ends=ends)
    assert found == code
    names = [piece.name for piece in given.chosen]
    assert {name.removeprefix("bench flex ")[:2] for name in names} == {"P1", "D1"}
    assert (given.seconds, given.workers) == (540.0, 3)


@pytest.mark.parametrize("mode", ["gpu", "interpreter"])
def test_a_rehearsal_is_reduced_and_a_run_is_not(ran, capsys, mode):
    chosen = ("--only", "bench flex P1", "--peers", "vllm", "--piece-s", "7")
    code, [given] = ran(*chosen, *["--rehearse"] * (mode != "gpu"), mode=mode)
    [piece] = given.chosen
    assert ("--quick" in piece.command) == (mode != "gpu")
    assert piece.command[-2:] == ("--peers", "vllm")
    assert (code, given.piece_s) == (0, 7.0)
    assert capsys.readouterr().out.startswith("NVIDIA" if mode == "gpu" else "no such GPU: 1")


def test_of_what_did_not_end_well_the_last_lines_are_shown():
    lines = "\n".join(map(str, range(20)))
    outcomes = [Outcome(end, end, 1.0, "", lines) for end in ("ok", "failed", "cut off", "skipped")]
    counts, left, failed, *rest = summary(outcomes, 6).split("\n", 3)
    assert counts == "1 ok, 1 failed, 1 cut off, 1 skipped"
    assert left == "2 pieces are left: run the same command again"
    assert failed == "failed: failed"
    shown = [f"  {line}" for line in range(8, 20)]
    assert rest[0].split("\n") == [*shown, "cut off: cut off", "  19", "skipped: skipped", "  19"]
    assert summary([], 0) == "nothing ran"
    assert summary(outcomes[:1], 1) == "1 ok"


def test_a_hash_is_that_of_names_and_contents():
    found = code_hash("kernels/gpu")
    assert len(found) == 12
    assert found == code_hash("kernels/gpu")
    assert found not in {code_hash("kernels/bench"), code_hash("kernels/gpu", "kernels/bench")}


def test_a_piece_is_run_for_its_time_and_that_is_kept(monkeypatch, tmp_path):
    now = [100.0]
    monkeypatch.setattr(gpu_pieces.time, "monotonic", lambda: now[0])

    def ended(command, *, timeout, **_options):
        assert timeout == 60.0
        now[0] += 25.0
        if command[0] == "endless":
            raise subprocess.TimeoutExpired(command, timeout, output=None)
        return SimpleNamespace(returncode=int(command[0]), stdout="said")

    monkeypatch.setattr(subprocess, "run", ended)
    said = []
    chosen = [Piece(name, (name,)) for name in ("0", "1", "5", "endless")]
    found = run_pieces(chosen, tmp_path, "one", said.append, piece_s=60.0, seconds=160.0)
    assert [(one.status, one.seconds) for one in found] == [
        ("ok", 25.0),
        ("failed", 25.0),
        ("skipped", 25.0),
        ("cut off", 25.0),
    ]
    assert found[-1].output == ""
    assert said == [
        "0: ok (25 s)",
        "1: failed (25 s)",
        "5: skipped (25 s)",
        "endless: cut off (25 s)",
    ]
    kept = json.loads((tmp_path / "0.outcome.json").read_text(encoding="utf-8"))
    assert kept == {"name": "0", "status": "ok", "seconds": 25.0, "source": "one", "output": "said"}
    # what is skipped runs again, and as long as a piece takes no less than what is left
    said.clear()
    again = run_pieces(chosen, tmp_path, "one", said.append, piece_s=60.0, seconds=60.0)
    assert [one.status for one in again] == ["ok", "failed", "skipped"]
    assert said == [
        "5: skipped (25 s)",
        "endless: not begun, 35 s are left; run the command again",
    ]


def test_programs_that_are_not_installed_are_said(monkeypatch, tmp_path):
    for there in ("/opt/bin/compute-sanitizer", None):
        monkeypatch.setattr(gpu_pieces.shutil, "which", lambda _name, found=there: found)
        monkeypatch.setattr(gpu_pieces, "find_spec", lambda _name, found=there: found)
        found = {piece.name: piece for piece in pieces(tmp_path)}
        sanitizer = found["sanitizer block_table/test_memory.py"]
        assert sanitizer.command[0] == (there or "compute-sanitizer")
        assert sanitizer.command[1:3] == ("--error-exitcode", "1")
        assert bool(sanitizer.skipped) == (there is None)
        labs = [piece for name, piece in found.items() if name.startswith(("lab", "notebook"))]
        why = "" if there else f"not installed: {', '.join(gpu_pieces.LAB_PACKAGES)}"
        assert {piece.skipped for piece in labs} == {why}

    def broken(name):
        raise ImportError(name)

    monkeypatch.setattr(gpu_pieces, "find_spec", broken)
    assert not gpu_pieces._is_here("plotly")


def test_a_piece_has_the_module_it_is_of(tmp_path):
    by_name = {piece.name: piece for piece in pieces(tmp_path)}
    assert by_name["bench flex D2"].command == (
        *(sys.executable, "-m", "workbench.kernels.bench", "flex", "--cases", "D2", "--json"),
        str(tmp_path / "flex D2.json"),
    )
    assert all(piece.alone for name, piece in by_name.items() if name.startswith("bench"))
    assert not any(piece.alone for name, piece in by_name.items() if name.startswith("test"))
    drills = [name for name in by_name if name.startswith("drill")]
    assert drills == ["drill paged_flex/test_bits.py", "drill paged_flex/test_programs.py"]
    assert not {f"test {name.removeprefix('drill ')}" for name in drills} & by_name.keys()


WANTED = {
    "block tables, a step, wall, vLLM 0.33 / ours, lists": "3 x 6",
    "block tables, a step, wall, vLLM 0.33 / ours, arrays": "3 x 6",
    "prefill of 8K, page 64": "350 TFLOP/s 450",
    "prefill of 8K, page 528": "350 TFLOP/s 450",
    "decode of 64 x 8K": "80 % of copy 90",
    "bitwise / fast, prefill": "1.3 x 1.15",
    "bitwise / fast, decode": "1.15 x 1.05",
    "elements with other bits where equal ones are promised": "0",
}
"""The figures of the project's plan for its kernels: what is accepted, and what is aimed at."""


def test_goals_are_those_of_the_plan(tmp_path):
    _head, *lines = goals_table(tmp_path).splitlines()
    found = {}
    for line in lines:
        name, *figures = filter(None, map(str.strip, line.split("  ")))
        found[name] = " ".join(figures).removesuffix(" - not measured")
    assert found == WANTED


def test_goals_are_means_over_their_own_cases(tmp_path):
    cold = {"clock": "gpu cold", "piece": "attention", "peer": "bitwise"}
    ratios = {"P1": 1.0, "P2": 1.44, "P5": 9.0, "D1": 1.05, "D6": 9.0}
    steps = [{**cold, "workload": name, "ratio": {"median": one}} for name, one in ratios.items()]
    steps.append({**steps[0], "peer": "fast", "ratio": {"median": 50.0}})
    wall = {"clock": "wall", "piece": "step"}
    for case, peer, ratio in (
        ("W1", "fast", 2.0),
        ("W1", "vllm 0.33.0", 7.0),
        ("W1", "vllm 0.23.0", 99.0),
        ("W2", "fast", 1.0),
    ):
        steps.append({**wall, "workload": case, "peer": peer, "ratio": {"median": ratio}})
    rate = {"peer": "fast", "us": 64.0, "copy_bytes_per_s": 4e12, "bytes": 204_800_001}
    rates = [{**rate, "case": "D2", "flop": 1}, {**rate, "case": "P6", "flop": 22_400_640_001}]
    bits = [{"promised": False, "differing": 9}, {"promised": True, "differing": 0}]
    result = {"steps": steps, "rates": rates, "bits": bits}
    (tmp_path / "flex all.json").write_text(json.dumps(result), encoding="utf-8")
    table = {line.split("  ")[0]: line.split()[-3:] for line in goals_table(tmp_path).splitlines()}
    assert table["bitwise / fast, prefill"] == ["1.15", "1.20", "reached"]
    assert table["bitwise / fast, decode"] == ["1.05", "aim", "reached"]
    assert table["block tables, a step, wall, vLLM 0.33 / ours, lists"] == ["6", "3.50", "reached"]
    assert table["decode of 64 x 8K"] == ["90", "80.00", "reached"]
    assert table["prefill of 8K, page 528"] == ["450", "350.01", "reached"]
    assert table["elements with other bits where equal ones are promised"][1:] == [
        "0.00",
        "reached",
    ]


def test_a_piece_ends_within_nine_minutes():
    assert PIECE_S == 9 * 60


@pytest.mark.parametrize("command", [gpu_command, bench_command])
def test_a_line_is_shown_when_it_is_said_also_in_a_pipe(command):
    assert command._say.keywords == {"flush": True}
