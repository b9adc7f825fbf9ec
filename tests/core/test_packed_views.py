"""Views of 0.33: against 0.33's own functions, and disjoint bytes for every backend and order."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.catalog import distinct_models
from tests.core.strategies import scenarios
from tests.groups import in_groups
from tests.recorded import recorded
from workbench.core.byte_map.of_plan import byte_map
from workbench.core.errors import WorkbenchError
from workbench.core.groups.of_plan import possible_layouts
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.layer_pages import attention_pages
from workbench.core.layouts.layer_views import AttentionPages
from workbench.core.layouts.of_plan import plan_layout
from workbench.core.layouts.packed import layer_places, layout_of
from workbench.core.layouts.packed_views import packed_view, page_shape
from workbench.core.layouts.placed import packed_order, packed_strides, place
from workbench.core.layouts.shapes import NUM_BLOCKS, CacheGeometry
from workbench.core.versions.v0_33 import V0_33
from workbench.core.versions.v0_33.layouts import NAMES, USUAL
from workbench.models import load_model
from workbench.views.pages.layout_text import layout_text

CASES = recorded("packed_views_0_33")
ITEM = {"bfloat16": 2, "uint8": 1, "float32": 4}


def answer(case):
    """Our views of a case, or vLLM's exception as we report it."""
    geometry = CacheGeometry(case["block_size"], case["heads"], case["head_size"])
    page = case["heads"] * case["block_size"] * 2 * case["head_size"] * ITEM[case["dtype"]]
    pages = AttentionPages(geometry, case["dtype"], page, case["page_size_padded"])
    try:
        where = place(
            case["layout"],
            page_shape(USUAL, pages),
            layers=case["layers"],
            num_blocks=case["num_blocks"],
            page_bytes=pages.page_bytes,
            block_bytes=case["bytes_per_block"],
        )
        views = [
            packed_view(
                USUAL, pages, where, kernel_block_size=case["kernel_block_size"], layer=layer
            )
            for layer in range(case["layers"])
        ]
    except LayoutError as error:
        return error.vllm_exception, error.vllm_text
    shown = [
        {
            "shape": list(view.shape),
            "stride": list(view.strides),
            "storage_offset": view.offset_elements,
        }
        for view in views
    ]
    return where.layer_stride, where.block_stride, shown


@in_groups
@pytest.mark.parametrize("number", range(260))
def test_views_and_errors_as_0_33_gives_them(number):
    case = CASES[number]
    if "error" in case:
        assert answer(case) == (case["error"], case["message"])
    else:
        assert answer(case) == (case["layer_stride"], case["block_stride"], case["views"])


def test_the_data_has_every_order_and_every_error():
    assert len(CASES) == 260
    assert {case["layout"] for case in CASES} == set(NAMES)
    assert {case.get("error") for case in CASES} == {None, "ValueError", "AssertionError"}


def test_an_order_is_its_letters():
    assert packed_order("LBNHC") == (0, 1, 3, 2, 4)
    assert packed_strides("BLHNC", (2, 3, 4, 5, 6)) == (120, 240, 30, 6, 1)
    with pytest.raises(LayoutError, match="LBNHC"):
        packed_order("LBNH")


BACKENDS_IN_USE = {
    "FLASH_ATTN": {"model": "llama-3.1-8b"},
    "TRITON_ATTN": {"model": "llama-3.1-8b"},
    "FLASHINFER": {"model": "llama-3.1-8b"},
    "FLEX_ATTENTION": {"model": "llama-3.1-8b"},
    "TURBOQUANT": {"model": "qwen3.5-4b", "kv_cache_dtype": "turboquant_k8v4"},
    "ROCM_ATTN": {"model": "qwen3.5-4b", "platform": "rocm"},
    "ROCM_AITER_FA": {"model": "llama-3.1-8b", "platform": "rocm"},
    "ROCM_AITER_UNIFIED_ATTN": {"model": "qwen3.5-4b", "platform": "rocm"},
    "CPU_ATTN": {"model": "qwen3.5-4b", "platform": "cpu"},
    "FLASHMLA": {"model": "kimi-linear-48b-a3b"},
    "HPC_ATTN": {"model": "llama-3.1-8b"},
    "B12X": {"model": "llama-3.1-8b", "compute_capability": "12.0"},
}


def plan_of(backend, **more):
    fields = {**BACKENDS_IN_USE[backend], "max_model_len": 4096, **more}
    return wb.resolve(rules="0.33", backend=backend, **fields)


