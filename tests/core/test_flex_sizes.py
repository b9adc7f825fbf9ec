"""Mask blocks and tiles of flex attention: vLLM's own answers, its tables, and what stops it."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.recorded import recorded
from workbench.core.errors import ScenarioError
from workbench.core.flex.legality import SIDES, combinations, legality, verdict
from workbench.core.flex.plan import FlexPlan, flex_plan, mask_memory
from workbench.core.flex.sizes import (
    FlexFields,
    mask_blocks,
    nearest_power_of_2,
    small_blocks,
)
from workbench.core.flex.tiles import (
    Tiles,
    fit,
    generic_tiles,
    illegal_tile,
    kernel_tiles,
    too_large_tile,
)
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve

KIB = 1024
LARGE, SMALL = 227 * KIB, 99 * KIB
SIZES = {
    "cache_block_size": 16,
    "configured_block_size": 16,
    "small": True,
    "batch_invariant": False,
    "dtype": "bfloat16",
    "head_size": 128,
}


def flex(**values):
    return resolve(**{"model": "bamba-9b", "backend": "FLEX_ATTENTION", **values})


def codes(plan):
    return [problem.code for problem in plan.errors]


def test_every_answer_of_vllm():
    cases = recorded("flex_block_sizes")
    assert len(cases) == 828
    for case in cases:
        inputs, expected = case["input"], case["output"]
        names = ("block_m", "block_n", "q_block_size", "kv_block_size")
        found = mask_blocks(
            FlexFields(*(inputs[name] for name in names)),
            inputs["cache_block_size"],
            small=inputs["supports_small_blocks"],
        )
        if expected["ok"]:
            assert found.refusal is None, inputs
            assert found.q_block_size == expected["q_block_size"]
            assert found.kv_block_size == expected["kv_block_size"]
        else:
            assert found.refusal.exception == expected["error"]
            assert found.refusal.vllm_text == expected["message"], inputs


@pytest.mark.parametrize(
    ("fields", "cache", "small", "expected"),
    [
        ({}, 16, True, (16, 16, True)),
        ({}, 32, True, (16, 32, True)),
        ({}, 528, True, None),
        ({"kv_block_size": 16}, 528, True, (16, 16, False)),
        ({"q_block_size": 128, "kv_block_size": 128}, 16, True, (128, 128, False)),
        ({"block_m": 8, "block_n": 16}, 16, True, (16, 16, True)),
        ({"block_m": 32}, 16, True, None),
        ({"q_block_size": 24}, 16, True, None),
        ({"block_n": 32}, 16, True, None),
        ({}, 528, False, (128, 128, False)),
        ({"q_block_size": 0, "kv_block_size": 0}, 32, True, (16, 32, True)),
        ({"q_block_size": 1}, 16, True, (1, 16, True)),
        ({"q_block_size": -16}, 16, True, None),
        ({"block_m": -16}, 16, True, (16, 16, True)),
    ],
)
def test_how_block_sizes_are_resolved(fields, cache, small, expected):
    found = mask_blocks(FlexFields(**fields), cache, small=small)
    if expected is None:
        assert found.refusal is not None
        return
    sizes = {**SIZES, "cache_block_size": cache, "small": small}
    direct = FlexPlan(FlexFields(**fields), **sizes).is_direct
    assert (found.q_block_size, found.kv_block_size, direct) == expected
    assert found.refusal is None


def test_queries_are_checked_before_keys():
    both = FlexFields(block_m=32, block_n=32)
    assert "flex_attn_block_m" in mask_blocks(both, 16, small=True).refusal.vllm_text


def test_a_tile_of_zero_is_divided_by_only_after_the_power_of_two():
    zero = mask_blocks(FlexFields(block_m=0), 16, small=True).refusal
    assert (zero.code, zero.exception) == ("flex_tile_is_zero", "ZeroDivisionError")
    first = mask_blocks(FlexFields(block_m=0, q_block_size=24), 16, small=True).refusal
    assert (first.code, first.exception) == ("flex_block_not_power_of_2", "ValueError")


@pytest.mark.parametrize(
    ("version", "small"),
    [
        (None, True),
        ("2.9", True),
        ("2.9.0.dev20250901", True),
        ("2.13.0+cu130", True),
        ("3.0", True),
        ("2.8.1", False),
        ("1.13", False),
    ],
)
def test_small_blocks_come_with_torch_2_9(version, small):
    assert small_blocks(version) is small
    assert Scenario(torch_version=version).torch_version == version


TABLE = [
    ((16, 16), (16, 16), (16, 16), (16, 16), (16, 16)),
    ((16, 32), (16, 32), (16, 32), (16, 16), (16, 16)),
    ((16, 64), (16, 64), (16, 32), (16, 32), (16, 16)),
    ((128, 128), (64, 64), (32, 32), (32, 32), (16, 16)),
    ((128, 16), (64, 16), (32, 16), (32, 16), (16, 16)),
    ((64, 528), (64, 16), (32, 16), (32, 16), (16, 16)),
    ((8, 16), (16, 16), (16, 16), (16, 16), (16, 16)),
]


@pytest.mark.parametrize("row", TABLE, ids=[str(row[0]) for row in TABLE])
def test_tiles_of_the_generic_path(row):
    mask, *expected = row
    found = [
        generic_tiles(*mask, dtype, memory)
        for memory in (LARGE, SMALL)
        for dtype in ("bfloat16", "float32")
    ]
    assert [(tile.block_m, tile.block_n) for tile in found] == expected
    assert generic_tiles(*mask, "bfloat16", None) == found[0]
    assert generic_tiles(*mask, "bfloat16", 144 * KIB) == found[0]
    assert generic_tiles(*mask, "bfloat16", 144 * KIB - 1) == found[2]
    assert (illegal_tile(found[0], *mask) is None) == (mask[0] >= 16)


def tiles(fields, q=64, kv=64, *, direct=False, batch_invariant=False):
    found = kernel_tiles(
        fields,
        q,
        kv,
        direct=direct,
        dtype="bfloat16",
        shared_memory_bytes=LARGE,
        batch_invariant=batch_invariant,
    )
    return found.block_m, found.block_n


def test_explicit_tiles_win_then_batch_invariance_then_the_build():
    nothing = FlexFields()
    assert tiles(nothing, 32, 528, direct=True) == (32, 528)
    assert tiles(nothing, batch_invariant=True) == (16, 16)
    assert tiles(FlexFields(block_m=32), batch_invariant=True) == (32, 16)
    assert tiles(FlexFields(block_n=8), direct=True) == (64, 8)


@pytest.mark.parametrize(
    ("tile", "head_size", "found"),
    [
        ((16, 908), 128, None),
        ((16, 909), 128, ("flex_attn_block_n", 232_704, 232_448)),
        ((909, 16), 128, ("flex_attn_block_m", 232_704, 232_448)),
        ((1024, 1024), 1, None),
        ((2048, 1024), 1, ("flex_attn_block_m", 2_097_152, 1_048_576)),
    ],
)
def test_what_no_program_holds(tile, head_size, found):
    excess = too_large_tile(Tiles(*tile), head_size, 2)
    assert (excess and (excess.field, excess.needed, excess.limit)) == found


def test_the_matrix_marks_tiles_that_fit_nowhere():
    sizes = {**SIZES, "cache_block_size": 1024, "configured_block_size": 1024}
    found = verdict(FlexPlan(FlexFields(), **{**sizes, "head_size": 256}))
    assert (found.kind, found.legal) == ("too large", False)
    assert "524,288 bytes" in found.reason
    assert verdict(FlexPlan(FlexFields(), **{**sizes, "head_size": 64})).kind == "direct"
    plan = flex(model="qwen3.5-4b", block_size=1024)
    [[judged]] = legality(flex_plan(plan), ((16, 1024),), ((None, None),))
    assert judged == found


@pytest.mark.parametrize(
    ("explicit", "near"),
    [(-16, 16), (0, 16), (3, 4), (24, 32), (2**30 + 1, 2**30), (2**31 - 1, 2**30)],
)
def test_the_nearest_power_of_2_is_accepted(explicit, near):
    assert nearest_power_of_2(explicit) == near
    if explicit == 0:
        return
    plan = flex(model="llama-3.1-8b", flex_attn_q_block_size=explicit)
    assert f"Nearest valid flex_attn_q_block_size: {near}" in plan.errors[0].message
    again = flex(model="llama-3.1-8b", flex_attn_q_block_size=near)
    assert again.errors == ()


def test_remedies_without_a_new_warning_come_first_and_once():
    plan = flex(model="llama-3.1-8b", flex_attn_block_m=48)
    [problem] = plan.errors
    tried = [dict(remedy.changes) for remedy in plan.remedies(problem)]
    assert tried.count({"flex_attn_block_m": 16}) == 1
    plan = flex(model="llama-3.1-8b", flex_attn_q_block_size=3)
    remedies = plan.remedies(plan.errors[0])
    assert remedies[0].changes == {"flex_attn_q_block_size": 16}
    assert [remedy.plan.problems for remedy in remedies] == [()] * len(remedies)


def test_the_floor_exceeds_a_mask_block_of_8():
    refusal = illegal_tile(Tiles(16, 16), 8, 16)
    assert refusal.operands == {"BLOCK_M": 16, "flex_attn_q_block_size": 8}
    assert "larger than the mask block" in refusal.message
    assert illegal_tile(Tiles(8, 16), 8, 16) is None
    assert illegal_tile(Tiles(0, 16), 8, 16).field == "flex_attn_block_m"
    assert illegal_tile(Tiles(8, 0), 8, 16).field == "flex_attn_block_n"
    assert "does not divide" in illegal_tile(Tiles(-16, 16), 16, 16).message


@given(st.integers(-4, 200), st.integers(-4, 2100))
def test_a_fitted_tile_divides_its_block(wanted, block):
    assume(wanted > 0)
    found = fit(wanted, block)
    assert block <= 0 or (block % found == 0 and found >= 1)


@pytest.mark.parametrize("model", ["bamba-9b", "qwen3-next-80b-a3b", "nemotron-3-nano-30b-a3b"])
def test_a_hybrid_block_fails_and_both_remedies_work(model):
    plan = flex(model=model)
    [problem] = plan.errors
    assert problem.code == "flex_block_not_power_of_2"
    assert problem.operands["flex_attn_kv_block_size"] == plan.kernel_block_size
    assert problem.operands["flex_attn_block_n"] is None
    tried = [dict(remedy.changes) for remedy in plan.remedies(problem)]
    power = problem.operands["nearest_power_of_2"]
    assert tried == [
        {"flex_attn_kv_block_size": 16},
        {"block_size": power, "flex_attn_block_n": 64},
        {"backend": None},
    ]
    assert [remedy.plan.problems for remedy in plan.remedies(problem)] == [()] * 3
    large = flex(model=model, block_size=power)
    assert [found.code for found in large.problems] == ["flex_tile_exceeds_shared_memory"]
    generic, direct = (flex_plan(remedy.plan) for remedy in plan.remedies(problem)[:2])
    assert (direct.build, direct.cache_block_size) == ("direct", power)
    assert (generic.build, generic.cache_block_size) == ("generic", plan.kernel_block_size)


def test_the_check_while_layers_are_built_knows_nothing_of_the_alignment():
    explicit = {"flex_attn_block_n": 32, "flex_attn_kv_block_size": 128}
    plan = flex(batch_invariant=True, **explicit)
    assert plan.block_size == 528
    problem = plan.errors[0]
    assert problem.code == "flex_tile_exceeds_cache_block"
    assert problem.operands == {"flex_attn_block_n": 32, "block_size": 16}
    assert codes(flex(**explicit)) == []
    assert codes(flex(batch_invariant=True, block_size=32, **explicit)) == [
        "ssm_not_batch_invariant"
    ]


def test_the_default_16_of_batch_invariance_is_not_tested_there():
    plan = resolve(
        model="llama-3.1-8b", backend="FLEX_ATTENTION", batch_invariant=True, block_size=16
    )
    assert plan.errors == ()
    found = flex_plan(plan)
    assert found.tiles == Tiles(16, 16)


def test_problems_come_in_the_order_in_which_the_engine_meets_them():
    plan = flex(batch_invariant=True, flex_attn_block_m=64)
    assert codes(plan) == [
        "flex_tile_exceeds_cache_block",
        "ssm_not_batch_invariant",
        "flex_block_not_divisible",
    ]
    rules = [step.rule.name for step in plan.trace]
    assert rules.index("flex_tiles_at_construction") < rules.index("aligned_block_size")
    assert rules.index("flex_mask_block") > rules.index("kernel_block_size")


def test_another_backend_reads_none_of_it():
    plan = flex(backend="TRITON_ATTN", flex_attn_block_m=0)
    assert plan.errors == ()
    assert flex_plan(plan) is None
    assert "flex_mask_block" not in [step.rule.name for step in plan.trace]


def test_a_quantized_cache_is_refused_by_the_backend():
    assert codes(flex(kv_cache_dtype="fp8", flex_attn_kv_block_size=16)) == ["backend_not_valid"]


def test_memory_grows_with_requests_times_blocks():
    sizes = {"max_num_seqs": 256, "max_num_batched_tokens": 2048, "max_model_len": 4096}
    plan = flex(model="llama-3.1-8b", block_size=16, **sizes)
    found = mask_memory(plan, flex_plan(plan), 10_000)
    assert found.kv_indices_bytes == 4 * 128 * 16 * 256
    assert found.inverse_table_bytes == 8 * 256 * 10_000
    more = mask_memory(plan, flex_plan(plan), 20_000)
    assert more.inverse_table_bytes == 2 * found.inverse_table_bytes
    assert more.kv_indices_bytes == found.kv_indices_bytes


def judged(q, kv, m, n, **values):
    sizes = {**SIZES, "cache_block_size": 528, **values}
    return verdict(FlexPlan(FlexFields(m, n, q, kv), **sizes))


def test_the_matrix_shows_the_first_reason():
    assert judged(16, 16, 16, 16).legal
    assert judged(16, 16, 16, 16).kind == "generic"
    assert judged(16, 16, 16, 16, cache_block_size=16).kind == "direct"
    assert judged(16, 48, 16, 16).kind == "refused"
    assert judged(8, 16, None, None).kind == "illegal"
    assert judged(16, 16, 8, 16).kind == "small"
    assert not judged(64, 64, 32, 32, batch_invariant=True).legal
    assert "16" in judged(64, 64, 32, 32, batch_invariant=True).reason


@given(*(st.sampled_from((None, *SIDES)) for _ in range(4)))
def test_a_legal_pair_is_one_that_has_no_refusal(m, n, q, kv):
    flex = FlexPlan(FlexFields(m, n, q, kv), **SIZES)
    assert verdict(flex).legal == (flex.refusals == ())


def test_every_combination_is_there_once():
    pairs = combinations(explicit=(24, 528))
    assert len(set(pairs)) == len(pairs)
    assert (24, 528) in pairs


FLEX_FIELDS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["llama-3.1-8b", "bamba-9b"]),
        "block_size": st.sampled_from([None, 16, 32, 1024]),
        "batch_invariant": st.booleans(),
        "torch_version": st.sampled_from([None, "2.8"]),
        **{
            f"flex_attn_{name}": st.none() | st.sampled_from([-16, 0, 1, 8, 16, 24, 64, 2048])
            for name in ("block_m", "block_n", "q_block_size", "kv_block_size")
        },
    }
)


@settings(max_examples=60)
@given(FLEX_FIELDS)
def test_problems_are_the_refusals_and_every_remedy_of_them_works(fields):
    plan = flex(**fields)
    found = flex_plan(plan)
    of_flex = [code for code in codes(plan) if code != "ssm_not_batch_invariant"]
    assert of_flex == [refusal.code for refusal in found.refusals]
    for problem in plan.problems:
        for remedy in plan.remedies(problem):
            again = resolve(plan.scenario.replace(**remedy.changes))
            assert problem.code not in {other.code for other in again.problems}
    if found.tiles is not None and not found.refusals:
        assert found.mask.q_block_size % found.tiles.block_m == 0
        assert found.mask.kv_block_size % found.tiles.block_n == 0
    if plan.errors:
        assert plan.remedies(plan.errors[0])


@pytest.mark.parametrize("version", ["", "2", "two", "2.x", "2.9 x", "99999.1", "2.9\n", "x" * 500])
def test_an_invalid_version_is_refused(version):
    with pytest.raises(ScenarioError, match=r"Invalid torch_version") as caught:
        Scenario(torch_version=version)
    assert caught.value.field == "torch_version"
    assert len(caught.value.message) < 200


def test_a_size_beyond_any_integer_of_the_engine_is_refused():
    with pytest.raises(ScenarioError, match="Nearest valid value: 2147483647"):
        Scenario(flex_attn_block_m=2**40)


def test_mask_blocks_are_small_in_0_33():
    assert flex_plan(flex(model="llama-3.1-8b", rules="0.33")).mask.q_block_size == 16
