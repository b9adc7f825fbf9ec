"""A result survives its JSON, and reads as tables."""

import json

import pytest

pytest.importorskip("torch")

from workbench.kernels.bench.checking import Verdict
from workbench.kernels.bench.machine import Machine, this_machine
from workbench.kernels.bench.ratios import Spread
from workbench.kernels.bench.report import report, table
from workbench.kernels.bench.rows import (
    CountRow,
    ExpansionRow,
    FloorRow,
    GateRow,
    Result,
    Score,
    StepRow,
    result_from_json,
)

ONE, TWO = Spread(1.0, 1.0, 1.0, 5), Spread(2.5, 2.25, 3.0, 5)


def full_result():
    machine = Machine(
        "NVIDIA H200",
        "gpu",
        "570.1",
        "some CPU",
        "3.12.1",
        "2.11",
        "3.6",
        "2.5",
        "abc",
        "2026-01-02",
    )
    return Result(
        machine,
        quick=False,
        rounds=5,
        open_questions=["No vLLM to compare with."],
        copy_bytes_per_s=4.3e12,
        launch_us=2.25,
        verdicts=[Verdict("W1", "fast", True), Verdict("W1", "broken", False, "3 slots differ")],
        steps=[
            StepRow("W1", "step", "wall", "fast", "this", TWO, ONE, 1.0),
            StepRow("W1", "step", "wall", "torch", "2.11", TWO, TWO, 2.5),
            StepRow("W1", "step", "gpu cold", "fast", "this", TWO, ONE, 1.0),
        ],
        scores=[Score("wall", "torch", 2.5, 1)],
        floors=[FloorRow("W1", "step", 1_048_576, 0.24, 4.5, 9.0)],
        host_steps=[StepRow("W1", "step", "host", "fast", "this", TWO, ONE, 1.0)],
        host_scores=[Score("host", "torch", 2.0, 1)],
        expansions=[ExpansionRow(8, 66, "list", TWO, ONE, 0.5)],
        gate=[GateRow("fast apply", "sm_90", 32, 0, 0, 16, 16, 0, 99)],
        counts=[CountRow("W1", "fast", 2, 5, 100, 50, 600)],
    )


def test_json_round_trip():
    result = full_result()
    again = result_from_json(result.to_json())
    assert again == result
    assert json.loads(result.to_json())["machine"]["device"] == "NVIDIA H200"


@pytest.mark.parametrize("text", ['{"benchmark": "other"}', "{}", "nonsense"])
def test_other_files_are_refused(text):
    with pytest.raises(ValueError, match=r"not a result|Expecting"):
        result_from_json(text)


def test_unknown_fields_are_refused():
    values = json.loads(full_result().to_json()) | {"surprise": 1}
    with pytest.raises(ValueError, match="surprise"):
        result_from_json(json.dumps(values))


def test_the_report_has_every_finding():
    text = report(full_result())
    for shown in (
        "NVIDIA H200, driver 570.1",
        "4.30 TB/s",
        "2.25 us",
        "WRONG, not timed: W1 broken: 3 slots differ",
        "2.50x (2.25x-3.00x)",
        "torch / fast = 2.50x over 1 workloads",
        "2.0x",  # over the floor
        "fast apply",
        "Open: No vLLM to compare with.",
    ):
        assert shown in text
    assert max(map(len, text.split("\n"))) < 160


def test_columns_are_aligned():
    lines = table("T", [["", "a"], ["long name", "12345"]]).split("\n")
    assert lines == ["T", "               a", "long name  12345"]


def test_the_machine_tells_its_versions():
    machine = this_machine()
    assert machine.source_hash == this_machine().source_hash
    assert len(machine.source_hash) == 12
    assert machine.numpy
    assert machine.torch
