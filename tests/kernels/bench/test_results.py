"""A result is written as published results are, and reads as tables."""

import dataclasses
import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from workbench.kernels.bench import report as reports
from workbench.kernels.bench.machine import this_machine
from workbench.kernels.bench.ratios import QUICK_ROUNDS
from workbench.kernels.bench.report import report, table
from workbench.kernels.bench.results import (
    FLEX_GATE,
    TABLES_GATE,
    BitsRow,
    CountRow,
    ExpansionRow,
    FlexResult,
    FloorRow,
    MetadataRow,
    RateRow,
    Score,
    Spread,
    StepRow,
    TablesResult,
    Verdict,
)

PUBLISHED = Path(__file__).parents[3] / "benchmarks" / "results"
ONE, TWO = Spread(1.0, 1.0, 1.0, 5), Spread(2.5, 2.25, 3.0, 5)


def full_result():
    machine = {
        "device": "NVIDIA H200",
        "mode": "gpu",
        "driver": "570.1",
        "cpu": "some CPU",
        "python": "3.12.1",
        "torch": "2.11",
        "triton": "3.6",
        "numpy": "2.5",
        "source_hash": "abc",
        "date": "2026-01-02",
    }
    return TablesResult(
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
        dry_steps=[StepRow("W1", "step", "dry", "fast", "this", TWO, ONE, 1.0)],
        dry_scores=[Score("dry", "vllm 0.33.0", 3.0, 1)],
        expansions=[ExpansionRow(8, 66, "list", TWO, ONE, 0.5)],
        gate=[
            dict(zip(TABLES_GATE, ("fast apply", "sm_90", 32, 0, 0, 99, 16, 16, 0), strict=True))
        ],
        counts=[CountRow("W1", "fast", 2, 5, 100, 50, 600)],
    )


ROWS = {
    "verdicts": Verdict,
    "host_steps": StepRow,
    "host_scores": Score,
    "dry_steps": StepRow,
    "dry_scores": Score,
    "expansions": ExpansionRow,
    "counts": CountRow,
}


def test_the_published_result_has_the_fields_of_todays():
    published = json.loads((PUBLISHED / "block_table_cpu.json").read_text(encoding="utf-8"))
    assert published.pop("benchmark") == TablesResult.benchmark
    assert published.keys() == names(TablesResult)
    assert (published["quick"], published["rounds"]) == (True, QUICK_ROUNDS)
    assert published["machine"].keys() == this_machine("block_table").keys()
    assert all(row.keys() == set(TABLES_GATE) for row in published["gate"])
    for field, row in ROWS.items():
        for one in published.get(field, []):
            assert one.keys() == names(row), field


def names(record):
    return {field.name for field in dataclasses.fields(record)}


def test_a_result_is_written_as_it_is():
    written = json.loads(full_result().to_json())
    assert written.keys() == {"benchmark", *names(TablesResult)}
    assert written["machine"]["device"] == "NVIDIA H200"
    assert full_result().to_json().startswith('{\n "benchmark": "block-table",\n')
    assert written["steps"][1]["ratio"] == {"median": 2.5, "low": 2.25, "high": 3.0, "n": 5}


def test_the_report_has_every_finding():
    text = report(full_result())
    for shown in (
        "NVIDIA H200, driver 570.1",
        "4.30 TB/s",
        "2.25 us",
        "WRONG, not timed: W1 broken: 3 slots differ",
        "2.50x (2.25x-3.00x)",
        "torch / fast = 2.50x over 1 workloads",
        "2.00",  # over the floor
        "fast, us",
        "fast apply",
        "Open: No vLLM to compare with.",
    ):
        assert shown in text
    assert max(map(len, text.split("\n"))) < 160


def test_attention_is_reported_against_its_limits():
    result = FlexResult(full_result().machine, quick=True, rounds=5)
    result.copy_bytes_per_s, result.matmul_flop_per_s, result.launch_us = 4e12, 8e14, 2.0
    result.rates = [
        RateRow(
            case="D1",
            peer="fast",
            us=10.0,
            flop=4 * 10**9,
            bytes=2 * 10**7,
            matmul_flop_per_s=8e14,
            copy_bytes_per_s=4e12,
        )
    ]
    values = ("decode", "sm_90", 99, 0, 2048, 7, 4096, ("mma m16n8k16",), "ours")
    result.gate = [dict(zip((*FLEX_GATE, "source"), values, strict=True))]
    text = report(result)
    for shown in ("matmul 800 TFLOP/s", "400.00", "0.50", "2.00", "mma m16n8k16", "4,096"):
        assert shown in text
    assert "widest load" not in text


