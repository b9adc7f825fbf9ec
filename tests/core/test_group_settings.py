"""The fields of a scenario that change how layers are grouped."""

from __future__ import annotations

import pytest

from workbench.core.errors import ScenarioError
from workbench.scenario import Scenario

GIB = 2**30
RANKS = "kv_cache_memory_bytes_by_rank"


def test_memory_by_rank_takes_sizes_with_units_and_survives_json():
    scenario = Scenario(tensor_parallel=2, kv_cache_memory_bytes_by_rank=["20 GiB", 18 * GIB])
    assert scenario.kv_cache_memory_bytes_by_rank == (20 * GIB, 18 * GIB)
    assert Scenario.from_json(scenario.to_json()) == scenario
    assert hash(scenario.kv_cache_memory_bytes_by_rank)


@pytest.mark.parametrize(
    ("sizes", "code"),
    [([], "out_of_range"), ([-1, 5], "out_of_range"), ([1.5], "wrong_type"), (7, "wrong_type")],
)
def test_memory_by_rank_that_is_none_is_refused(sizes, code):
    with pytest.raises(ScenarioError) as caught:
        Scenario(kv_cache_memory_bytes_by_rank=sizes)
    assert (caught.value.code, caught.value.field) == (code, RANKS)


def test_layout_names_are_those_of_the_version():
    assert Scenario(rules="0.33", kv_cache_layout="BLHNC").kv_cache_layout == "BLHNC"
    assert Scenario(kv_cache_layout="HND").kv_cache_layout == "HND"
    with pytest.raises(ScenarioError, match="kv_cache_layout"):
        Scenario(kv_cache_layout="BLHNC")


def test_hidden_state_layers_are_not_negative():
    with pytest.raises(ScenarioError, match="Nearest valid value: 0"):
        Scenario(hidden_state_layers=-1)
