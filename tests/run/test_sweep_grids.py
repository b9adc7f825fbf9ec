"""Large sweeps go grid by grid, may be stopped, and say the same as in one piece."""

from __future__ import annotations

import random
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.rules import RULE_SETS
from workbench.core.settings import Settings
from workbench.models import catalog_names, load_model
from workbench.run.sweeps import Space, SweepMismatchError, evaluate, paths
from workbench.run.sweeps.many import Many
from workbench.run.sweeps.pareto import undominated
from workbench.run.sweeps.single import single
from workbench.run.sweeps.table import MISSING
from workbench.sweeping import sweep
from workbench.views.sweep_rows import counts_html, counts_text

GIB = 2**30
MODULE = sys.modules["workbench.run.sweeps.evaluate"]
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
    name, rules = chance.choice(catalog_names()), chance.choice(list(RULE_SETS))
    memory = chance.choice([None, GIB, 20 * GIB])
    start = Settings(rules=rules, kv_cache_memory_bytes=memory)
    return Space({name: load_model(name)}, start, axes)


def assert_every_point_is_right(space, prompt_tokens):
    table = evaluate(space, prompt_tokens)
    for index in range(space.size):
        told, alone = table.row(index), single(space, index, prompt_tokens)
        assert {name: told[name] for name in alone} == alone, space.changes(index)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), prompt=st.integers(1, 9000))
