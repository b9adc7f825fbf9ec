"""Grouping of 0.23 and 0.33: the cases of the decision list, and what holds for all of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise, permutations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import workbench as wb
from tests.models.configs import gemma3, llama, nemotron_h, nemotron_nas
from workbench.core.capacity.occupancy import pool_use, waste
from workbench.core.groups.cache_spec import (
    SLIDING_MLA_SPEC,
    CacheSpec,
    NoSingleTypeError,
    promoted,
)
from workbench.core.groups.decision import group_layers
from workbench.core.groups.grouping import Group
from workbench.core.groups.of_plan import common_layouts
from workbench.core.groups.several_pages import layer_tuple_groups, packed_groups
from workbench.core.groups.unification import PagesNotUnifiableError, with_hidden_groups
from workbench.core.versions import V0_23, V0_33
from workbench.core.versions.v0_33.layouts import NAMES as ANY_LAYOUT

GIB = 2**30
FULL = CacheSpec("FullAttentionSpec", 16, 4096, None, 4, 32)
WIDE = CacheSpec("FullAttentionSpec", 16, 8192, None, 8, 32)
SLIDING = CacheSpec("SlidingWindowSpec", 16, 4096, 512, 4, 32)
ODD_SLIDING = CacheSpec("SlidingWindowSpec", 16, 3072, 512, 3, 32)
CHUNKED = CacheSpec("ChunkedLocalAttentionSpec", 16, 4096, 1024, 4, 32)
MLA = CacheSpec("MLAAttentionSpec", 16, 18432, None, 1, 576, "auto")
ODD_MLA = CacheSpec("MLAAttentionSpec", 16, 3200, None, 1, 100, "auto")
MAMBA = CacheSpec("MambaSpec", 4096, 4096, padding_bytes=96)
LARGE_MAMBA = CacheSpec("MambaSpec", 4096, 10000)
HIDDEN = CacheSpec("HiddenStateCacheSpec", 16, 16 * 1000, None, 1, 500)


def layers(**counts):
    kinds = {
        "full": FULL, "wide": WIDE, "sliding": SLIDING, "odd": ODD_SLIDING, "chunked": CHUNKED,
        "mla": MLA, "odd_mla": ODD_MLA, "mamba": MAMBA, "large_mamba": LARGE_MAMBA,
        "hidden": HIDDEN,
    }  # fmt: skip
    return {f"{kind}.{i}": kinds[kind] for kind, count in counts.items() for i in range(count)}


@pytest.mark.parametrize(
    ("full", "sliding", "largest"),
    [(2, 3, 2), (3, 2, 2), (5, 7, 7), (41, 61, 61), (41, 62, 41), (1, 4, 1)],
)
def test_kinds_nearly_as_frequent_make_one_large_group_each(full, sliding, largest):
    """Below one and a half times the fewest, the most layers of a kind are the group's size."""
    grouping = group_layers(layers(full=full, sliding=sliding), V0_23.groups)
    assert grouping.group_size == largest


@pytest.mark.parametrize("rules", [V0_23.groups, V0_33.groups], ids=["0.23", "0.33"])
def test_without_the_hybrid_manager_windows_are_kept_whole(rules):
    grouping = group_layers(layers(full=2, sliding=4), rules, hybrid_manager=False)
    (group,) = grouping.groups
    assert group.kind == "FullAttentionSpec"
    assert len(group.layers) == 6
    assert len(group_layers(layers(full=2, sliding=4), rules).groups) == 3


def test_windows_of_every_rank_are_kept_whole_apart_from_what_ranks_share():
    """A drafter's layers are whole on every rank, and those of its target are spread."""
    shared, short = (
        FULL._replace(context_ranks=2),
        FULL._replace(block_size=32, page_size_bytes=8192),
    )
    specs = {"shared": shared, "own": short, "window": SLIDING._replace(block_size=32)}
    grouping = group_layers(specs, V0_33.groups, hybrid_manager=False)
    found = {layer: group.spec for group in grouping.groups for layer in group.layers}
    assert {layer: spec.kind for layer, spec in found.items()} == dict.fromkeys(specs, FULL.kind)
    assert {layer: spec.context_ranks for layer, spec in found.items()} == {
        "shared": 2,
        "own": 1,
        "window": 1,
    }


