"""`wb.sweep`, `workbench sweep` and `workbench results`."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

import workbench as wb
from tests.commands import run
from tests.small_disk import files_of_at_most
from workbench.sweeps.language import parse_axes
from workbench.sweeps.store import Key, ResultStore, Row

START = ["sweep", "qwen3.5-4b", "-a", "tensor_parallel=1,2", "-a", "kv_cache_dtype=auto,fp8"]


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
        ({"block_size": 16}, "Expected several values"),
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


def test_the_command_prints_counts_and_points():
    done = run(*START)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("4 points: ")
    lines = [json.loads(line) for line in run(*START, "--format", "jsonl").output.splitlines()]
    assert len(lines) == 4
    rows = list(csv.DictReader(io.StringIO(run(*START, "--format", "csv").output)))
    assert {row["set_kv_cache_dtype"] for row in rows} == {"auto", "fp8"}
    assert {int(row["block_size"]) for row in rows} == {row["block_size"] for row in lines}
    assert len(run(*START, "--front", "--format", "jsonl").output.splitlines()) <= 4


def test_the_command_prints_why():
    done = run(*START, "--why", "1")
    assert "kv_cache_dtype: auto -> fp8" in done.output
    assert run(*START, "--why", "9").exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [["-a", "tensor_parallel"], ["-a", "nothing=1"], ["-a", "="], ["-a", ""], ["--format", "xml"]],
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
        store.put(Row(Key.of({"number": 9}, "H100", "new"), "oom", "requested 90 GiB"))
    return path


def test_results_are_listed(file):
    done = run("results", "list", file)
    assert done.exit_code == 0, done.output
    assert "oom" in done.output
    assert "20.0 us" in done.output
    rows = [json.loads(line) for line in run("results", "list", file, "--json").output.splitlines()]
    assert len(rows) == 7
    assert len(run("results", "list", file, "--kernel", "old", "--json").output.splitlines()) == 3


def test_kernels_are_compared_only_on_request(file):
    sides = ("--kernel", "old", "--with-kernel", "new")
    refused = run("results", "compare", file, *sides)
    assert refused.exit_code == 2
    assert "different kernels" in refused.output
    done = run("results", "compare", file, *sides, "--across-kernels")
    assert done.output.count(" 0.50x") == 3
    assert "3 configurations on both sides" in done.output


def test_a_comparison_that_is_refused_names_the_options(file):
    refused = run("results", "compare", file, file)
    assert refused.exit_code == 2
    for name in ("--kernel", "--with-kernel", "--across-kernels"):
        assert name in refused.stderr


def test_a_filter_that_no_row_fits_is_said_with_what_there_is(file, tmp_path):
    for option, value in (("--kernel", "zzz"), ("--device", "A100")):
        listed = run("results", "list", file, option, value)
        assert (listed.exit_code, listed.stdout) == (0, "")
        assert f"no row for {option} {value}" in listed.stderr
        assert "--device H100 --kernel new (4)" in listed.stderr
        target = tmp_path / "out.jsonl"
        exported = run("results", "export", file, target, option, value)
        assert exported.exit_code == 2
        assert "--kernel old (3)" in exported.stderr
        assert not target.exists()


def test_a_file_without_rows_is_said(tmp_path):
    ResultStore(tmp_path / "empty.db").close()
    listed = run("results", "list", tmp_path / "empty.db")
    assert "empty.db has no rows" in listed.stderr


def test_an_axis_without_values_shows_the_form_of_the_command():
    refused = run("sweep", "qwen3.5-4b", "-a", "tensor_parallel=")
    assert "`-a tensor_parallel=1,2,4`" in refused.stderr


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


def test_an_export_that_does_not_fit_on_the_disk_leaves_no_file(file, tmp_path):
    with ResultStore(file) as store:
        store.put(Row(Key.of({"number": 10}, "H100", "abc"), "crashed", "x" * 100_000))
    folder = tmp_path / ("long" * 25)  # longer than what a message repeats of a value
    folder.mkdir()
    target = folder / "out.csv"
    with files_of_at_most(65_536):  # of SQLite's own, one has half of that
        ended = run("results", "export", file, target)
    assert (ended.exit_code, target.exists()) == (2, False)
    assert "longlong/out.csv cannot be written" in ended.stderr


@pytest.mark.parametrize("start", list("=+-@\t\r"))
def test_a_spreadsheet_runs_nothing_that_is_exported(file, tmp_path, start):
    text = f'{start}HYPERLINK("http://example.org")'
    with ResultStore(file) as store:
        store.put(Row(Key.of({"number": 10}, text, text), "crashed", text))
    target = tmp_path / "out.csv"
    assert run("results", "export", file, target).exit_code == 0
    with target.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    cells = [cell for row in rows for cell in row.values() if "HYPERLINK" in cell]
    assert cells == [f"'{text}"] * 3
    assert any(float(row["median_s"] or 0) > 0 for row in rows)


def test_no_such_file_and_no_such_format(file, tmp_path):
    assert run("results", "list", tmp_path / "none.db").exit_code == 2
    assert run("results", "export", file, tmp_path / "out.xml").exit_code == 2


def test_the_front_is_written_for_vllm(tmp_path):
    target = tmp_path / "sweep.json"
    done = run(*START, "-s", "kv_cache_memory_bytes=20GiB", "--serve-params", target)
    assert done.exit_code == 0, done.output
    assert f"--serve-params {target}" in done.output
    found = wb.sweep(
        wb.Scenario(model="qwen3.5-4b", kv_cache_memory_bytes="20 GiB"),
        tensor_parallel=(1, 2),
        kv_cache_dtype=("auto", "fp8"),
    )
    records = json.loads(target.read_text())
    assert [record["_benchmark_name"] for record in records] == [f"point-{n}" for n in found.front]
    for record, point in zip(records, found.front, strict=True):
        wanted = found.scenario_of(point)
        assert record.get("tensor_parallel_size", 1) == wanted.tensor_parallel
        assert record.get("kv_cache_dtype", "auto") == wanted.kv_cache_dtype
    assert run(*START, "--serve-params", tmp_path / "no" / "x.json").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kernel", "flexx"], "Nearest: flex"),
        (["qwen3.5-4b", "--kernel", "flex"], "cannot be combined with MODEL"),
        (["--kernel", "flex", "-a", "tensor_parallel=1"], "cannot be combined with --axis"),
        (["--kernel", "flex", "--format", "csv"], "results export"),
        (["--kernel", "block-table", "--bitwise"], "always has one"),
        (["--replay", "-a", "tensor_parallel=1"], "--kernel is required for --replay"),
        ([*START[1:], "--why", "1", "--serve-params", "x.json"], "--why shows one point"),
    ],
)
def test_options_that_do_not_go_together(arguments, said):
    done = run("sweep", *arguments)
    assert done.exit_code == 2
    assert said in done.output


@pytest.mark.thorough
def test_a_kernel_is_measured_once_and_replayed(tmp_path):
    file = tmp_path / "results.db"
    command = ("sweep", "--kernel", "block-table", "--limit", "1", "--results", file)
    first = run(*command)
    assert first.exit_code == 0, first.output
    assert "illegal" in first.output
    assert "2 of 2" in first.output
    again = run(*command)
    assert "2 were stored already" in again.output
    replayed = run(*command[:3], "--results", file, "--replay", "--format", "jsonl")
    rows = [json.loads(line) for line in replayed.output.splitlines()]
    assert {row["status"] for row in rows} == {"ok"}
    assert [row["median_s"] for row in rows] == [None, None]
    assert run(*command[:3], "--results", tmp_path / "none.db", "--replay").exit_code == 2


TILES = {"block_m": 64, "block_n": 32, "num_warps": 4, "decode_n": 64, "split_tokens": 256}
LAYER = {"head_dim": 128, "group": 4, "dtype": "float16", "block_size": 64, "shared_bytes": 9}
BATCHES = (("prefill", 4, 2048, 2048, 2e-4), ("decode", 64, 4096, 1, 5e-5))


def flex_rows(kernel="abc", *, factor=1.0, bitwise=False, at=1.0, **changes):
    for bucket, requests, tokens, queries, seconds in BATCHES:
        config = {**LAYER, **TILES, **changes, "bitwise": bitwise, "kernel": "flex"}
        config |= {"bucket": bucket, "requests": requests, "tokens": tokens, "queries": queries}
        yield Row(
            Key.of(config, "NVIDIA H100", kernel),
            n=9,
            median_s=factor * seconds,
            correct=True,
            bitwise=True,
            provenance={"driver": "570", "torch": "2.9", "triton": "3.5", "source": kernel},
            measured_at=at,
        )


@pytest.fixture
def measured(tmp_path):
    path = tmp_path / "measured.db"
    with ResultStore(path) as store:
        for row in (
            *flex_rows(),
            *flex_rows(factor=2.0, block_m=128),
            *flex_rows(factor=3.0, bitwise=True),
            *flex_rows("older", factor=0.1, at=0.5),
        ):
            store.put(row)
    return path


def test_winners_are_printed_without_a_gpu(measured):
    done = run("results", "list", measured)
    assert "Winners of flex on NVIDIA H100, kernel abc" in done.output
    assert "Winners of flex on NVIDIA H100, kernel older" in done.output
    assert "200.0 us  block_m=64" in done.output
    assert "100.0 us  block_m=64" in done.output  # the geometric mean of 200 and 50
    assert "on all batches together" in done.output
    assert "bitwise: " in done.output
    replayed = run("sweep", "--kernel", "flex", "--replay", "--results", measured)
    assert replayed.exit_code == 0
    assert "50.0 us  block_m=64" in replayed.output


def test_the_best_flex_settings_are_exported_with_where_they_come_from(measured, tmp_path):
    folder = tmp_path / "tuned"
    folder.mkdir()
    done = run("results", "export", measured, folder, "--best")
    assert done.exit_code == 0, done.output
    [file] = folder.iterdir()
    assert file.name.endswith("dtype=float16,device_name=NVIDIA_H100.json")
    device = json.loads(file.read_text())
    provenance = device["provenance"]
    assert provenance["kernel_hash"] == "abc"
    assert (provenance["driver"], provenance["store"]) == ("570", "measured.db")
    decode, prefill = device["best"]
    assert (prefill["BLOCK_M"], prefill["BLOCK_N"], prefill["median_us"]) == (64, 32, 200)
    assert (decode["BLOCK_M"], decode["BLOCK_N"], decode["median_us"]) == (16, 64, 50)
    assert decode["q_len"] == 1
    for one in device["best"]:
        settings = one["attention_config"]
        assert settings["flex_attn_kv_block_size"] == one["kv_block_size"]
        plan = wb.resolve(model="llama-3.1-8b", backend="FLEX_ATTENTION", **settings)
        assert [problem.code for problem in plan.errors] == []
    assert run("results", "export", measured, folder, "--best").exit_code == 2
    assert run("results", "export", measured, folder, "--best", "--bitwise").exit_code == 0
    assert len(list(folder.glob("*,bitwise.json"))) == 1
    assert run("results", "export", measured, tmp_path / "none", "--best").exit_code == 2


FOREIGN = (
    {"kernel": "flex"},
    {"kernel": "block-table", "bucket": ["W2"]},
    {**TILES, **LAYER, "kernel": "flex", "bucket": "prefill", "bitwise": False},
    {**TILES, "block_m": "64"},
    {**TILES, "block_m": 7},
    {"shared_bytes": "little"},
    {"dtype": "../../x"},
)


@pytest.mark.parametrize("config", FOREIGN, ids=str)
def test_a_row_that_no_kernel_wrote_hides_no_winner(measured, tmp_path, config):
    [one, _] = flex_rows(factor=0.01)
    if config.get("kernel") is None:
        config = one.key.config_values | config
    with ResultStore(measured) as store:
        store.put(replace(one, key=Key.of(config, one.key.device, one.key.kernel_hash)))
    listed = run("results", "list", measured)
    assert listed.exit_code == 0, listed.output
    assert "Winners of flex on NVIDIA H100, kernel abc" in listed.output
    assert run("sweep", "--kernel", "flex", "--replay", "--results", measured).exit_code == 0
    (tmp_path / "tuned").mkdir()
    exported = run("results", "export", measured, tmp_path / "tuned", "--best")
    assert exported.exit_code == 0, exported.output


def test_without_times_there_is_nothing_best(file, tmp_path):
    done = run("results", "export", file, tmp_path, "--best")
    assert done.exit_code == 2
    assert "Measure on a GPU" in done.output


@pytest.mark.sampled(1)
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to handle")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_and_the_same_command_goes_on(tmp_path, number, status):
    file = tmp_path / "results.db"
    command = [sys.executable, "-m", "workbench", "sweep", "--kernel", "flex", "--results", file]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
        lines = [running.stdout.readline() for _ in range(3)]  # where, what is skipped, a row
        running.send_signal(number)
        lines += running.stdout.readlines()
        assert running.wait(300) == status
    assert b"Run the same command to resume" in b"".join(lines)
    with ResultStore(file) as store:
        before = store.rows()
        assert 1 <= len(before) < 16
        [[claimed]] = store._connection.execute("SELECT count(*) FROM claims")
        assert claimed == 0
    done = run("sweep", "--kernel", "flex", "--limit", "1", "--results", file)
    assert done.exit_code == 0, done.output
    with ResultStore(file) as store:
        assert set(map(repr, before)) <= set(map(repr, store.rows()))