def test_points_that_run_together_are_what_each_is_alone(seed, prompt):
    """As few as two together, which a sweep would not do: every stage meets it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "FEW", 1)
        patch.setattr(paths, "POINTS_A_RUN", 1)
        assert_every_point_is_right(random_space(random.Random(seed), 100), prompt)


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    prompt=st.integers(1, 9000),
    few=st.sampled_from([1, paths.FEW]),
)
def test_many_points_that_run_together(seed, prompt, few):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "FEW", few)
        patch.setattr(paths, "POINTS_A_RUN", min(few, paths.POINTS_A_RUN))
        assert_every_point_is_right(random_space(random.Random(seed), 400), prompt)


def test_a_wrong_sum_is_found_before_anything_is_told(monkeypatch):
    """The negative control: numbers that compute wrongly together do not get through."""
    right = Many.__floordiv__
    monkeypatch.setattr(Many, "__floordiv__", lambda one, two: right(one, two) + 1)
    axes = {"block_size": tuple(range(16, 1600, 16))}
    space = Space({"m": load_model("llama-3.1-8b")}, Settings(kv_cache_memory_bytes=GIB), axes)
    with pytest.raises(SweepMismatchError):
        evaluate(space)


@pytest.mark.parametrize("rules", RULE_SETS)
@pytest.mark.parametrize("model", ["gpt-oss-20b", "nemotron-3-nano-30b-a3b", "qwen3-next-80b-a3b"])
@pytest.mark.parametrize(
    "axes",
    [
        {"block_size": range(16, 816, 16), "kv_cache_memory_bytes": range(1, 50 * GIB, GIB)},
        {"device_memory_bytes": range(GIB, 51 * GIB, GIB), "weights_bytes": range(1, 51)},
        {"max_num_batched_tokens": range(64, 3264, 64), "max_model_len": range(100, 5100, 100)},
        {"max_model_len": (-1,), "kv_cache_memory_bytes": range(GIB, GIB + 2500 * 2**20, 2**20)},
    ],
    ids=lambda axes: " x ".join(axes),
)
def test_long_axes_are_run_together(model, rules, axes):
    """Else a rule does what numbers of many points cannot, and sweeps over it are slow.

    Prefix hits are searched for one by one, so they are left out.
    """
    told = {field: tuple(values) for field, values in axes.items()}
    start = Settings(rules=rules, enable_prefix_caching=False)
    space = Space({"m": load_model(model)}, start, told)
    assert space.size == 2500
    assert evaluate(space).evaluations < space.size / 3


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), largest=st.integers(1, 60))
def test_grids_have_every_point_once_and_in_order(seed, largest):
    space = random_space(random.Random(seed), 200)
    met = np.zeros(space.shape, dtype=int)
    for alike in space.grids(largest):
        order = []
        for grid in alike:
            assert grid.size <= largest
            met[grid.place] += 1
            points = np.arange(space.size).reshape(space.shape)[grid.place].reshape(-1)
            order += points.tolist()
            _, first = space.point(int(points[0]))
            some = {field: values[0] for field, values in grid.axes.items()}
            assert {**vars(grid.settings), **some} == vars(first)
        assert order == sorted(order) or "max_model_len" in space.axes
    assert (met == 1).all()


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_small_grids_say_the_same_as_one(seed):
    space = random_space(random.Random(seed), 150)
    whole = evaluate(space)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULE, "LARGEST_GRID", 13)
        pieces = evaluate(space)
    assert pieces.counts == whole.counts
    assert pieces.is_copy.tolist() == whole.is_copy.tolist()
    assert [pieces.row(at) for at in range(len(whole))] == [
        whole.row(at) for at in range(len(whole))
    ]


MODELS = {name: load_model(name) for name in ("llama-3.1-8b", "gpt-oss-20b", "falcon-mamba-7b")}
AXES = {"tensor_parallel": (1, 2, 4, 8), "kv_cache_memory_bytes": (GIB, 9 * GIB)}


def test_a_stopped_sweep_has_what_is_complete():
    stop = threading.Event()
    asked = []

    def half_way():
        asked.append(1)
        return len(asked) > limit

    limit = 10**9
    whole = evaluate(Space(MODELS, Settings(), AXES), stop=half_way)
    questions = len(asked)
    assert whole.counts["missing"] == 0
    limit = questions // 2
    asked.clear()
    table = evaluate(Space(MODELS, Settings(), AXES), stop=half_way)
    assert len(asked) == limit + 1, "it went on after it was stopped"
    counts = table.counts
    assert 0 < counts["missing"] < counts["points"] == 24
    assert sum(counts.values()) == 2 * counts["points"]
    complete = np.flatnonzero(~table.is_missing).tolist()
    assert complete in (list(range(8)), list(range(16)))
    assert [table.row(at) for at in complete] == [whole.row(at) for at in complete]
    lost = table.row(23)
    assert (lost["refused"], lost["num_blocks"], lost["problems"]) == (None, None, ())
    assert not table.is_kept[table.is_missing].any()
    assert f"{counts['missing']} not reached" in counts_text(counts, table.reasons)
    assert f"{counts['missing']} not reached" in counts_html(counts, table.reasons)
    stop.set()
    nothing = evaluate(Space(MODELS, Settings(), AXES), stop=stop)
    assert (nothing.refused_by == MISSING).all()
    assert nothing.counts["kept"] == 0


def test_stop_reaches_a_sweep_as_people_meet_it():
    stop = threading.Event()
    stop.set()
    found = sweep(tensor_parallel=(1, 2), stop=stop)
    assert found.table.counts["missing"] == len(found) == 2
    assert found.rows() == ()
    assert "2 not reached" in repr(found)
    assert "not reached" not in repr(sweep(tensor_parallel=(1, 2)))


@given(
    costs=st.lists(
        st.tuples(*[st.sampled_from([0.0, 1.0, 2.0, 3.0, float("inf")])] * 3), min_size=1
    ),
    goals=st.integers(1, 3),
)
def test_the_front_is_what_no_row_beats(costs, goals):
    rows = np.array(costs)[:, :goals]

    def beaten(index):
        worse = (rows <= rows[index]).all(axis=1)
        return bool((worse & (rows < rows[index]).any(axis=1)).any() or worse[:index].any())

    expected = [index for index in range(len(rows)) if not beaten(index)]
    assert undominated(rows).tolist() == sorted(expected, key=lambda at: tuple(rows[at]))
