"""A sweep is stopped, resumed and spread over processes, and gives the same table."""

from __future__ import annotations

import multiprocessing
import random
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.catalog import distinct_models
from tests.sweeps.test_points import differences
from workbench.core.versions import RULE_SETS
from workbench.models import load_model
from workbench.scenario.fields import Settings
from workbench.sweeps import run
from workbench.sweeps.front import undominated
from workbench.sweeps.run import evaluate
from workbench.sweeps.space import Space
from workbench.views.sweeps.rows import counts_html, counts_text

ROOT = Path(__file__).parents[2]
GIB = 2**30
LONG = {
    "block_size": [None, 1, 17, 100, *range(16, 1000, 16)],
    "mamba_block_size": [None, 7, *range(8, 500, 8)],
    "max_model_len": [-1, None, 1, 17, 1000, *range(1024, 60_000, 1024)],
    "max_num_batched_tokens": [None, 100, *range(64, 4000, 64)],
    "max_num_seqs": [None, *range(1, 60)],
    "kv_cache_memory_bytes": [None, *range(0, 40 * GIB, GIB // 7)],
    "device_memory_bytes": [None, *range(GIB + 1, 90 * GIB, GIB + 1)],
    "weights_bytes": [None, *range(7, 30 * GIB, GIB // 3)],
    "gpu_memory_utilization": [None, *(part / 100 for part in range(3, 100))],
    "num_gpu_blocks_override": [None, *(number**2 for number in range(1, 60))],
    "tensor_parallel": [1, 2, 3, 4, 5, 6, 8, 16],
    "num_speculative_tokens": [*range(9)],
    "flex_attn_kv_block_size": [None, 16, 32, 48, 64, 128, 256],
}
"""Numbers that stages compute with."""
NAMES = {
    "backend": [None, "FLASH_ATTN", "FLASHINFER", "FLEX_ATTENTION", "TRITON_ATTN"],
    "kv_cache_dtype": ["auto", "fp8"],
    "mamba_cache_mode": [None, "align", "all"],
    "enable_prefix_caching": [None, False, True],
    "disable_hybrid_kv_cache_manager": [False, True],
    "hidden_state_layers": [0, 3],
    "rules": list(RULE_SETS),
}


def random_space(chance, limit):
    axes, size = {}, 1
    for field in [*chance.sample(sorted(LONG), k=3), *chance.sample(sorted(NAMES), k=3)]:
        values = LONG.get(field) or NAMES[field]
        count = chance.randint(1, min(12, len(values)))
        if size * count <= limit:
            axes[field] = chance.sample(values, k=count)
            size *= count
    name, rules = chance.choice(distinct_models()), chance.choice(list(RULE_SETS))
    memory = chance.choice([None, GIB, 20 * GIB])
    start = Settings(rules=rules, kv_cache_memory_bytes=memory)
    return Space({name: load_model(name)}, start, axes)


@pytest.mark.thorough
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), prompt=st.integers(1, 9000))
def test_long_axes_of_numbers_give_what_each_point_gives_alone(seed, prompt):
    assert list(differences(random_space(random.Random(seed), 100), prompt)) == []


MODELS = {name: load_model(name) for name in ("llama-3.1-8b", "gpt-oss-20b", "falcon-mamba-7b")}
AXES = {"tensor_parallel": (1, 2, 4, 8), "kv_cache_memory_bytes": (GIB, 9 * GIB)}


def space():
    return Space(MODELS, Settings(), AXES)


def rows(table):
    return [table.row(at) for at in range(len(table))]


def assert_equal_tables(one, other):
    assert one.counts == other.counts
    assert one.reasons == other.reasons
    assert one.is_copy.tolist() == other.is_copy.tolist()
    assert rows(one) == rows(other)


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(run, "CHUNK_HERE", 5)
    monkeypatch.setattr(run, "CHUNK_AWAY", 7)


def stop_after(questions):
    calls = iter(range(10**9))
    return lambda: next(calls) >= questions


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("questions", [0, 1, 3, 4])
def test_a_stopped_sweep_has_what_was_done_and_resumes_to_the_same_table(questions):
    whole = evaluate(space(), 4096)
    table = evaluate(space(), 4096, stop=stop_after(questions))
    counts = table.counts
    assert counts["missing"] == 24 - min(24, 5 * questions)
    assert sum(counts.values()) == counts["points"] + counts["missing"] + 24 - counts["missing"]
    done = np.flatnonzero(~table.is_missing).tolist()
    assert done == list(range(5 * questions))
    assert [table.row(at) for at in done] == [whole.row(at) for at in done]
    lost = table.row(23)
    assert (lost["refused"], lost["num_blocks"], lost["problems"]) == (None, None, ())
    assert not table.is_kept[table.is_missing].any()
    assert f"{counts['missing']} not reached" in counts_text(counts, table.reasons)
    assert f"{counts['missing']} not reached" in counts_html(counts, table.reasons)
    before = rows(table)
    assert_equal_tables(evaluate(space(), 4096, earlier=table), whole)
    assert rows(table) == before, "resuming changed the table that it started from"


@pytest.mark.usefixtures("small_chunks")
def test_progress_counts_up_to_all_points_and_goes_on_where_it_was_stopped():
    seen = []
    half = evaluate(space(), 4096, stop=stop_after(2), progress=lambda *at: seen.append(at))
    evaluate(space(), 4096, earlier=half, progress=lambda *at: seen.append(at))
    assert seen == [(5, 24), (10, 24), (15, 24), (20, 24), (24, 24)]


def test_the_table_of_another_sweep_is_not_resumed():
    other = evaluate(Space(MODELS, Settings(), {"tensor_parallel": (1,)}), 4096)
    with pytest.raises(ValueError, match="another sweep"):
        evaluate(space(), 4096, earlier=other)


def test_a_prompt_has_at_least_one_token():
    with pytest.raises(ValueError, match="at least 1"):
        evaluate(space(), 0)


@pytest.mark.usefixtures("small_chunks")
def test_processes_give_the_same_as_here(monkeypatch):
    """With string hashes that differ from this process's: identical points are still found."""
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    some = random_space(random.Random(3), 150)
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        for one in (space(), some):
            assert_equal_tables(evaluate(one, 999, executor=pool), evaluate(one, 999))


@pytest.mark.parametrize("threads", [1, 2])
def test_many_points_go_to_processes(monkeypatch, threads):
    """Forked where there is one thread only; the start method is all that is replaced here."""
    chosen = []

    class Here(ThreadPoolExecutor):
        def __init__(self, cores, context, initializer):
            chosen.append((context.get_start_method(), initializer))
            super().__init__(cores)

    monkeypatch.setattr(run, "ProcessPoolExecutor", Here)
    monkeypatch.setattr(run, "_cores", lambda: 2)
    monkeypatch.setattr(run.threading, "active_count", lambda: threads)
    monkeypatch.setattr(run, "HERE_POINTS", 24)
    evaluate(space(), 4096)
    assert chosen == []
    monkeypatch.setattr(run, "HERE_POINTS", 23)
    assert_equal_tables(evaluate(space(), 4096), evaluate(space(), 4096, executor=Now()))
    [(method, initializer)] = chosen
    assert method == ("fork" if threads == 1 and sys.platform == "linux" else "spawn")
    assert initializer is not None


class Now(Executor):
    """Runs in the calling thread; breaks after so many chunks, as if a process had been killed."""

    def __init__(self, chunks=10**9):
        self.chunks = chunks

    def submit(self, fn, /, *args, **options):
        self.chunks -= 1
        future = Future()
        if self.chunks < 0:
            future.set_exception(BrokenProcessPool("killed"))
        else:
            future.set_result(fn(*args, **options))
        return future


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("chunks", [0, 2])
def test_what_a_killed_process_leaves_is_resolved_here(chunks):
    assert_equal_tables(evaluate(space(), 4096, executor=Now(chunks)), evaluate(space(), 4096))


@pytest.mark.usefixtures("small_chunks")
def test_an_executor_is_stopped_too():
    table = evaluate(space(), 4096, executor=Now(), stop=stop_after(0))
    assert table.counts["missing"] == 24


def test_stop_and_resume_reach_a_sweep_as_people_meet_it():
    stop = threading.Event()
    stop.set()
    found = wb.sweep(tensor_parallel=(1, 2), stop=stop)
    assert found.table.counts["missing"] == len(found) == 2
    assert found.rows() == ()
    assert "2 not reached" in repr(found)
    seen = []
    resumed = wb.sweep(tensor_parallel=(1, 2), resume=found, progress=lambda *at: seen.append(at))
    assert seen == [(2, 2)]
    assert "not reached" not in repr(resumed)
    assert resumed.rows() == wb.sweep(tensor_parallel=(1, 2)).rows()
    with pytest.raises(ValueError, match="waste of 4,096 tokens"):
        wb.sweep(tensor_parallel=(1, 2), prompt_tokens=100, resume=found)


@given(
    costs=st.lists(
        st.tuples(*[st.sampled_from([0.0, 1.0, 2.0, 3.0, float("inf")])] * 4), min_size=1
    ),
    goals=st.integers(1, 4),
)
def test_the_front_is_what_no_row_beats(costs, goals):
    rows = np.array(costs)[:, :goals]

    def beaten(index):
        worse = (rows <= rows[index]).all(axis=1)
        return bool((worse & (rows < rows[index]).any(axis=1)).any() or worse[:index].any())

    expected = [index for index in range(len(rows)) if not beaten(index)]
    assert undominated(rows).tolist() == sorted(expected, key=lambda at: tuple(rows[at]))


def test_devices_of_several_platforms_are_an_axis():
    start = wb.Scenario(model="llama-3.1-8b")
    axes = {"device": ("h100", "MI300X"), "platform": ("cuda", "rocm")}
    table = wb.sweep(start, axes).table
    found = [table.row(point) for point in range(len(table))]
    assert [row["backend_used"] for row in found] == ["FLASH_ATTN", None, None, "ROCM_ATTN"]
    assert [row["refused"] for row in found[1:3]] == ["contradicts_device"] * 2
    alone = wb.sweep(start, {"device": ("H100", "MI300X")})
    assert [alone.scenario_of(point).platform for point in (0, 1)] == ["cuda", "rocm"]


KILLED = """
import os, signal
import psutil
from workbench.sweeps import run
from workbench.sweeps.sweep import sweep

run.HERE_POINTS, run._cores = 100, lambda: 2

def end(_done, _total):
    print(*(one.pid for one in psutil.Process().children()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

lengths = [1000 * count for count in range(1, 5001)]
sweep("bamba-9b", {"max_model_len": lengths, "tensor_parallel": [1, 2]}, progress=end)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="pools are forked on Linux only")
def test_processes_end_with_the_one_that_runs_the_sweep():
    with tempfile.TemporaryFile("w+") as said:  # a pipe would stay open with the processes
        subprocess.run([sys.executable, "-c", KILLED], stdout=said, check=False, cwd=ROOT)
        said.seek(0)
        pids = list(map(int, said.read().split()))
    assert len(pids) == 2
    left = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    _gone, there = psutil.wait_procs(left, timeout=20)
    for one in there:
        one.kill()
    assert there == []
