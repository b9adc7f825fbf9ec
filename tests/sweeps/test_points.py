"""A row of a sweep equals the resolution of its scenario; what is pruned is counted."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.core.strategies import scenarios
from tests.soak.duration import LONG_SOAK
from workbench.core.dtypes import STATE_DTYPES
from workbench.core.errors import ScenarioError, WorkbenchError
from workbench.core.platforms import PLATFORMS
from workbench.core.resolve import resolve
from workbench.core.versions import RULE_SETS
from workbench.models import load_model
from workbench.scenario import Scenario
from workbench.scenario.fields import Settings
from workbench.sweeps.row import Numbers, Verdict, named, row_of
from workbench.sweeps.run import evaluate
from workbench.sweeps.space import Space

GIB = 2**30
QUICK_POINTS = 2_000
VALUES = {
    "platform": list(PLATFORMS),
    "compute_capability": list(PLATFORMS["cuda"].capabilities),
    "backend": [None, "FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION", "FLASHMLA"],
    "tensor_parallel": [1, 2, 3, 4, 8, 16],
    "dtype": ["auto", "float16", "bfloat16", "float32"],
    "kv_cache_dtype": ["auto", "fp8", "bfloat16"],
    "mamba_cache_dtype": list(STATE_DTYPES),
    "mamba_ssm_cache_dtype": list(STATE_DTYPES),
    "enable_prefix_caching": [None, True, False],
    "mamba_cache_mode": [None, "none", "align", "all"],
    "block_size": [None, 1, 16, 17, 32, 64, 128, 256, 528, 1024, 4096],
    "mamba_block_size": [None, 8, 24, 64, 100, 128, 1000, 4096],
    "max_model_len": [None, -1, 1, 100, 2048, 4096, 100_000],
    "max_num_batched_tokens": [None, 100, 512, 2048, 8192],
    "max_num_seqs": [None, 1, 100, 1024],
    "num_speculative_tokens": [0, 1, 2, 7],
    "kv_cache_memory_bytes": [None, 0, 1, GIB // 7, GIB, 20 * GIB, 2**50],
    "device_memory_bytes": [None, GIB, 80 * GIB],
    "gpu_memory_utilization": [None, 0.1, 0.5, 0.9, 1.0],
    "weights_bytes": [None, 0, 5 * GIB, 90 * GIB],
    "activation_bytes": [None, 0, GIB],
    "cuda_graph_bytes": [None, GIB],
    "num_gpu_blocks_override": [None, 1, 7, 1000, 2**31 - 1],
    "batch_invariant": [False, True],
    "torch_version": [None, "2.8.0", "2.11.0"],
    "flex_attn_block_m": [None, -16, 0, 16, 24, 64],
    "flex_attn_block_n": [None, 8, 16, 64],
    "flex_attn_q_block_size": [None, 16, 24, 128],
    "flex_attn_kv_block_size": [None, 16, 32, 128],
    "rules": list(RULE_SETS),
}
"""Values that a random sweep may give a field."""


def space_of(scenario, axes):
    model = load_model(scenario.model)
    return Space({"model": model}, scenario, axes)


def random_axes(chance, limit):
    axes, size = {}, 1
    for field in chance.sample(sorted(VALUES), k=len(VALUES)):
        count = chance.randint(1, min(4, len(VALUES[field])))
        if size * count > limit:
            break
        axes[field] = chance.sample(VALUES[field], k=count)
        size *= count
    return axes


def alone(space, index, prompt_tokens):
    """The row of one point from a traced resolution of settings made by their constructor."""
    changes = space.changes(index)
    model = space.models[changes.pop("model")]
    settings = Settings(**{**vars(space.settings), **changes})
    try:
        return row_of(resolve(model, settings), prompt_tokens)
    except WorkbenchError as error:
        return named(Verdict(error.code), Numbers(), settings.tensor_parallel)


def differences(space, prompt_tokens):
    table = evaluate(space, prompt_tokens)
    for index in range(space.size):
        row, expected = table.row(index), alone(space, index, prompt_tokens)
        assert row.pop("point") == index
        assert row.pop("sets") == space.changes(index)
        if row != expected:
            yield space.changes(index), row, expected


@settings(max_examples=QUICK_POINTS // 40, deadline=None, suppress_health_check=list(HealthCheck))
@given(scenario=scenarios(memory=True), seed=st.integers(0, 2**32), prompt=st.integers(1, 9000))
def test_a_row_equals_the_resolution_of_its_scenario(scenario, seed, prompt):
    space = space_of(scenario, random_axes(random.Random(seed), 40))
    assert list(differences(space, prompt)) == []


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("points", [10_000, pytest.param(100_000, marks=LONG_SOAK)])
def test_many_random_points(points):
    compared = 0

    @settings(max_examples=points // 250, deadline=None, suppress_health_check=list(HealthCheck))
    @given(scenario=scenarios(memory=True), seed=st.integers(0, 2**32), prompt=st.integers(1, 9000))
    def compare(scenario, seed, prompt):
        nonlocal compared
        space = space_of(scenario, random_axes(random.Random(seed), 500))
        assert list(differences(space, prompt)) == []
        compared += space.size

    compare()
    assert compared >= points, compared


TYPICAL = {
    "tensor_parallel": (1, 2, 4, 8),
    "kv_cache_dtype": ("auto", "fp8"),
    "backend": (None, "FLASH_ATTN", "FLASHINFER"),
    "block_size": (None, 16, 64),
    "num_speculative_tokens": (0, 3),
    "mamba_cache_mode": (None, "align", "all"),
    "enable_prefix_caching": (False, True),
    "kv_cache_memory_bytes": tuple(GIB * size for size in (1, 4, 16, 64)),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("model", ["nemotron-3-nano-30b-a3b", "qwen3.5-4b", "llama-3.1-8b"])
def test_a_typical_sweep_of_the_catalog(model):
    axes = {field: values[:2] for field, values in TYPICAL.items()}
    space = Space({model: load_model(model)}, Settings(), {**axes, "rules": tuple(VALUES["rules"])})
    assert list(differences(space, 4096)) == []


def test_models_are_an_axis_too():
    models = {name: load_model(name) for name in ("llama-3.1-8b", "falcon-mamba-7b", "qwen3.5-4b")}
    space = Space(models, Settings(), {"tensor_parallel": (1, 2), "kv_cache_memory_bytes": (GIB,)})
    assert space.size == 6
    assert [space.changes(index)["model"] for index in range(6)] == [
        name for name in models for _ in range(2)
    ]
    assert list(differences(space, 100)) == []


def test_what_is_pruned_is_counted():
    space = Space(
        {"m": load_model("nemotron-3-nano-30b-a3b")},
        Settings(kv_cache_memory_bytes=20 * GIB),
        {"backend": (None, "FLASH_ATTN", "FLASHMLA"), "tensor_parallel": (1, 3, 4)},
    )
    table = evaluate(space, 4096)
    rows = [table.row(index) for index in range(len(table))]
    assert [bool(row["refused"]) or any(p[1] == "error" for p in row["problems"]) for row in rows]
    chosen = rows[0]["backend_used"]
    assert chosen == "FLASH_ATTN"
    # an explicit backend that the engine would choose anyway is the same point again
    assert table.is_copy[3]
    assert not table.is_copy[0]
    assert table.is_illegal[6:].all()
    counts = table.counts
    assert counts["points"] == 9
    assert counts["illegal"] + counts["identical"] + counts["kept"] == 9
    assert counts["identical"] == 2
    assert counts["kept"] == 2
    assert set(table.reasons) >= {"backend_not_valid"}
    assert sum(1 for row in rows if row["refused"] == "heads_not_divisible") in (0, 3)


def test_different_draft_counts_are_different_points():
    space = Space(
        {"m": load_model("llama-3.1-8b")}, Settings(), {"num_speculative_tokens": (0, 1, 2)}
    )
    assert evaluate(space, 4096).counts["identical"] == 0


def test_flex_sizes_matter_with_flex_only():
    axes = {"backend": ("FLASH_ATTN", "FLEX_ATTENTION"), "flex_attn_q_block_size": (None, 16, 64)}
    table = evaluate(Space({"m": load_model("llama-3.1-8b")}, Settings(), axes), 4096)
    assert table.is_copy.tolist() == [False, True, True, False, False, False]


def test_values_that_no_scenario_may_have_together_are_illegal():
    axes = {"rules": ("0.23", "before-37467"), "backend": (None, "FLASHINFER")}
    space = Space(
        {"m": load_model("llama-3.1-8b")},
        Settings(),
        axes,
        illegal=(({"rules": "before-37467", "backend": "FLASHINFER"}, "unknown_name"),),
    )
    table = evaluate(space, 4096)
    assert table.is_illegal.tolist() == [False, False, False, True]
    assert table.row(3)["refused"] == "unknown_name"
    assert table.reasons == {"unknown_name": 1}


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ({"tensor_parralel": (1,)}, "tensor_parallel"),
        ({"block_size": ()}, "no values"),
        ({"block_size": range(1, 5000), "max_model_len": range(1, 5002)}, "at most"),
    ],
)
def test_a_space_that_cannot_be_swept_says_why(axes, said):
    with pytest.raises(ScenarioError, match=said):
        Space({"m": load_model("llama-3.1-8b")}, Settings(), axes)


def test_every_rule_set_can_be_swept():
    for rules in RULE_SETS:
        axes = {"tensor_parallel": (1, 2), "kv_cache_memory_bytes": (0, GIB, 9 * GIB)}
        model = {"m": load_model("nemotron-3-nano-30b-a3b")}
        assert list(differences(Space(model, Settings(rules=rules), axes), 999)) == []


def test_a_scenario_gives_plain_settings():
    space = space_of(Scenario(model="llama-3.1-8b", tensor_parallel=2), {"block_size": (16, 16)})
    assert type(space.settings) is Settings
    assert space.axes == {"block_size": (16,)}
    assert next(space.points(0, 1))[1].tensor_parallel == 2


def test_models_alone_can_be_swept():
    found = wb.sweep(wb.Scenario(), model=("qwen3.5-4b", "llama-3.1-8b"))
    assert [row["block_size"] for row in found.rows((0, 1))] == [
        found.plan_of(point).block_size for point in (0, 1)
    ]
    assert found.table.counts["kept"] == 2


def test_a_point_is_not_compared_with_every_illegal_value():
    read = []

    class Watched:
        def __getattr__(self, name):
            read.append(name)
            return {"rules": "0.23", "block_size": 999 if self is legal else 998}[name]

    legal, illegal = Watched(), Watched()
    wrong = [({"rules": "0.23", "block_size": size}, "out_of_range") for size in range(999)]
    space = Space({"m": load_model("llama-3.1-8b")}, Settings(), {}, tuple(wrong))
    assert space.illegal_code(legal) is None
    assert space.illegal_code(illegal) == "out_of_range"
    assert read == ["rules", "block_size"] * 2


@pytest.mark.parametrize(
    "changes",
    [
        {"hf_overrides": {"max_position_embeddings": 16384}},
        {"draft_model": "qwen3-8b", "speculative_method": "draft_model"},
    ],
    ids=["lengths", "drafter"],
)
def test_a_sweep_has_what_the_scenario_says_of_its_models(changes):
    drafts = {"num_speculative_tokens": 3} if "draft_model" in changes else {}
    scenario = Scenario(model="qwen3-8b", device="H100", **changes, **drafts)
    found = wb.sweep(scenario, {"tensor_parallel": (1, 2)})
    for row, ranks in zip(found.rows(range(2)), (1, 2), strict=True):
        cache = wb.resolve(scenario, tensor_parallel=ranks).cache
        assert row["num_blocks"] == cache.num_blocks
        assert row["max_concurrency"] == cache.max_concurrency
