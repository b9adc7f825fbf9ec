"""Layouts that cannot be: the input is named, and so is what vLLM raises."""

import json

import pytest

import workbench as wb
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.layer_views import attention_view, state_views
from workbench.core.layouts.of_plan import plan_layout
from workbench.core.layouts.packed_views import packed_view
from workbench.core.layouts.placed import PagePlacement
from workbench.core.layouts.shapes import CacheGeometry
from workbench.core.layouts.shared_tensor import (
    AttentionPages,
    StatePages,
    cache_views,
    layout_name,
)
from workbench.core.layouts.view import View
from workbench.core.versions.v0_23 import layouts
from workbench.core.versions.v0_23.backends import BACKENDS
from workbench.core.versions.v0_33.layouts import USUAL

PAGES = AttentionPages(CacheGeometry(16, 2, 8), "float16", 1024)
STATES = StatePages(((3,), (2,)), ("float16", "float32"), 1024)
ROOM = {"raw_bytes": 2048, "kernel_block_size": 16, "layout_name": "NHD"}
ODD = PagePlacement("LBNHC", 2, 1, 1, 2048, 1024, 1024, 4096, pieces=1, piece_stride=0)
SMALL = View(("num_blocks", "x"), (2, 4), (4, 1), 0, "int8")
WRONG = {
    "layout": (
        lambda: attention_view(layouts.FLASH_ATTN, PAGES, **{**ROOM, "layout_name": "NDH"}),
        "unknown_layout",
        None,
    ),
    "order": (
        lambda: layouts.FLASH_ATTN.stride_order("hnd"),
        "unknown_layout",
        None,
    ),
    "environment": (
        lambda: layout_name([BACKENDS["FLASHINFER"]], "xpu", environment="x"),
        "unknown_layout",
        None,
    ),
    "runner": (
        lambda: cache_views(None, None, STATES, num_blocks=1, runner="v3"),
        "unknown_runner",
        None,
    ),
    "no blocks": (
        lambda: cache_views(None, None, STATES, num_blocks=0),
        "not_positive",
        None,
    ),
    "blocks as text": (
        lambda: cache_views(None, None, STATES, num_blocks="2"),
        "not_positive",
        None,
    ),
    "more blocks than any tensor has": (
        lambda: cache_views(None, None, STATES, num_blocks=10**4299),
        "out_of_range",
        None,
    ),
    "nothing": (
        lambda: cache_views(None, None, None, num_blocks=1),
        "no_cache",
        None,
    ),
    "kernel block": (
        lambda: attention_view(layouts.FLASHINFER, PAGES, **{**ROOM, "kernel_block_size": 5}),
        "kernel_block_does_not_divide",
        None,
    ),
    "block size": (
        lambda: layouts.FLASH_ATTN.shape(1, CacheGeometry(24, 1, 8)),
        "block_size_not_a_multiple",
        "ValueError",
    ),
    "heads": (
        lambda: layouts.FLASH_ATTN.shape(1, CacheGeometry(16, 0, 8)),
        "not_positive",
        None,
    ),
    "half a page": (
        lambda: attention_view(layouts.FLASH_ATTN, PAGES, **{**ROOM, "raw_bytes": 1000}),
        "tensor_not_whole_pages",
        "AssertionError",
    ),
    "odd bytes": (
        lambda: state_views(StatePages(((2,),), ("float16",), 5), raw_bytes=5),
        "tensor_not_whole_elements",
        "RuntimeError",
    ),
    "odd offset": (
        lambda: state_views(STATES, raw_bytes=2048),
        "state_not_aligned",
        "AssertionError",
    ),
    "odd place": (
        lambda: packed_view(USUAL, PAGES, ODD, kernel_block_size=16),
        "tensor_not_whole_elements",
        "RuntimeError",
    ),
    "dimension": (lambda: SMALL.byte_ranges({"blocks": 0}), "unknown_dimension", None),
    "block": (lambda: SMALL.byte_ranges({"num_blocks": 2}), "index_outside", None),
    "negative index": (lambda: SMALL.byte_of((0, -1)), "index_outside", None),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_named(name):
    ask, code, exception = WRONG[name]
    with pytest.raises(LayoutError) as found:
        ask()
    assert (found.value.code, found.value.vllm_exception) == (code, exception)
    assert len(json.dumps(found.value.to_dict())) < 1000
    assert found.value.to_dict()["message"].endswith((".", "1"))


def test_an_unknown_layout_names_those_that_exist():
    undeclared = next(one.cache for one in BACKENDS.values() if one.cache and not one.cache.orders)
    for cache in (layouts.FLASH_ATTN, undeclared):
        with pytest.raises(LayoutError) as found:
            cache.memory_order("hnd")
        assert found.value.operands == {"allowed": ("NHD", "HND")}


def test_the_nearest_valid_block_size_is_named():
    with pytest.raises(LayoutError, match=r"got 24\. Nearest valid: 32"):
        layouts.FLASH_ATTN.shape(1, CacheGeometry(24, 1, 8))


@pytest.mark.parametrize(
    ("model", "backend"), [("kimi-linear-48b-a3b", "ROCM_ATTN"), ("llama-3.1-8b", "TRITON_MLA")]
)
def test_a_backend_of_another_kind_of_attention_has_no_view(model, backend):
    plan = wb.resolve(model=model, platform="rocm", backend=backend)
    with pytest.raises(LayoutError, match="vLLM stops before it builds a view") as found:
        plan_layout(plan, num_blocks=2)
    assert found.value.code == "backend_not_valid"


def test_a_plan_that_stops_earlier_says_why():
    plan = wb.resolve(
        model="nemotron-3-nano-30b-a3b", platform="xpu", tensor_parallel=4, rules="before-37467"
    )
    with pytest.raises(LayoutError, match="vLLM stops before it builds a view") as found:
        plan_layout(plan, num_blocks=2)
    assert found.value.code == "pages_not_equal"


def test_a_model_without_attention_has_states_to_lay_out():
    plan = wb.resolve(model="mamba-2.8b", rules="0.33")
    found = plan_layout(plan, num_blocks=2)
    assert (found.attention, found.raw_bytes) == (None, 2 * plan.cache.grouping.bytes_per_block)


ACROSS_LAYERS = sorted(
    name for name, one in BACKENDS.items() if one.cache is not None and one.cache.orders_with_layers
)


@pytest.mark.parametrize("name", ["NHD", "HND"])
@pytest.mark.parametrize("backend", ACROSS_LAYERS)
def test_an_order_with_layers_is_an_order_of_all_dimensions(backend, name):
    layout = BACKENDS[backend].cache
    order = layout.stride_order(name, with_layers=True)
    assert sorted(order) == list(range(len(layout.axes) + 1))
