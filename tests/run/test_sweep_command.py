"""`wb.sweep`, `workbench sweep` and `workbench results`."""

from __future__ import annotations

import csv
import io
import json

import pytest
from typer.testing import CliRunner

import workbench as wb
from workbench.cli import app
from workbench.run.store import Key, ResultStore, Row
from workbench.sweeping import parse_axes

START = ["sweep", "qwen3.5-4b", "-a", "tensor_parallel=1,2", "-a", "kv_cache_dtype=auto,fp8"]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_point_is_the_scenario_that_it_names():
    found = wb.sweep(wb.Scenario(model="qwen3.5-4b"), tensor_parallel=(1, 2), block_size=(None, 64))
    for point in range(len(found)):
        plan = found.plan_of(point)
        assert plan.block_size == found.table.row(point)["block_size"]
        assert plan.settings.tensor_parallel == found.rows([point])[0]["sets"]["tensor_parallel"]
    with pytest.raises(IndexError, match="0 to 3"):
        found.plan_of(4)
    assert "4 points" in repr(found)
    assert "<b>4</b> points" in found._repr_html_()


def test_models_sizes_with_units_and_rule_sets_can_vary():
    found = wb.sweep(
        model=("llama-3.1-8b", "qwen3.5-4b"),
        kv_cache_memory_bytes=("20 GiB", 10 * 2**30),
        rules=("0.23", "before-37467"),
        backend=(None, "FLASH_ATTN"),
    )
    assert len(found) == 16
    assert found.scenario_of(0).model == "llama-3.1-8b"
    assert found.scenario_of(15).model == "qwen3.5-4b"
    assert {row["sets"]["kv_cache_memory_bytes"] for row in found.rows()} == {
        20 * 2**30,
        10 * 2**30,
    }


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ({"tensor_paralel": (1,)}, "tensor_parallel"),
        ({"backend": ("FLASH",)}, "FLASHINFER"),
        ({"block_size": 16}, "several values"),
        ({"block_size": (0,)}, "from 1"),
        ({"block_size": ()}, "no values"),
    ],
)
def test_what_no_scenario_has_is_refused(axes, said):
    with pytest.raises(wb.ScenarioError, match=said):
        wb.sweep(wb.Scenario(model="llama-3.1-8b"), axes)


def test_axes_as_text():
    assert parse_axes("rules = 0.23\n\ntensor_parallel=1, 2\nbackend = null, FLASH_ATTN") == {
        "rules": ("0.23",),
        "tensor_parallel": (1, 2),
        "backend": (None, "FLASH_ATTN"),
    }
    assert parse_axes("mamba_cache_mode = none, align") == {"mamba_cache_mode": ("none", "align")}


def test_the_command_tells_counts_and_points():
    done = run(*START)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("4 points: ")
    lines = [json.loads(line) for line in run(*START, "--format", "jsonl").output.splitlines()]
    assert len(lines) == 4
    rows = list(csv.DictReader(io.StringIO(run(*START, "--format", "csv").output)))
    assert {row["set_kv_cache_dtype"] for row in rows} == {"auto", "fp8"}
    assert {int(row["block_size"]) for row in rows} == {row["block_size"] for row in lines}
    assert len(run(*START, "--front", "--format", "jsonl").output.splitlines()) <= 4


def test_the_command_tells_why():
    done = run(*START, "--why", "1")
    assert "kv_cache_dtype: auto -> fp8" in done.output
    assert run(*START, "--why", "9").exit_code == 2


@pytest.mark.parametrize(
    "arguments", [["-a", "tensor_parallel"], ["-a", "nothing=1"], ["--format", "xml"]]
)
def test_the_command_refuses_with_2(arguments):
    done = run("sweep", "qwen3.5-4b", *arguments)
    assert done.exit_code == 2
    assert done.output


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "results.db"
    with ResultStore(path) as store:
        for kernel, factor in (("old", 2.0), ("new", 1.0)):
            for number in range(3):
                key = Key.of({"number": number}, "H100", kernel)
                store.put(Row(key, n=5, median_s=factor * 1e-5 * (number + 1)))
        store.put(Row(Key.of({"number": 9}, "H100", "new"), "oom", "asked for 90 GiB"))
    return path


def test_results_are_listed(file):
    done = run("results", "list", file)
    assert done.exit_code == 0, done.output
    assert "oom" in done.output
    assert "20.0 us" in done.output
    rows = [json.loads(line) for line in run("results", "list", file, "--json").output.splitlines()]
    assert len(rows) == 7
    assert len(run("results", "list", file, "--kernel", "old", "--json").output.splitlines()) == 3


def test_kernels_are_compared_only_when_asked(file):
    sides = ("--kernel", "old", "--with-kernel", "new")
    refused = run("results", "compare", file, *sides)
    assert refused.exit_code == 2
    assert "different kernels" in refused.output
    done = run("results", "compare", file, *sides, "--across-kernels")
    assert done.output.count(" 0.50x") == 3
    assert "3 configurations on both sides" in done.output


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_results_are_exported_and_nothing_is_overwritten(file, tmp_path, ending):
    target = tmp_path / f"out.{ending}"
    assert run("results", "export", file, target).exit_code == 0
    text = target.read_text()
    assert len(text.splitlines()) == 7 + (ending == "csv")
    if ending == "jsonl":
        assert Row.from_dict(json.loads(text.splitlines()[0])).n == 5
    assert run("results", "export", file, target).exit_code == 2
    assert target.read_text() == text


def test_no_such_file_and_no_such_format(file, tmp_path):
    assert run("results", "list", tmp_path / "none.db").exit_code == 2
    assert run("results", "export", file, tmp_path / "out.xml").exit_code == 2
