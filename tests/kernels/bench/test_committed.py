"""Results that are committed are of the kernels that are committed."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from workbench.kernels.bench import machine
from workbench.kernels.bench.machine import source_hash

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
OPERATION = {"block-table": "block_table"}
"""Benchmark -> whose files its result is of. To be measured again after a change of them:

    VLLM_SRC=FOLDER python -m workbench.kernels.bench block-table --json FILE
"""


def results():
    """(name, result) of every committed run of these benchmarks."""
    for file in sorted(RESULTS.glob("*.json")):
        result = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(result, dict) and result.get("benchmark") in OPERATION:
            yield pytest.param(result, id=file.name)


@pytest.mark.parametrize("result", [*results()])
def test_a_committed_result_is_of_the_committed_kernels(result):
    assert result["machine"]["source_hash"] == source_hash(OPERATION[result["benchmark"]])


def test_there_is_a_result_that_compares_the_launch_path_with_vllm():
    (result,) = (found.values[0] for found in results() if "cpu" in found.id)
    assert {score["clock"] for score in result["dry_scores"]} == {"dry"}
    assert "vllm 0.33.0" in {score["peer"] for score in result["dry_scores"]}


@pytest.mark.parametrize("changed", ["own.py", "own.c", "../shared.py", "../shared.c"])
def test_every_source_of_an_operation_changes_its_hash(monkeypatch, tmp_path, changed):
    monkeypatch.setattr(machine, "KERNELS", tmp_path)
    own = tmp_path / "operation"
    own.mkdir()
    for name in ("own.py", "own.c", "../shared.py", "../shared.c", "notes.md"):
        (own / name).write_text("a", encoding="utf-8")
    before = source_hash("operation")
    (own / "notes.md").write_text("b", encoding="utf-8")
    assert source_hash("operation") == before
    (own / changed).write_text("b", encoding="utf-8")
    assert source_hash("operation") != before