@pytest.mark.parametrize("padded", [5_000, 16_384, 20_000])
def test_0_33_keeps_the_padding_of_a_window_that_takes_a_larger_block(padded):
    specs = {"full": FULL.with_block(64), "window": SLIDING.padded(padded)}
    window = promoted(specs, V0_33.groups)["window"]
    assert (window.block_size, window.content_bytes) == (64, 16_384)
    assert window.page_size_bytes == max(padded, 16_384)


@pytest.mark.parametrize("rules", [V0_23.groups, V0_33.groups], ids=["0.23", "0.33"])
@pytest.mark.parametrize("found", [{"full": 1, "mamba": 2}, {"sliding": 1, "chunked": 1}])
def test_what_stays_of_several_types_is_refused(rules, found):
    with pytest.raises(NoSingleTypeError, match="one unified type"):
        group_layers(layers(**found), rules, hybrid_manager=False)


def test_without_the_hybrid_manager_a_request_keeps_every_token():
    sliding = wb.resolve(model="gemma-3-27b", max_model_len=131072)
    whole = wb.resolve(
        model="gemma-3-27b", max_model_len=131072, disable_hybrid_kv_cache_manager=True
    )
    assert len(sliding.cache.groups) == 7
    (group,) = whole.cache.groups
    assert group.spec.kind == "FullAttentionSpec"
    assert whole.cache.blocks_per_request == 131072 // 16
    assert whole.cache.needed_bytes > sliding.cache.needed_bytes


@pytest.mark.parametrize("rules", [V0_23.groups, V0_33.groups], ids=["0.23", "0.33"])
def test_one_type_with_several_pages_is_one_group_with_one_page_per_layer(rules):
    layout = "LBNHC" if rules is V0_33.groups else None
    grouping = group_layers({"a": FULL, "b": WIDE, "c": FULL}, rules, layout=layout)
    (group,) = grouping.groups
    assert group.kind == "UniformTypeKVCacheSpecs"
    assert group.page_size_bytes == grouping.bytes_per_block == 4096 + 8192 + 4096
    if rules is V0_23.groups:
        assert [tensor.size_bytes for tensor in grouping.tensors(2)] == [8192, 16384, 8192]


@given(
    st.sampled_from(["int8_per_token_head", "fp8_per_token_head", "fp8"]), st.sampled_from([1, 8])
)
def test_chunks_that_become_full_attention_lose_their_scales(dtype, ranks):
    """`unify_hybrid_kv_cache_specs` of 0.23 does not hand kv_quant_mode on."""
    plan = wb.resolve(
        model="llama-4-scout",
        kv_cache_dtype=dtype,
        tensor_parallel=ranks,
        rules="0.23",
        disable_hybrid_kv_cache_manager=True,
    )
    chunks, full = plan.built_cache().groups[0].different_specs
    assert (chunks.forgets_quantization, full.forgets_quantization) == (True, False)
    assert chunks.page_size_bytes == 2 * 16 * chunks.num_kv_heads * chunks.head_size
    scales = 0 if dtype == "fp8" else 2 * 4 * 16 * full.num_kv_heads
    assert full.page_size_bytes == chunks.page_size_bytes + scales


@pytest.mark.parametrize("others", [(), (MLA, MLA._replace(block_size=32))])
def test_compressed_layers_with_a_window_need_others_of_one_block(others):
    window = MLA._replace(kind=SLIDING_MLA_SPEC, window_tokens=128)
    with pytest.raises(PagesNotUnifiableError, match="of one block size"):
        layer_tuple_groups({"window": window, **dict(enumerate(others))})


