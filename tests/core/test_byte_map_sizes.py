"""The byte map where pages have several sizes: tensors of their own, or one allocation."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.core.test_byte_map import (
    SAMPLES,
    all_layers,
    assert_pages_are_filled,
    assert_round_trip,
)
from tests.models.configs import deepseek_v3, gemma3, gpt_oss, llama, nemotron_nas, qwen3_5
from workbench.core.byte_map.of_plan import byte_map
from workbench.core.dtypes import TURBOQUANT_BITS
from workbench.core.errors import WorkbenchError
from workbench.core.layouts.error import LayoutError
from workbench.core.rule_set import RULE_SETS

HIDDEN = {"hidden_state_layers": 2, "num_speculative_tokens": 1}
NAS = nemotron_nas(
    block_configs=[
        {"attention": {"no_op": False, "n_heads_in_group": 32 // heads}} for heads in (8, 4, 8, 2)
    ]
)
CASES = {
    "packed, with plain layers": {
        "model": "llama-3.1-8b",
        "kv_cache_dtype": "turboquant_4bit_nc",
    },
    "fp8, with plain layers": {
        "model": "qwen3-8b",
        "kv_cache_dtype": "fp8",
        "kv_cache_dtype_skip_layers": ("0", "7"),
    },
    "KV heads of each layer": {"model": NAS},
    "hidden states": {"model": "llama-3.1-8b", **HIDDEN},
    "hidden states of a hybrid": {"model": "qwen3.5-4b", **HIDDEN},
    "windows in bfloat16": {
        "model": "gpt-oss-20b",
        "kv_cache_dtype": "fp8",
        "kv_cache_dtype_skip_layers": ("sliding_window",),
    },
}
ONE_ALLOCATION = {
    "a hybrid with a plain layer": {
        "model": "qwen3.5-4b",
        "kv_cache_dtype": "fp8",
        "kv_cache_dtype_skip_layers": ("3",),
    },
    "hidden states of windows": {"model": "gpt-oss-20b", **HIDDEN},
    **CASES,
}


def plan_of(fields, rules="0.23", **more):
    return wb.resolve(max_model_len=2048, rules=rules, **fields, **more)


def places_meet(pool):
    """Every byte of the allocation in steps: which layer is there, by the places alone."""
    allocation = next(iter(pool.places.values())).where.allocation_bytes
    pick = random.Random(7)
    for address in (0, allocation - 1, *(pick.randrange(allocation) for _ in range(SAMPLES))):
        there = {}
        for name, place in pool.places.items():
            found = place.where.locate(address)
            if found is not None and found[0] == place.index:
                assert place.group not in there, "two layers of one group have a byte"
                there[place.group] = (name, found[1] * place.where.page_bytes + found[2])
        assert there, f"no layer has byte {address:,}"
        name, byte = next(iter(there.values()))
        assert pool.address(name, byte) == address
        meanings = pool.at(pool.layers[name][1], byte).meanings
        assert {meaning.group: meaning.layer for meaning in meanings} == {
            group: layer for group, (layer, _byte) in there.items()
        }


def assert_exact(plan, pool, seed=0):
    """L1, L2, L3, L6 for every size of page."""
    pick = random.Random(seed)
    specs = {
        name: spec
        for group in plan.cache.groups
        for name, spec in zip(group.layers, group.layer_specs, strict=True)
    }
    for group in all_layers(pool):
        if not pool.places:
            assert group.page_bytes == specs[group.layer].page_size_bytes
        assert group.raw_bytes == group.page_bytes * pool.num_blocks
    assert_pages_are_filled(pool)
    for number in {0, len(pool.tensors) - 1, pick.randrange(len(pool.tensors))}:
        for _ in range(SAMPLES // 3):
            assert_round_trip(pool, number, pick.randrange(pool.tensors[number].raw_bytes))
    if pool.places:
        places_meet(pool)
    else:
        one = sum(tensor.page_bytes for tensor in pool.tensors)
        assert one == plan.cache.grouping.bytes_per_block


@pytest.mark.parametrize("case", CASES)
def test_every_tensor_has_a_page_of_its_own_size(case):
    plan = plan_of(CASES[case])
    pool = byte_map(plan, num_blocks=3)
    assert {layer.layer for layer in all_layers(pool)} == set(pool.layers)
    assert_exact(plan, pool)


@pytest.mark.parametrize("layout", [None, "LBHNC", "BLNHC", "BLHNC"])
@pytest.mark.parametrize("case", ONE_ALLOCATION)
def test_one_allocation_holds_pages_of_all_sizes(case, layout):
    plan = plan_of(ONE_ALLOCATION[case], "0.33", kv_cache_layout=layout)
    if plan.errors:
        assert {problem.code for problem in plan.errors} == {"layout_not_supported"}
        return
    assert_exact(plan, byte_map(plan, num_blocks=2))


def test_the_overlap_with_a_page_of_another_size_is_named():
    """BLNHC: the page of the plain layer comes last and covers two pages of states."""
    fields = ONE_ALLOCATION["a hybrid with a plain layer"]
    plan = plan_of(fields, "0.33", kv_cache_layout="BLNHC")
    pool = byte_map(plan, num_blocks=2)
    sizes = [tensor.page_bytes for tensor in pool.tensors]
    assert len(set(sizes)) == 2
    wide = max(range(len(sizes)), key=sizes.__getitem__)
    [plain] = pool.tensors[wide].groups
    assert plain.layer == "model.layers.3.attn"
    halves = [pool.at(wide, byte) for byte in (plain.page_bytes, 2 * plain.page_bytes - 1)]
    for found in halves:
        assert found.of_group(3).layer == plain.layer
        assert {meaning.block for meaning in found.meanings} == {1}
    assert halves[0].of_group(0).layer != getattr(halves[1].meanings[0], "layer", None)


def test_each_layer_is_read_as_its_own_backend_cuts_it():
    pool = byte_map(plan_of(CASES["packed, with plain layers"]), num_blocks=2)
    parts = {name: [part.name for part in group.parts] for name, (group, _n) in pool.layers.items()}
    assert parts["model.layers.0.attn"] == ["K", "V"]
    assert parts["model.layers.2.attn"] == ["K", "K norm", "V", "V scale", "V zero"]
    new = byte_map(plan_of(CASES["packed, with plain layers"], "0.33"), num_blocks=2)
    kinds = [[part.name for part in new.layers[f"model.layers.{n}.attn"][0].parts] for n in (0, 2)]
    assert kinds == [parts["model.layers.0.attn"], parts["model.layers.2.attn"]]


def test_kv_heads_of_each_layer():
    pool = byte_map(plan_of(CASES["KV heads of each layer"]), num_blocks=2)
    heads = [group.parts[0].view.shape[2] for group in all_layers(pool)]
    assert heads == [8, 4, 8, 2]


def test_hidden_states_by_token_layer_and_element():
    pool = byte_map(plan_of(CASES["hidden states"]), num_blocks=2)
    layer = "model.cache_only_layers.32"
    where = {"layer": layer, "block": 1, "part": "hidden state"}
    [found] = pool.bytes_of(**where, token=3, head=1, value=7)
    row = 2 * 4096 * 2  # two layers of 4096 bfloat16
    assert found.start == 16 * row + 3 * row + 4096 * 2 + 7 * 2


MODELS = {
    "llama": llama,
    "gpt_oss": gpt_oss,
    "gemma3": gemma3,
    "nas": lambda: NAS,
    "deepseek": deepseek_v3,
    "qwen3_5": qwen3_5,
}


@st.composite
def mixed(draw):
    """Anything that gives layers specs of their own, in both versions."""
    rules = draw(st.sampled_from(["0.23", "0.33"]))
    known = RULE_SETS[rules]
    dtypes = ("auto", "fp8", "int8_per_token_head", "nvfp4", *TURBOQUANT_BITS)
    layouts = st.sampled_from([None, *known.layouts.names])
    hidden = draw(st.sampled_from([0, 0, 1, 3]))
    skipped = st.lists(st.sampled_from(["0", "1", "3", "sliding_window"]), max_size=3)
    return wb.Scenario(
        model=MODELS[draw(st.sampled_from(sorted(MODELS)))](),
        rules=rules,
        platform=draw(st.sampled_from(["cuda", "cuda", "rocm", "xpu", "cpu"])),
        compute_capability=draw(st.sampled_from([None, "8.0", "10.0"])),
        kv_cache_dtype="auto" if hidden else draw(st.sampled_from(dtypes)),
        kv_cache_dtype_skip_layers=tuple(draw(skipped)) or None,
        kv_cache_layout=draw(layouts),
        hidden_state_layers=hidden,
        num_speculative_tokens=1 if hidden else 0,
        block_size=draw(st.sampled_from([None, 16, 48, 64, 192])),
        tensor_parallel=draw(st.sampled_from([1, 2])),
        max_model_len=2048,
    )


@given(scenario=mixed(), blocks=st.integers(1, 3), seed=st.integers(0, 2**16))
def test_whatever_starts_is_mapped_exactly(scenario, blocks, seed):
    """No plan that vLLM would start is left without a map."""
    try:
        plan = wb.resolve(scenario)
    except WorkbenchError:
        return
    if plan.cache is None or plan.errors:
        return
    pool = refusal = None
    try:
        pool = byte_map(plan, num_blocks=blocks)
    except LayoutError as error:
        refusal = error
    if pool is not None:
        assert_exact(plan, pool, seed)
        return
    if refusal.code == "backend_not_valid":  # XPU looks at the dtype alone, for MLA too
        assert scenario.platform == "xpu"
        assert plan.backend_record.name == "TURBOQUANT"
        return
    assert refusal.vllm_exception is not None or refusal.code == "head_not_in_vectors", refusal


@pytest.mark.parametrize("dtype", ["auto", "fp8", "fp8_per_token_head", "int4_per_token_head"])
def test_a_head_has_as_many_values_whatever_their_bits(dtype):
    plan = plan_of(
        {"model": "llama-3.1-8b", "kv_cache_dtype": dtype}, "0.33", backend="TRITON_ATTN"
    )
    (parts,) = {group.parts for t in byte_map(plan, num_blocks=2).tensors for group in t.groups}
    values = {part.name: part.values for part in parts if part.name in {"K", "V"}}
    assert values == dict.fromkeys("KV", plan.model.attention.head_size)