def test_columns_are_aligned():
    lines = table("T", [["", "a"], ["long name", "12345"]]).split("\n")
    assert lines == ["T", "               a", "long name  12345"]


def test_the_machine_lists_its_versions():
    machine = this_machine("block_table")
    assert machine["source_hash"] == this_machine("block_table")["source_hash"]
    assert len(machine["source_hash"]) == 12
    assert machine["numpy"]
    assert machine["torch"]


def test_rates_and_floors_are_shares():
    floor = FloorRow("W1", "step", 1_048_576, 0.25, 4.0, 10.0)
    assert (floor.over_floor, floor.of_copy) == (2.5, 0.025)
    rate = RateRow(
        case="D1",
        peer="fast",
        us=16.0,
        flop=5_000_000_040,
        bytes=20_000_008,
        matmul_flop_per_s=8e14,
        copy_bytes_per_s=4e12,
    )
    assert rate.tflop_per_s == pytest.approx(312.5000025, rel=1e-12)
    assert rate.tb_per_s == pytest.approx(1.2500005, rel=1e-12)
    assert rate.of_matmul == pytest.approx(312.5000025 / 800, rel=1e-12)
    assert rate.of_copy == pytest.approx(1.2500005 / 4, rel=1e-12)


def test_a_ratio_is_marked_where_it_is_inside_the_noise():
    close = Spread(1.02, 0.98, 1.04, 5)
    far = Spread(250.0, 100.0, 400.0, 5)

    def shown(ratio, reported):
        return reports._ratio(StepRow("W1", "step", "wall", "torch", "", TWO, ratio, reported))

    assert shown(close, 1.0) == "= 1.02x (0.98x-1.04x)"
    assert shown(close, 1.02) == "1.02x (0.98x-1.04x)"
    assert shown(ONE, 1.0) == "1.00x (1.00x-1.00x)"
    assert shown(far, 250.0) == "250x (100x-400x)"
    assert reports._times(99.99) == "99.99x"


def test_values_are_written_by_their_kind():
    texts = {(): "-", ("a", "b"): "a, b", 1234.5: "1,234.50", 1234: "1,234", "W1": "W1"}
    assert {value: reports._text(value) for value in texts} == texts


def test_what_is_right_with_a_remark_is_listed_once():
    result = full_result()
    result.machine["driver"] = None
    result.verdicts = [Verdict(name, "flex", True, "needs zeros") for name in ("W1", "W2")]
    result.verdicts += [Verdict("W1", "fast", True), Verdict("W1", "broken", False, "off")]
    text = report(result)
    assert text.startswith("NVIDIA H200; some CPU\n")
    assert "Correct: 3 of 4\n  WRONG, not timed: W1 broken: off\n" in text
    assert "  flex: needs zeros (W1, W2)\n" in text
    assert "fast:" not in text
    # nothing is said of what was not measured
    result.verdicts, result.copy_bytes_per_s, result.expansions = [], None, []
    text = report(result)
    assert "Correct:" not in text
    assert "copy bandwidth" not in text
    assert "Host expansion" not in text


def test_expansions_are_shown_next_to_the_list():
    result = full_result()
    result.expansions.append(ExpansionRow(8, 66, "numpy", TWO, TWO, 0.25))
    lines = [" ".join(line.split()) for line in report(result).split("\n")]
    assert "8 x 66 2.50 us 2.50x" in lines
    assert "8 x 66 0.500 0.250" in lines


def test_metadata_that_grows_with_the_pool_and_bits_without_a_promise_show():
    result = FlexResult(full_result().machine, quick=True, rounds=5)
    result.metadata = [
        MetadataRow("D1", "fast", 2048, 2048),
        MetadataRow("D1", "flex paged", 1024, 4096),
        MetadataRow("D1", "flex dense", 0, None),
    ]
    result.bits = [
        BitsRow("D1", "fast", "alone", 4096, 0, True),
        BitsRow("D1", "fast", "chunk", 4096, 7, False),
    ]
    lines = [" ".join(line.split()) for line in report(result).split("\n")]
    assert "D1 2.0 1.0 -> 4.1 0.0" in lines
    assert "D1 alone 0 of 4,096" in lines
    assert "D1 chunk 7 of 4,096 (not promised)" in lines