@given(
    *(st.integers(1, 6) for _ in range(2)),
    st.sampled_from([(4096, 10000), (10000, 4096), (4096, 8192), (9000, 10000)]),
)
def test_states_are_cut_until_they_fit_the_block_of_the_other_layers(attention, states, sizes):
    page, state = sizes
    specs = {f"a{at}": FULL._replace(page_size_bytes=page) for at in range(attention)}
    specs |= {f"s{at}": LARGE_MAMBA._replace(page_size_bytes=state) for at in range(states)}
    whole, *cut = packed_groups(specs, V0_33.groups)
    assert len(whole.layers) == attention
    assert sum(len(group.layers) for group in cut) == states
    room = max(attention * page, state) // state
    assert {len(group.layers) for group in cut} <= set(range(1, room + 1))
    assert len(cut) == -(-states // room)


def test_models_with_kv_heads_of_their_own_in_every_layer():
    plan = wb.resolve(model=nemotron_nas(), kv_cache_memory_bytes=GIB, max_model_len=4096)
    (group,) = plan.to_dict()["groups"]
    assert group["spec"] == "UniformTypeKVCacheSpecs"
    assert group["layer_names"] == [f"model.layers.{number}.attn" for number in (0, 2, 3)]
    token = 2 * 128 * 2
    assert group["layer_page_size_bytes"] == [16 * token * heads for heads in (8, 4, 1)]
    assert plan.cache.num_blocks == GIB // (16 * token * 13)
    assert wb.resolve(model=nemotron_nas(), tensor_parallel=8).cache.grouping.has_equal_pages


def test_turboquant_leaves_the_ends_of_a_dense_model_alone():
    plan = wb.resolve(
        model="llama-3.1-8b", kv_cache_dtype="turboquant_k8v4", kv_cache_memory_bytes=GIB
    )
    (group,) = plan.cache.groups
    kinds = [spec.kind for spec in group.own_specs]
    assert kinds == ["FullAttentionSpec"] * 2 + ["TQFullAttentionSpec"] * 28 + kinds[:2]
    assert group.own_specs[0].page_size_bytes == 16 * 8 * 2 * 128 * 2
    hybrid = wb.resolve(model="qwen3.5-4b", kv_cache_dtype="turboquant_k8v4")
    assert not any(group.own_specs for group in hybrid.cache.groups)


def tuples(repeats, windows):
    """Layers as DeepSeek-V4 has them: two compressed caches a repeat, and layers with windows."""
    main = CacheSpec("MLAAttentionSpec", 256, 65536, stored="4")
    index = CacheSpec("MLAAttentionSpec", 256, 8192, stored="4 index")
    window = CacheSpec("SlidingWindowMLASpec", 64, 60000, 128)
    specs = {}
    for number in range(repeats):
        specs |= {f"main.{number}": main, f"index.{number}": index}
    return specs | {f"window.{number}": window for number in range(windows)}


def test_layer_tuples_share_places_by_page():
    grouping = group_layers(tuples(4, 8), V0_23.groups)
    assert [len(group.layers) for group in grouping.groups] == [8, 4, 4]
    assert {spec.padding_bytes for spec in grouping.groups[1].own_specs} == {65536 - 60000}
    assert grouping.bytes_per_block == 4 * (65536 + 8192)
    assert grouping.tensors(1)[0].shared_by == ("main.0", "window.0", "window.1")


def test_a_window_larger_than_every_compressed_page_is_refused():
    specs = {**tuples(1, 0), "w": CacheSpec("SlidingWindowMLASpec", 64, 70000, 128)}
    with pytest.raises(PagesNotUnifiableError, match="larger than every page"):
        group_layers(specs, V0_23.groups)


def test_hidden_states_of_a_hybrid_are_a_separate_group():
    plan = wb.resolve(
        model="qwen3.5-4b",
        hidden_state_layers=3,
        num_speculative_tokens=1,
        max_model_len=4096,
        kv_cache_memory_bytes=20 * GIB,
    )
    group = plan.cache.groups[-1]
    token = 3 * plan.model.hidden_size * 2
    assert group.kind == "HiddenStateCacheSpec"
    assert group.spec.block_size == plan.cache.grouping.page_size_bytes // token
    assert group.spec.page_size_bytes == plan.cache.grouping.page_size_bytes
    assert plan.errors == ()


def test_0_33_gives_hidden_states_a_block_that_divides_the_others():
    attention = CacheSpec("FullAttentionSpec", 800, 800 * 400, None, 1, 100)
    state = CacheSpec("MambaSpec", 4000, 800 * 400)
    hidden = CacheSpec("HiddenStateCacheSpec", 16, 16 * 1000, None, 1, 500)
    specs = {"a": attention, "b": state, "c": hidden}
    *_others, old = group_layers(specs, V0_23.groups).groups
    *_others, new = group_layers(specs, V0_33.groups, layout="LBNHC").groups
    assert (old.spec.block_size, new.spec.block_size) == (320, 200)
    assert new.spec.padding_bytes / new.spec.page_size_bytes == 0.375
    notes = group_layers(specs, V0_33.groups, layout="LBNHC").notes
    assert any("wastes 120000 bytes (37.50%) per block" in note for note in notes)


def test_0_33_grows_blocks_until_a_page_holds_a_hidden_state():
    """As `_ensure_min_page_size` of vLLM: a state that is not padded keeps its page."""
    attention = CacheSpec("FullAttentionSpec", 16, 512, None, 1, 8)
    state = CacheSpec("MambaSpec", 64, 512)
    padded = CacheSpec("MambaSpec", 64, 400).padded(512)
    groups = tuple(
        Group(spec, (name,)) for name, spec in zip("abc", (attention, state, padded), strict=True)
    )

    def sizes(token_bytes):
        hidden = CacheSpec("HiddenStateCacheSpec", 1, token_bytes, None, 1, token_bytes // 2)
        found, _ = with_hidden_groups(groups, {"d": hidden}, V0_33.groups)
        return [(group.spec.block_size, group.spec.page_size_bytes) for group in found[:3]]

    assert sizes(512) == [(16, 512), (64, 512), (64, 512)]
    assert sizes(514) == sizes(1024) == [(32, 1024), (128, 512), (128, 1024)]
    assert sizes(1026) == [(48, 1536), (192, 512), (192, 1536)]


def test_0_33_pads_what_0_23_refuses():
    for found in ({"full": 2, "large_mamba": 2}, {"wide": 2, "odd": 2}):
        with pytest.raises(PagesNotUnifiableError):
            group_layers(layers(**found), V0_23.groups)
        grouping = group_layers(layers(**found), V0_33.groups, layout="LBNHC")
        assert grouping.has_equal_pages
        assert any(spec.padding_bytes for group in grouping.groups for spec in group.layer_specs)
    padded = group_layers({"a": WIDE, "b": MAMBA}, V0_33.groups, layout="LBNHC").groups[1].spec
    assert (padded.page_size_bytes, padded.content_bytes) == (8192, 4000)


def test_mla_that_does_not_divide_is_refused_or_kept_whole():
    with pytest.raises(PagesNotUnifiableError) as caught:
        group_layers(layers(mla=1, odd_mla=1, mamba=1), V0_33.groups, layout="LBNHC")
    assert "odd_mla.0: its page of 3,200 bytes" in str(caught.value)
    assert (caught.value.vllm_text or "").endswith("cannot be padded")
    grouping = group_layers({"mla": ODD_MLA, "s": SLIDING}, V0_33.groups, layout="LBNHC")
    (group,) = grouping.groups
    assert group.kind == "UniformTypeKVCacheSpecs"
    assert "treating sliding-window layers as full attention" in grouping.notes[0]
    with pytest.raises(PagesNotUnifiableError):
        group_layers({"mla": ODD_MLA, "s": SLIDING}, V0_23.groups)


def test_0_33_joins_layers_that_differ_only_in_what_they_compute():
    windowed = FULL._replace(computed_window_tokens=512)
    specs = {"a": FULL, "b": windowed, "c": MAMBA, "d": MAMBA}
    assert len(group_layers(specs, V0_23.groups).groups) == 4
    grouping = group_layers(specs, V0_33.groups, layout="LBNHC")
    assert [group.layers for group in grouping.groups] == [("a", "b"), ("c", "d")]


def test_pages_of_several_sizes_are_adjacent_in_a_block():
    grouping = group_layers(layers(wide=4, large_mamba=6), V0_33.groups, layout="BLHNC")
    assert [len(group.layers) for group in grouping.groups] == [4, 3, 3]
    assert grouping.bytes_per_block == 4 * 8192
    assert not grouping.has_equal_pages
    attention = grouping.placements(10)[0].where
    assert (attention.layer_stride, attention.block_stride) == (8192, 4 * 8192)


@st.composite
def spec_sets(draw):
    kinds = st.sampled_from([FULL, WIDE, SLIDING, ODD_SLIDING, CHUNKED, MAMBA, LARGE_MAMBA, MLA])
    picked = draw(st.lists(kinds, min_size=1, max_size=24))
    specs = {f"model.layers.{number}": spec for number, spec in enumerate(picked)}
    if draw(st.booleans()):
        specs["model.hidden.0"] = HIDDEN
    return specs


def grouping_or_skip(specs, rules, layout=None, hybrid_manager=True):
    try:
        return group_layers(specs, rules, layout=layout, hybrid_manager=hybrid_manager)
    except (PagesNotUnifiableError, NoSingleTypeError):
        assume(False)
        raise


@given(specs=spec_sets(), layout=st.sampled_from([None, *ANY_LAYOUT]), manager=st.booleans())
def test_every_layer_is_in_exactly_one_group_and_keeps_its_content(specs, layout, manager):
    rules = V0_23.groups if layout is None else V0_33.groups
    grouping = grouping_or_skip(specs, rules, layout, manager)
    placed = {}
    for group in grouping.groups:
        for name, spec in zip(group.layers, group.layer_specs, strict=True):
            assert name not in placed
            placed[name] = spec
            assert 0 <= spec.padding_bytes <= spec.page_size_bytes
            assert spec.is_mamba == specs[name].is_mamba
            if spec.is_mamba:
                assert spec.content_bytes == specs[name].content_bytes
            else:
                assert spec.token_bytes == specs[name].token_bytes
    assert placed.keys() == specs.keys()


@given(specs=spec_sets(), blocks=st.integers(1, 5))
def test_tensors_hold_every_layer_once_and_all_bytes_of_a_block(specs, blocks):
    grouping = grouping_or_skip(specs, V0_23.groups)
    tensors = grouping.tensors(blocks)
    assert sorted(name for tensor in tensors for name in tensor.shared_by) == sorted(specs)
    assert sum(tensor.size_bytes for tensor in tensors) == grouping.bytes_per_block * blocks
    pages = {
        name: spec.page_size_bytes
        for group in grouping.groups
        for name, spec in zip(group.layers, group.layer_specs, strict=True)
    }
    owners = {name: number for number, group in enumerate(grouping.groups) for name in group.layers}
    for tensor in tensors:
        assert all(pages[name] * blocks == tensor.size_bytes for name in tensor.shared_by)
        assert len({owners[name] for name in tensor.shared_by}) == len(tensor.shared_by)


@given(specs=spec_sets(), layout=st.sampled_from(ANY_LAYOUT), blocks=st.integers(1, 4))
def test_pages_of_one_group_never_meet_and_stay_in_the_allocation(specs, layout, blocks):
    heads_apart = layout in {"LHBNC", "BHLNC"}
    grouping = grouping_or_skip(specs, V0_33.groups, layout)
    several = len({(spec.num_kv_heads, spec.page_size_bytes) for spec in specs.values()}) > 1
    assume(not (heads_apart and several))
    (allocation,) = grouping.tensors(blocks)
    assert allocation.size_bytes == grouping.bytes_per_block * blocks
    found = grouping.placements(blocks)
    assert sorted(name for placed in found for name in placed.layers) == sorted(specs)
    for number in range(len(grouping.groups)):
        pieces = [
            piece
            for placed in found
            if placed.group == number
            for layer in range(len(placed.layers))
            for block in range(blocks)
            for piece in placed.where.ranges(layer, block)
        ]
        assert min(piece.start for piece in pieces) >= 0
        assert max(piece.stop for piece in pieces) <= allocation.size_bytes
        ordered = sorted(pieces, key=lambda piece: piece.start)
        assert all(low.stop <= high.start for low, high in pairwise(ordered))
        assert sum(map(len, pieces)) == grouping.groups[number].layers_bytes * blocks


SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "hidden_state_layers": st.integers(1, 4),
        "disable_hybrid_kv_cache_manager": st.booleans(),
        "kv_cache_layout": st.sampled_from([None, "LBNHC", "BLHNC", "BLNHC", "LBHNC"]),
        "kv_cache_dtype": st.sampled_from(["auto", "fp8", "turboquant_k8v4"]),
        "num_speculative_tokens": st.integers(0, 3),
    },
)
MODELS = [nemotron_h(), llama(), gemma3(), nemotron_nas(), "qwen3.5-4b", "gpt-oss-20b"]


