"""Engines of several kinds of ranks, against the recorded answers of both releases."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.groups import in_groups
from tests.models.configs import llama
from tests.recorded import recorded
from workbench.core.errors import Refused
from workbench.core.what_if.comparison import compare
from workbench.models.catalog import catalog_config
from workbench.scenario.resolution import resolve

ROWS = recorded("parallel")


@in_groups
@pytest.mark.parametrize("number", range(len(ROWS)))
def test_the_plan_is_what_vllm_decided(number):
    row = ROWS[number]
    try:
        ours = resolve(**row["scenario"])
    except Refused as refusal:
        ours = refusal
    rows = compare(ours, row["answers"], row["refusal"])
    assert [one for one in rows if not one.same] == []


@pytest.mark.parametrize(("width", "ranks", "engines"), [(768, 2, 11), (6, 1, 15)])
def test_fewer_engines_are_offered_exactly_where_they_start(width, ranks, engines):
    """Twelve ranks may have copies of 6 outputs of an expert, and no share of its 6 inputs."""
    model = {**catalog_config("qwen3-30b-a3b"), "moe_intermediate_size": width}
    fields = {"model": model, "tensor_parallel": ranks}
    with pytest.raises(Refused) as caught:
        resolve(**fields, data_parallel=engines)
    assert caught.value.code == "experts_not_divisible"

    def starts(number):
        try:
            return resolve(**fields, data_parallel=number).errors == ()
        except Refused:
            return False

    offered = [one["data_parallel"] for one in caught.value.candidates if "data_parallel" in one]
    assert offered == [number for number in range(engines - 1, 0, -1) if starts(number)]
    assert 1 < len(offered) < engines - 1


def test_sizes_are_compared_by_doubling_up_to_a_host_of_eight():
    columns = resolve(model="llama-3.1-8b").across().columns
    assert (columns[0], columns[-1]) == (1, 8)
    assert all(larger == 2 * size for size, larger in pairwise(columns))


@pytest.mark.parametrize(("ranks", "nearest"), [(7, 8), (6, 5), (9, 10), (3, 4), (15, 20)])
def test_the_nearest_number_of_ranks_is_offered_first_and_the_larger_of_two(ranks, nearest):
    """Qwen3-14B has 40 heads: 8 and 10 are as near to 9, 2 and 4 to 3, 10 and 20 to 15."""
    with pytest.raises(Refused, match=f"Nearest valid value: {nearest};") as caught:
        resolve(model="qwen3-14b", tensor_parallel=ranks)
    assert caught.value.candidates[0] == {"tensor_parallel": nearest}


def test_heads_that_do_not_divide_are_offered_fewer_ranks_never_more():
    heads = {"num_attention_heads": 24, "num_key_value_heads": 8, "hidden_size": 24 * 128}
    plan = resolve(model={**llama(), **heads, "head_dim": 128}, tensor_parallel=3)
    (problem,) = (one for one in plan.problems if one.code == "kv_heads_not_divisible")
    assert problem.candidates == ({"tensor_parallel": 2}, {"tensor_parallel": 1})


@given(st.sampled_from([32, 64, 128]), st.integers(1, 30), st.sampled_from([1, 2, 4, 8]))
def test_groups_of_experts_are_halved_until_ranks_have_whole_ones_of_32(group, share, ranks):
    """`MoeWNA16Method.create_weights`."""
    gptq = {"quant_method": "gptq", "bits": 4, "sym": True, "desc_act": False}
    described = {"quantization_config": {**gptq, "group_size": group}}
    sizes = {"moe_intermediate_size": 8 * share * ranks, **described}
    model = {**catalog_config("qwen3-30b-a3b"), **sizes}
    plan = wb.resolve(model=model, tensor_parallel=ranks)
    assert ("weight_block_cut" in {one.code for one in plan.errors}) == bool(8 * share % 32)


def test_of_heads_that_ranks_cannot_divide_one_problem_speaks():
    heads = {"num_attention_heads": 12, "num_key_value_heads": 6, "hidden_size": 1536}
    model = llama(**heads, intermediate_size=3072, vocab_size=1200 * 64)
    plans = [wb.resolve(model=model, tensor_parallel=tp) for tp in (3, 4)]
    found = [[one.code for one in plan.problems] for plan in plans]
    assert found == [[], ["kv_heads_not_divisible"]]
