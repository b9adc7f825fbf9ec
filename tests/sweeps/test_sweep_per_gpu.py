"""A sweep over tensor_parallel compares what one GPU serves, not what twice the GPUs serve."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.commands import run
from workbench.sweeps.front import GOALS, USUAL_GOALS, pareto
from workbench.views.sweeps.rows import MEASURES, comparison_notes, sweep_text

GIB = 2**30
SWEEP = ("sweep", "qwen3.5-4b", "-a", "tensor_parallel=1,2")
MEMORY = ("-s", "kv_cache_memory_bytes=20 GiB")
MODELS = ("qwen3.5-4b", "llama-3.1-8b", "deepseek-v3", "nemotron-3-nano-30b-a3b", "mamba-2.8b")


def swept(model, sizes=(1, 2, 4, 8), **axes):
    start = wb.Scenario(model=model, kv_cache_memory_bytes=20 * GIB, max_model_len=4096)
    return wb.sweep(start, tensor_parallel=sizes, **axes)


def by_size(found):
    rows = found.rows([at for at in range(len(found)) if found.table.is_kept[at]])
    return {row["sets"]["tensor_parallel"]: row for row in rows}


def test_twice_the_gpus_for_less_than_twice_the_requests_are_beaten():
    """8 KV heads: at a tensor_parallel of 8 and 16 a GPU holds the same, and so do both pools."""
    found = swept("llama-3.1-8b", (8, 16))
    rows = by_size(found)
    assert rows[8]["max_concurrency"] == rows[16]["max_concurrency"]
    assert rows[8]["concurrency_per_gpu"] == 2 * rows[16]["concurrency_per_gpu"]
    assert [row["sets"]["tensor_parallel"] for row in found.rows(found.front)] == [8]


def test_more_gpus_with_a_smaller_share_each_do_not_beat_fewer():
    """More requests in all, fewer on every GPU: the point of 8 GPUs is not on the front."""
    rows = by_size(swept("qwen3.5-4b"))
    assert rows[8]["max_concurrency"] > rows[4]["max_concurrency"]
    assert rows[8]["concurrency_per_gpu"] < rows[4]["concurrency_per_gpu"]
    found = swept("qwen3.5-4b")
    best = {row["sets"]["tensor_parallel"] for row in found.rows(found.front)}
    assert max(rows, key=lambda size: rows[size]["concurrency_per_gpu"]) in best
    for size, row in rows.items():
        for other in rows.values():
            if all(
                GOALS[name] * (other[name] - row[name]) > 0
                for name in USUAL_GOALS
                if None not in (other[name], row[name])
            ):
                assert size not in best


@given(
    model=st.sampled_from(MODELS),
    sizes=st.lists(st.sampled_from((1, 2, 4, 8)), min_size=1, unique=True),
    dtypes=st.sampled_from((("auto",), ("auto", "fp8"))),
)
@settings(max_examples=15, deadline=None)
def test_the_order_of_the_sizes_does_not_matter_and_the_absolute_number_stays(model, sizes, dtypes):
    found = swept(model, tuple(sizes), kv_cache_dtype=dtypes)
    again = swept(model, tuple(sorted(sizes)), kv_cache_dtype=dtypes)
    for row in found.rows():
        if row["max_concurrency"] is not None:
            gpus = row["sets"]["tensor_parallel"]
            assert row["concurrency_per_gpu"] == row["max_concurrency"] / gpus
    costs = [
        sorted(tuple(row[name] or 0 for name in USUAL_GOALS) for row in one.rows(one.front))
        for one in (found, again)
    ]
    assert costs[0] == costs[1]


def test_engines_bring_their_own_gpus():
    start = wb.Scenario(model="qwen3.5-4b", tensor_parallel=2, kv_cache_memory_bytes=20 * GIB)
    found = wb.sweep(start, data_parallel=(1, 4))
    one, four = found.rows()
    assert one["concurrency_per_gpu"] == four["concurrency_per_gpu"] == one["max_concurrency"] / 2


def test_without_an_axis_every_point_has_the_gpus_of_the_scenario():
    start = wb.Scenario(model="qwen3.5-4b", tensor_parallel=4, kv_cache_memory_bytes=20 * GIB)
    found = wb.sweep(start, kv_cache_dtype=("auto", "fp8"))
    assert np.array_equal(found.table.gpus(np.arange(2)), [4, 4])
    [row, _] = found.rows([0, 1])
    assert row["concurrency_per_gpu"] == row["max_concurrency"] / 4
    assert found.present_row()["concurrency_per_gpu"] == row["concurrency_per_gpu"]


def test_several_models_and_sizes_are_distinguished():
    found = wb.sweep(
        wb.Scenario(model="qwen3.5-4b", kv_cache_memory_bytes=20 * GIB),
        model=("qwen3.5-4b", "llama-3.1-8b"),
        kv_cache_dtype=("auto", "fp8"),
        tensor_parallel=(1, 8),
    )
    points = np.arange(len(found))
    assert found.table.gpus(points).tolist() == [1, 8] * 4


def test_a_goal_that_is_not_per_gpu_is_not_accepted():
    with pytest.raises(ValueError, match="concurrency_per_gpu"):
        pareto(swept("qwen3.5-4b").table, {"max_concurrency": 1})


def test_why_judges_what_one_gpu_serves():
    found = swept("qwen3.5-4b")
    point = next(row["point"] for row in found.rows() if row["sets"]["tensor_parallel"] == 8)
    html = found.why(point)
    rows = html.split("<tr>")
    per_gpu = next(row for row in rows if MEASURES["concurrency_per_gpu"] in row)
    absolute = next(row for row in rows if f">{MEASURES['max_concurrency']}<" in row)
    assert "worse" in per_gpu
    assert "better" not in absolute


def test_every_place_says_per_gpu_and_what_is_assumed_of_the_memory():
    found = swept("qwen3.5-4b")
    html = found.to_html()
    assert "per GPU" in html
    assert "same KV-cache memory on every GPU" in html
    assert "per GPU" in found.pareto_figure().layout.yaxis.title.text
    text = sweep_text(found.rows(), found.front)
    assert MEASURES["concurrency_per_gpu"] in text
    ended = run(*SWEEP, *MEMORY)
    assert "per GPU" in ended.output
    assert "same KV-cache memory on every GPU" in " ".join(ended.output.split())


def test_what_no_point_has_is_said_with_what_to_set():
    ended = " ".join(run(*SWEEP).output.split())
    assert "set a device, or kv_cache_memory_bytes" in ended
    assert "No prefix hits in any point" in ended
    more = ("-s", "device=H100", "-s", "enable_prefix_caching=true")
    ended = " ".join(run(*SWEEP, *more).output.split())
    assert "concurrency per GPU" in ended
    assert "set a device" not in ended
    assert "No prefix" not in ended


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kv_cache_memory_bytes": 20 * GIB}, "same KV-cache memory on every GPU"),
        ({"device_memory_bytes": 80 * GIB, "weights_bytes": 8 * GIB}, "same weights_bytes"),
        ({"num_gpu_blocks_override": 1000}, "same number of blocks"),
    ],
)
def test_the_assumption_is_the_one_of_the_scenario(fields, words):
    scenario = wb.Scenario(**fields)
    assert words in " ".join(comparison_notes(scenario, ("tensor_parallel",)))
    assert words not in " ".join(comparison_notes(scenario, ("block_size",)))


def test_json_keeps_its_names_and_has_the_new_one():
    ended = run(*SWEEP, *MEMORY, "--format", "jsonl")
    for line in ended.output.splitlines():
        row = json.loads(line)
        gpus = row["sets"]["tensor_parallel"]
        assert row["concurrency_per_gpu"] == row["max_concurrency"] / gpus