@given(
    model=st.sampled_from(MODELS),
    rules=st.sampled_from(["0.23", "0.33"]),
    settings=SETTINGS,
    align=st.booleans(),
    ranks=st.lists(st.integers(0, 40 * GIB), min_size=1, max_size=4),
    prompt=st.integers(1, 4096),
)
def test_the_waste_of_every_rank_adds_up(model, rules, settings, align, ranks, prompt):
    if rules == "0.23":
        settings = {**settings, "kv_cache_layout": None}
    mode = {"enable_prefix_caching": True, "mamba_cache_mode": "align"} if align else {}
    try:
        plan = wb.resolve(
            model=model,
            rules=rules,
            max_model_len=4096,
            kv_cache_memory_bytes_by_rank=ranks,
            **settings,
            **mode,
        )
    except wb.WorkbenchError:
        return
    cache = plan.cache
    if cache is None:
        assert {problem.code for problem in plan.errors} & {"pages_not_equal", "not_one_type"}
        return
    parts = waste(plan, cache, prompt)
    assert sum(parts.parts.values()) == parts.reserved_bytes
    assert min(parts.parts.values()) >= 0
    assert cache.num_blocks == min(size // cache.grouping.bytes_per_block for size in ranks)
    for rank, size in enumerate(ranks):
        use = pool_use(plan, cache, prompt, rank)
        if use is None:
            assert cache.num_blocks == 0
            continue
        assert sum(use.values()) == size
        assert min(use.values()) >= 0


def test_the_poorest_rank_decides_and_the_others_waste_the_rest():
    ranks = (20 * GIB, 18 * GIB)
    plan = wb.resolve(
        model="qwen3.5-4b", tensor_parallel=2, kv_cache_memory_bytes_by_rank=list(ranks)
    )
    alone = wb.resolve(model="qwen3.5-4b", tensor_parallel=2, kv_cache_memory_bytes=ranks[1])
    assert plan.cache.num_blocks == alone.cache.num_blocks
    assert plan.cache.tensors == alone.cache.tensors
    assert plan.trace.step("least_of_ranks").result == plan.cache.num_blocks
    rich, poor = (pool_use(plan, plan.cache, 1000, rank) for rank in (0, 1))
    assert rich["used"] == poor["used"] > 0
    assert rich["rank imbalance"] > GIB
    assert poor["rank imbalance"] == 0
    assert pool_use(plan, plan.cache, 1000) == rich
    with pytest.raises(wb.ScenarioError, match="Nearest valid value: 1"):
        pool_use(plan, plan.cache, 1000, 2)


def test_0_33_leaves_the_null_block_out_of_the_check():
    needed = wb.resolve(model="qwen3.5-4b", max_model_len=32768).cache.needed_bytes
    given_bytes = {"model": "qwen3.5-4b", "max_model_len": 32768, "max_num_seqs": 8}
    old = wb.resolve(**given_bytes, kv_cache_memory_bytes=needed)
    assert [problem.code for problem in old.problems] == ["null_block_not_counted"]
    new = wb.resolve(**given_bytes, rules="0.33")
    exact = new.cache.needed_bytes
    block = new.cache.grouping.bytes_per_block
    for memory, codes in ((exact, ["not_enough_memory"]), (exact + block, [])):
        plan = wb.resolve(**given_bytes, rules="0.33", kv_cache_memory_bytes=memory)
        assert [problem.code for problem in plan.problems] == codes
    fitted = wb.resolve(
        **{**given_bytes, "max_model_len": -1}, rules="0.33", kv_cache_memory_bytes=exact
    )
    assert fitted.cache.needed_bytes + block <= exact
    assert any("KV cache memory (" in line for line in fitted.log_lines)


def test_0_33_counts_a_block_for_checkpoints_inside_a_prefill():
    align = {"enable_prefix_caching": True, "mamba_cache_mode": "align", "rules": "0.33"}
    for model, extra, more in (
        ("nemotron-3-nano-30b-a3b", {}, 1),
        ("qwen3.5-4b", {}, 1),
        ("qwen3.5-4b", {"gdn_flashinfer_prefill": False}, 0),
        ("olmo-hybrid-7b", {"gdn_flashinfer_prefill": True}, 0),
        ("qwen3.5-4b", {"gdn_flashinfer_prefill": True}, 1),
        ("kimi-linear-48b-a3b", {}, 0),
    ):
        cache = wb.resolve(model=model, max_model_len=32768, **align, **extra).cache
        states = sum(group.spec.is_mamba for group in cache.groups)
        (attention,) = (group.spec for group in cache.groups if not group.spec.is_mamba)
        assert cache.blocks_per_request == -(-32768 // attention.block_size) + (2 + more) * states


@pytest.mark.parametrize(("platform", "name"), [("cuda", "GPU"), ("rocm", "GPU"), ("xpu", "XPU")])
def test_0_33_prints_one_line_with_the_device(platform, name):
    plan = wb.resolve(
        model="llama-3.1-8b",
        platform=platform,
        rules="0.33",
        max_model_len=4096,
        kv_cache_memory_bytes=20 * GIB,
    )
    tokens = plan.cache.printed_tokens
    line = f"{name} KV cache size: {tokens:,} tokens, Maximum concurrency for 4,096 tokens per "
    assert [found for found in plan.log_lines if found.startswith(f"{line}request: ")]


def test_0_33_windows_hold_the_tokens_of_two_steps():
    given_model = {"model": "gpt-oss-20b", "max_model_len": 131072}
    old, new = wb.resolve(**given_model).cache, wb.resolve(**given_model, rules="0.33").cache
    assert new.blocks_per_request - old.blocks_per_request == 2048 // 16


def test_the_one_allocation_is_published_with_its_addresses():
    plan = wb.resolve(model="qwen3.5-4b", rules="0.33", kv_cache_memory_bytes=20 * GIB)
    published = plan.to_dict()
    (tensor,) = published["tensors"]
    blocks = published["num_blocks"]
    assert published["cache_layout"] == "LBNHC"
    assert tensor["size"] == plan.cache.grouping.bytes_per_block * blocks
    assert len(published["placements"]) == len(published["groups"])
    for placed, group in zip(published["placements"], published["groups"], strict=True):
        assert placed["layer_names"] == group["layer_names"]
        assert placed["block_stride"] == group["page_size_bytes"]
        assert placed["layer_stride"] == group["page_size_bytes"] * blocks
        assert placed["offset"] == 0
    assert wb.resolve(model="qwen3.5-4b").to_dict()["placements"] is None


def test_a_layout_that_packs_changes_the_groups():
    plan = wb.resolve(
        model="qwen3.5-4b",
        rules="0.33",
        backend="FLASH_ATTN",
        kv_cache_layout="BLHNC",
        kv_cache_memory_bytes=20 * GIB,
        hidden_state_layers=3,
        num_speculative_tokens=1,
    )
    assert plan.cache.grouping.is_block_outermost
    for first, second in combinations(plan.cache.placements, 2):
        strides = {first.where.block_stride, second.where.block_stride}
        assert strides == {plan.cache.grouping.bytes_per_block}
    assert plan.cache.kernel_block_sizes == tuple(
        group.spec.block_size for group in plan.cache.groups
    )


@pytest.mark.parametrize(
    "names", list(permutations(("ROCM_ATTN", "ROCM_AITER_FA", "ROCM_AITER_UNIFIED_ATTN")))
)
def test_0_33_prefers_the_layout_that_most_backends_put_first(names):
    """ROCM_ATTN alone reads LHBNC rather than LBHNC."""
    backend, drafter, other = names
    plan = replace(
        wb.resolve(model="qwen3-8b", rules="0.33", platform="rocm"),
        backend=backend,
        draft_backend=drafter,
        layer_backends=((None, other, ()),),
    )
    assert common_layouts(plan) == ("LBHNC", "LHBNC")