@pytest.mark.parametrize("backend", BACKENDS_IN_USE)
def test_every_backend_keeps_the_bytes_of_its_page(backend):
    plan = plan_of(backend)
    views = plan_layout(plan, num_blocks=3)
    view = views.attention
    assert view.shape[0] == 3 * views.kernel_blocks_per_block
    assert (
        view.elements * view.itemsize
        == 3
        * plan.cache.groups[
            next(n for n, group in enumerate(plan.cache.groups) if not group.spec.is_mamba)
        ].spec.content_bytes
    )
    assert not views.rewritten
    assert views.misplaced_state_bytes == 0
    assert "one allocation" in layout_text(views)
    assert views.to_dict()["attention"]["place"]["block_stride"] > 0


def test_what_the_dimensions_hold():
    def shape(backend, **more):
        return plan_layout(plan_of(backend, **more), num_blocks=2).attention.shape

    assert shape("FLASH_ATTN") == (2, 8, 16, 256)  # 8 heads, key and value of 128
    assert shape("B12X") == (2, 2, 128, 1024)  # keys and values, then all heads of a token
    assert shape("FLASHMLA")[1:] == (1, 64, 576)
    assert shape("ROCM_ATTN")[1] == 2
    two_sides = shape("FLASHINFER", compute_capability="10.0", kv_cache_dtype="nvfp4")
    assert two_sides[1:] == (16, 16, 128 // 2 + 128 // 16)


@pytest.mark.parametrize(
    ("backend", "order", "reason"),
    [
        ("FLASH_ATTN", "LBNHC", "preferred by FLASH_ATTN"),
        ("CPU_ATTN", "LBHNC", "preferred by CPU_ATTN"),
        ("ROCM_AITER_FA", "LBHNC", "preferred by ROCM_AITER_FA"),
        ("B12X", "LBHNC", "preferred by B12X"),
    ],
)
def test_which_order_is_taken(backend, order, reason):
    found = plan_layout(plan_of(backend), num_blocks=2)
    assert (found.layout.name, found.layout.reason) == (order, reason)
    assert found.to_dict()["attention"]["stride_order_declared"]


def test_the_requested_order():
    plan = plan_of("FLASH_ATTN")
    assert plan_layout(plan, num_blocks=2, layout="HND").layout.name == "LBHNC"
    assert plan_layout(plan, num_blocks=2, layout="BLHNC").attention_place.is_block_outermost
    wished = plan_layout(plan, num_blocks=2, connector="BHLNC").layout
    assert (wished.name, wished.reason) == ("BHLNC", "wish of the KV connector")
    flex = plan_of("FLEX_ATTENTION")
    assert plan_layout(flex, num_blocks=2, connector="HND").layout.name == "LBNHC"
    with pytest.raises(LayoutError) as caught:
        plan_layout(flex, num_blocks=2, layout="HND")
    assert caught.value.vllm_text == (
        "VLLM_KV_CACHE_LAYOUT=HND does not satisfy every supported set; valid layouts: ['LBNHC']."
    )


def test_a_block_with_other_layers_is_not_split():
    scenario = wb.Scenario(
        model="qwen3.5-4b", backend="FLASHINFER", rules="0.33", gdn_flashinfer_prefill=False
    )
    plan = wb.resolve(scenario)
    assert plan_layout(plan, num_blocks=2).kernel_blocks_per_block > 1
    with pytest.raises(LayoutError) as caught:
        plan_layout(plan, num_blocks=2, layout="BLNHC")
    assert caught.value.vllm_text.startswith(
        "FLASHINFER needs 16-token kernel blocks, which packed"
    )


def test_no_rewrite_to_compare_with():
    plan = plan_of("FLASH_ATTN")
    assert plan_layout(plan, num_blocks=2, rule="never").attention is not None
    with pytest.raises(LayoutError, match="no rewrite"):
        plan_layout(plan, num_blocks=2, rule="guessed")
    with pytest.raises(LayoutError, match="runner"):
        plan_layout(plan, num_blocks=2, runner="v3")


def test_every_backend_of_the_rule_set_has_a_view():
    for backend in V0_33.backends.values():
        assert backend.cache is not None or not backend.is_selectable
        assert backend.cache is None or backend.cache.axes[0] == NUM_BLOCKS


def hybrids_and_backends():
    """(model, backend, KV dtype) of every hybrid and a dense model, with any fitting backend."""
    found = []
    for model in distinct_models():
        attention, is_hybrid = load_model(model).attention, load_model(model).is_hybrid
        if attention is None or not (is_hybrid or model == "llama-3.1-8b"):
            continue
        for name, backend in V0_33.backends.items():
            if backend.is_selectable and backend.is_mla == attention.use_mla:
                found.append((model, name, "nvfp4" if name == "FLASHINFER" else "auto"))
    return found


@in_groups
@pytest.mark.parametrize(("model", "backend", "dtype"), hybrids_and_backends())
def test_places_are_those_that_the_backends_own_shape_gives(model, backend, dtype):
    """Every order: the published addresses are those of vLLM's shape of the backend's pages."""
    platform = min(V0_33.backends[backend].platforms)
    capability = "10.0" if platform == "cuda" else None
    for tensor_parallel, layout in product((1, 2), NAMES):
        try:
            plan = wb.resolve(
                model=model,
                rules="0.33",
                platform=platform,
                compute_capability=capability,
                backend=backend,
                kv_cache_dtype=dtype,
                tensor_parallel=tensor_parallel,
                kv_cache_layout=layout,
                max_model_len=4096,
            )
        except WorkbenchError:
            continue  # not served with this backend
        if plan.cache is None or plan.backend != backend or plan.cache.grouping.layout != layout:
            continue
        grouping = plan.cache.grouping
        for placed in grouping.placements(3):
            spec, where = placed.spec, placed.where
            if not spec.is_mamba:
                shape = page_shape(layout_of(plan, spec), attention_pages(plan, spec))
                assert spec.view_shape == shape
            for layer, block in product(range(len(placed.layers)), range(3)):
                pieces = where.ranges(layer, block)
                assert sum(map(len, pieces)) == spec.page_size_bytes
                assert max(piece.stop for piece in pieces) <= 3 * grouping.bytes_per_block
        for number in range(len(grouping.groups)):
            assert_disjoint(
                piece
                for placed in grouping.placements(3)
                if placed.group == number
                for layer, block in product(range(len(placed.layers)), range(3))
                for piece in placed.where.ranges(layer, block)
            )


def assert_disjoint(pieces):
    ordered = sorted(pieces, key=lambda piece: piece.start)
    assert ordered[0].start >= 0
    assert all(low.stop <= high.start for low, high in pairwise(ordered))


@pytest.mark.parametrize(
    ("values", "slots"),
    [
        ({"platform": "rocm", "backend": "ROCM_ATTN"}, 2),
        ({"compute_capability": "12.0", "backend": "B12X"}, 2),
        (
            {"compute_capability": "10.0", "backend": "FLASHINFER", "kv_cache_dtype": "nvfp4"},
            16,
        ),
        ({"backend": "FLASH_ATTN"}, 8),
    ],
)
def test_a_page_is_cut_into_the_slots_of_its_backend(values, slots):
    """LHBNC of Llama 3.1 8B: 8 KV heads; `num_head_slots` of vLLM 0.33's customize_spec."""
    plan = wb.resolve(
        model="llama-3.1-8b",
        rules="0.33",
        kv_cache_memory_bytes=2**33,
        max_model_len=4096,
        **values,
    )
    (group,) = plan.cache.groups
    assert group.spec.num_heads == slots
    (placed,) = replace(plan.cache.grouping, layout="LHBNC").placements(5)
    piece = group.spec.page_size_bytes // slots
    assert (placed.where.pieces, placed.where.piece_stride) == (slots, 5 * piece)
    assert placed.where.block_stride == piece
    if "LHBNC" in possible_layouts(plan):
        again = wb.resolve(plan.scenario.replace(kv_cache_layout="LHBNC"))
        assert again.to_dict()["placements"][0]["block_stride"] == piece


@given(
    scenario=scenarios(),
    blocks=st.integers(1, 3),
    layout=st.sampled_from([None, *NAMES]),
    seed=st.integers(0, 2**16),
)
def test_bytes_of_blocks_never_overlap_and_are_where_the_view_says(scenario, blocks, layout, seed):
    """The map's address of a value is the view's, and a group's pages are disjoint."""
    try:
        plan = wb.resolve(scenario.replace(rules="0.33", mamba_cache_mode=None))
        pool = byte_map(plan, num_blocks=blocks, layout=layout)
    except WorkbenchError:
        return
    allocation = next(iter(pool.places.values())).where.allocation_bytes
    pick = random.Random(seed)
    for number in {found.group for found in pool.places.values()}:
        layers = [name for name, found in pool.places.items() if found.group == number]
        starts = {}
        for layer in layers:
            for block in range(blocks):
                first = pool.address(layer, block * pool.layers[layer][0].page_bytes)
                assert 0 <= first < allocation
                assert starts.setdefault(first, (layer, block)) == (layer, block)
        layer = pick.choice(layers)
        shown = plan_layout(plan, num_blocks=blocks, layout=layout, layer=layer)
        view = shown.attention or next(state for state in shown.states if state.elements)
        index = tuple(pick.randrange(size) for size in view.shape)
        inside = _inside(pool, layer, view, index)
        assert pool.address(layer, inside) == view.byte_of(index)


def _inside(pool, layer, view, index):
    """The byte of the layer's place that holds this element, by search through the addresses."""
    wanted = view.byte_of(index)
    where, page = pool.places[layer], pool.layers[layer][0].page_bytes
    piece = page // where.where.pieces
    for block in range(pool.num_blocks):
        for number in range(where.where.pieces):
            first = where.address(block, number * piece)
            if first <= wanted < first + piece:
                return block * page + number * piece + wanted - first
    raise AssertionError("the view leaves its own pages")


@pytest.mark.parametrize("layout", NAMES)
@pytest.mark.parametrize("backend", ["FLASH_ATTN", "TRITON_ATTN"])
def test_pages_of_a_group_fill_the_allocation_exactly(backend, layout):
    plan = plan_of(backend)
    found = layer_places(plan, 3, layout=layout)
    covered = set()
    for one in found:
        step = one.where.page_bytes // one.where.pieces
        for block in range(3):
            for piece in range(one.where.pieces):
                first = one.address(block, piece * step)
                assert first % step == 0
                assert first // step not in covered
                covered.add(first // step)
    assert len(covered) * step == found[0].where.allocation_bytes


def test_groups_overlap():
    plan = wb.resolve(model="qwen3.5-4b", rules="0.33")
    found = layer_places(plan, 2)
    assert {one.address(0) for one in found if one.index == 0} == {0}
    assert len({one.group for one in found}) > 1


PACKED = {
    **{backend: {} for backend in BACKENDS_IN_USE},
    "FLASHINFER nvfp4": {"compute_capability": "10.0", "kv_cache_dtype": "nvfp4"},
    "TRITON_ATTN int8": {"kv_cache_dtype": "int8_per_token_head"},
    "TRITON_ATTN int4": {"kv_cache_dtype": "int4_per_token_head"},
    "TRITON_ATTN fp8": {"kv_cache_dtype": "fp8"},
}


@pytest.mark.parametrize("order", ["LBNHC", "LBHNC"])
@pytest.mark.parametrize("case", PACKED)
def test_parts_fill_the_content_of_a_page_and_never_meet(case, order):
    """Keys, values and scales of every backend, byte by byte, in both orders that it reads."""
    plan = plan_of(case.split()[0], **PACKED[case])
    if order not in possible_layouts(plan):
        with pytest.raises(LayoutError, match="does not suit every layer"):
            byte_map(plan, num_blocks=2, layout=order)
        return
    pool = byte_map(plan, num_blocks=2, layout=order)
    group = next(group for group in pool.tensors[0].groups if not group.is_state)
    spec = plan.cache.groups[group.number].spec
    pieces = [piece for part in group.parts for piece in group.ranges(1, part=part.name)]
    pieces.sort(key=lambda piece: piece.start)
    assert all(one.stop <= other.start for one, other in pairwise(pieces))
    assert sum(map(len, pieces)) == spec.content_bytes
    assert pieces[0].start >= group.page_bytes
    assert pieces[-1].stop <= 2 * group.page_bytes


def test_where_keys_and_values_are():
    pool = byte_map(plan_of("FLASH_ATTN"), num_blocks=2)
    where = {"layer": "model.layers.0.attn", "block": 0, "token": 1, "head": 2}
    row = 8 * 2 * 128 * 2  # heads, key and value, head size, bytes
    start = row + 2 * 2 * 128 * 2
    assert pool.bytes_of(**where, part="K") == (range(start, start + 256),)
    assert pool.bytes_of(**where, part="V") == (range(start + 256, start + 512),)
    flat = byte_map(plan_of("B12X"), num_blocks=2)
    value = flat.bytes_of(**where, part="V")
    first = 128 * 8 * 128 * 2 + 8 * 128 * 2 + 2 * 128 * 2  # all keys, one token, two heads
    assert value == (range(first, first + 256),)
    rocm = byte_map(plan_of("ROCM_ATTN"), num_blocks=2)
    layer = next(name for name in rocm.layers if name.endswith("attn"))
    key = rocm.bytes_of(layer=layer, block=0, part="K", token=1, head=0)
    assert key[0] == range(16, 32)  # 16 bytes of a head at a time, token by token


def test_nvfp4_pages_are_cut_as_a_whole():
    """[K, K scales, V, V scales], as `_nvfp4_kv_views` cuts a page."""
    plan = plan_of("FLASHINFER", compute_capability="10.0", kv_cache_dtype="nvfp4")
    pool = byte_map(plan, num_blocks=2)
    group = pool.tensors[0].groups[0]
    spans = [group.ranges(0, part=name) for name in ("K", "K scale", "V", "V scale")]
    assert all(len(span) == 1 for span in spans)
    data, scale = 8 * 16 * 64, 8 * 16 * 8
    assert [len(span[0]) for span in spans] == [data, scale, data, scale]
    assert [span[0].start for span in spans] == [0, data, data + scale, 2 * data + scale]
