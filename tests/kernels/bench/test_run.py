"""The benchmark end to end, as a person starts it."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from workbench.kernels.mode import triton_mode

GPU = triton_mode().mode == "gpu"


def bench(*arguments, **environment):
    command = [sys.executable, "-m", "workbench.kernels.bench", *arguments]
    without = {name: value for name, value in os.environ.items() if name != "VLLM_SRC"}
    return subprocess.run(
        command, capture_output=True, text=True, env={**without, **environment}, check=False
    )


@pytest.mark.thorough
@pytest.mark.slow
def test_quick_run(tmp_path):
    file = tmp_path / "result.json"
    done = bench("block-table", "--quick", "--workloads", "W4,W7", "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    result = SimpleNamespace(**json.loads(file.read_text(encoding="utf-8")))
    assert result.quick
    assert {v["workload"] for v in result.verdicts} == {"W4", "W7"}
    own = {"fast", "fast, arrays", "faithful"}
    assert {v["peer"] for v in result.verdicts} == own | {"torch"}
    assert all(v["ok"] for v in result.verdicts)
    assert any("VLLM_SRC is not set" in line for line in result.open_questions)
    assert "VLLM_SRC is not set" in done.stdout
    assert str(tmp_path) not in file.read_text(encoding="utf-8")
    if GPU:
        clocks = {row["clock"] for row in result.steps}
        # next to other work a flush can hide a step, which is said
        hidden = any("no cold GPU time" in line for line in result.open_questions)
        assert clocks | ({"gpu cold"} if hidden else set()) == {"wall", "gpu cold", "gpu hot"}
        assert result.machine["device"] in done.stdout
        # what needs no GPU takes no time on one
        assert result.host_steps == result.gate == result.expansions == []
    else:
        assert {row["workload"] for row in result.host_steps} == {"W4", "W7"}
        assert {row["target"] for row in result.gate} == {"sm_90"}
        assert {row["spill_bytes"] for row in result.gate} == {0}
        assert result.expansions
        # the interpreter never reports a time
        assert result.steps == result.floors == result.scores == []
        assert result.launch_us is None
        assert {row["workload"] for row in result.counts} == {"W4", "W7"}
        assert any("GPU times are open" in line for line in result.open_questions)
        assert "kernels are not timed" in done.stdout


@pytest.mark.thorough
def test_an_unknown_workload_is_refused_with_those_there_are():
    done = bench("block-table", "--workloads", "W9")
    assert done.returncode == 2
    assert "Invalid workload 'W9'" in done.stdout
    assert "W1, W2" in done.stdout


def test_nothing_runs_where_a_gpu_is_required_and_missing():
    if GPU:
        pytest.skip("there is a GPU")
    done = bench("block-table", "--workloads", "W1", TRITON_INTERPRET="0")
    assert done.returncode == 2
    assert "Nothing can run here" in done.stdout
