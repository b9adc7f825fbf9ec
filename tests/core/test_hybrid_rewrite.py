"""The stride rewrite of hybrid models: reported, guessed, and what a guess misses."""

import pytest

from tests.core.layout_cases import (
    cases,
    hybrid_views,
)
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.hybrid_rewrite import (
    GUESSED,
    GUESSED_UNCHECKED,
    NEVER,
    REPORTED,
    REPORTED_THEN_GUESSED,
    interleaved,
    needs_rewrite,
)
from workbench.core.layouts.layer_views import attention_view
from workbench.core.layouts.shapes import CacheGeometry, CacheLayout
from workbench.core.layouts.shared_tensor import AttentionPages, StatePages, cache_views
from workbench.core.layouts.view import View, contiguous_strides
from workbench.core.versions.v0_23 import layouts

AXES = ("kv", "num_blocks", "block_size", "num_kv_heads", "head_size")


def view(*shape):
    return View(AXES, shape, contiguous_strides(shape), 0, "int8")


def test_the_rewrite_changes_two_strides():
    before = view(2, 2, 16, 2, 8)
    assert before.strides == (512, 256, 16, 8, 1)
    assert interleaved(before).strides == (256, 512, 16, 8, 1)
    assert interleaved(before).shape == before.shape


@pytest.mark.parametrize("blocks", [1, 2, 3, 7])
@pytest.mark.parametrize("block_dim", [0, 1])
def test_querying_the_backend_never_guesses(blocks, block_dim):
    shape = (2, blocks, 16, 2, 8) if block_dim else (blocks, 2, 16, 2, 8)
    assert needs_rewrite(view(*shape), block_dim, REPORTED) is bool(block_dim)
    assert not needs_rewrite(view(*shape), block_dim, NEVER)


@pytest.mark.parametrize("block_dim", [0, 1])
def test_two_blocks_are_ambiguous_to_a_guess(block_dim):
    with pytest.raises(LayoutError) as found:
        needs_rewrite(view(2, 2, 16, 2, 8), block_dim, GUESSED)
    assert found.value.vllm_exception == "AssertionError"
    assert found.value.vllm_text == (
        "Fail to determine whether the layout is (2, num_blocks, ...) or (num_blocks, 2, ...) for "
        "a tensor of shape torch.Size([2, 2, 16, 2, 8])"
    )
    assert needs_rewrite(view(2, 2, 16, 2, 8), block_dim, GUESSED_UNCHECKED)


@pytest.mark.parametrize("blocks", [1, 3, 7])
def test_a_guess_is_right_for_other_numbers(blocks):
    assert needs_rewrite(view(2, blocks, 16, 2, 8), 1, GUESSED)
    assert not needs_rewrite(view(blocks, 2, 16, 2, 8), 0, GUESSED)


def test_the_v2_runner_still_asserts_where_the_backend_has_answered():
    assert not needs_rewrite(view(2, 2, 16, 2, 8), 0, REPORTED_THEN_GUESSED)
    with pytest.raises(LayoutError, match="queries the backend") as found:
        needs_rewrite(view(2, 2, 16, 2, 8), 1, REPORTED_THEN_GUESSED)
    assert found.value.operands["shape"] == (2, 2, 16, 2, 8)
    with pytest.raises(LayoutError, match="handles only 0 and 1"):
        needs_rewrite(view(3, 4, 2, 2, 8), 2, REPORTED)


def test_one_manager_block_of_two_kernel_blocks_is_ambiguous_too():
    pages = AttentionPages(CacheGeometry(32, 1, 8), "float16", 1024)
    states = StatePages(((4,),), ("float16",), 1024)
    for rule in (GUESSED, REPORTED_THEN_GUESSED):
        with pytest.raises(LayoutError, match="kernel blocks are 2"):
            cache_views(
                layouts.ROCM_ATTN, pages, states, num_blocks=1, kernel_block_size=16, rule=rule
            )


def test_a_padded_page_of_a_kv_first_cache_is_dropped_in_silence():
    case = next(
        case
        for case in cases()
        if case["kind"] == "hybrid"
        and case["backend"] == "ROCM_ATTN"
        and case["attn_spec"]["page_size_padded"]
        and case["num_blocks"] == 2
    )
    views = hybrid_views(case, "v1")
    assert views.rewritten
    assert views.misplaced_attention_bytes > 0


def test_compressed_pages_differ_between_the_runners():
    pages = AttentionPages(CacheGeometry(256, 1, 64), "uint8", 64 * 64, compress_ratio=4)
    for runner in ("v1", "v2"):
        found = attention_view(
            layouts.LATENT, pages, raw_bytes=3 * 4096, kernel_block_size=256,
            layout_name="NHD", runner=runner,
        )  # fmt: skip
        assert found.shape == (3, 64, 64)
    split = {"raw_bytes": 3 * 4096, "kernel_block_size": 64, "layout_name": "NHD"}
    assert attention_view(layouts.LATENT, pages, **split, runner="v2").shape == (3, 64, 64)
    with pytest.raises(LayoutError) as found:
        attention_view(layouts.LATENT, pages, **split, runner="v1")
    assert found.value.vllm_text == "shape '[12, 64, 64]' is invalid for input of size 12288"


def test_an_order_that_is_not_its_own_inverse():
    toy = CacheLayout(layouts.BLOCK_FIRST, orders=dict.fromkeys(("NHD", "HND"), (0, 3, 1, 2, 4)))
    pages = AttentionPages(CacheGeometry(16, 3, 8), "int8", 768)
    found = attention_view(toy, pages, raw_bytes=2 * 768, kernel_block_size=16, layout_name="NHD")
    # In memory: block, head, K or V, token, element.
    assert found.shape == (2, 2, 16, 3, 8)
    assert found.strides == (768, 128, 8, 256, 1)


def test_the_larger_page_decides_the_tensor():
    pages = AttentionPages(CacheGeometry(16, 2, 8), "float16", 1024)
    states = StatePages(((4,),), ("float16",), 2048)
    views = cache_views(layouts.FLASH_ATTN, pages, states, num_blocks=3)
    assert views.raw_bytes == 3 * 2048
    assert (views.attention.shape[0], views.kernel_blocks_per_block) == (6, 1)
    assert views.misplaced_attention_bytes == 0


def test_neighbouring_ranges_are_joined():
    dense = view(2, 3, 16, 2, 8)
    assert dense.byte_ranges({"num_blocks": 1}) == (range(256, 512), range(1024, 1280))
    assert interleaved(dense).byte_ranges({"num_blocks": 1}) == (range(512, 1024),)
    assert dense.byte_ranges({}) == (range(1536),)
    assert len(dense.byte_ranges({"num_kv_heads": 1})) == 2 * 3 * 16
