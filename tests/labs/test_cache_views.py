"""Views over one raw tensor: real torch views, and raw bytes that show which block owns what."""

from dataclasses import replace

import pytest
import torch

from tests.core.layout_cases import cases, hybrid_views, published, published_views
from tests.groups import in_groups
from tests.labs.small_views import ATTENTION_BACKENDS, hybrid, torch_view, torch_views
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.hybrid_rewrite import GUESSED, GUESSED_UNCHECKED, NEVER
from workbench.core.layouts.layer_views import attention_view
from workbench.core.layouts.shapes import CacheGeometry
from workbench.core.layouts.shared_tensor import AttentionPages
from workbench.core.layouts.view import View, contiguous_strides
from workbench.core.versions.v0_23 import layouts
from workbench.core.versions.v0_23.backends import BACKENDS
from workbench.labs.cache_views import (
    UNWRITTEN,
    byte_owners,
    check_ownership,
    ownership,
)

BLOCKS = (1, 2, 3, 7)
RATIOS = (1, 2, 33)


@in_groups
@pytest.mark.parametrize("backend", ATTENTION_BACKENDS)
@pytest.mark.parametrize("name", ["NHD", "HND"])
@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("ratio", RATIOS)
def test_every_block_owns_its_page(backend, name, blocks, ratio):
    found = check_ownership(hybrid(BACKENDS[backend].cache, blocks, ratio, name=name))
    assert found.attention.ok
    assert found.states.ok
    for page in found.attention.pages:
        assert (page.misplaced_bytes, page.unwritten_bytes) == (0, 0)
    assert str(found.attention).startswith("0 of ")


@pytest.mark.parametrize("layout", [layouts.FLASH_ATTN_DIFFERENT_VALUES, layouts.HIDDEN_STATES])
def test_layouts_of_special_layers_own_their_pages(layout):
    for blocks in BLOCKS:
        assert check_ownership(hybrid(layout, blocks)).attention.ok


PAGE = CacheGeometry(16, 2, 16)
"""One page has 1,024 elements of K and V."""


@pytest.mark.parametrize("ratio", [1, 2])
@pytest.mark.parametrize(
    ("blocks", "misplaced", "written"), [(1, 0, 1024), (2, 1024, 2048), (3, 2048, 3072)]
)
def test_keys_first_without_the_rewrite(blocks, misplaced, written, ratio):
    kernel = replace(PAGE, head_size=PAGE.head_size // ratio)
    views = hybrid(layouts.ROCM_ATTN, blocks, ratio, kernel, rule=NEVER)
    found = check_ownership(views).attention
    assert (found.misplaced_elements, found.written_elements) == (misplaced, written)
    assert str(found) == f"{misplaced:,} of {written:,} elements misplaced"
    assert found.misplaced_bytes == views.misplaced_attention_bytes == 2 * misplaced
    assert found.ok is (blocks == 1)


@pytest.mark.parametrize("blocks", BLOCKS)
def test_the_rewrite_puts_every_byte_where_it_belongs(blocks):
    views = hybrid(layouts.ROCM_ATTN, blocks, kernel=PAGE)
    assert views.rewritten
    assert check_ownership(views).attention.misplaced_bytes == 0


def test_a_wrong_rewrite_is_seen_in_the_bytes():
    """The silent corruption: two blocks, blocks first, and a guess that takes them for K and V."""
    right = hybrid(layouts.FLASH_ATTN, 2, kernel=PAGE)
    guessed = hybrid(layouts.FLASH_ATTN, 2, kernel=PAGE, rule=GUESSED_UNCHECKED)
    assert right.attention.shape == guessed.attention.shape
    assert (right.rewritten, guessed.rewritten) == (False, True)
    found = check_ownership(guessed).attention
    assert (found.misplaced_elements, found.written_elements) == (1024, 2048)
    assert [page.misplaced_bytes for page in found.pages] == [1024, 1024]
    assert check_ownership(right).attention.ok


def test_two_blocks_look_identical_whatever_their_order():
    first = hybrid(layouts.FLASH_ATTN, 2, kernel=PAGE, rule=NEVER).attention
    second = hybrid(layouts.ROCM_ATTN, 2, kernel=PAGE, rule=NEVER).attention
    raw = torch.zeros(4096, dtype=torch.int8)
    one, other = torch_view(raw, first), torch_view(raw, second)
    assert (one.shape, one.stride()) == (other.shape, other.stride())
    for layout in (layouts.FLASH_ATTN, layouts.ROCM_ATTN):
        with pytest.raises(LayoutError, match="does not show which dimension comes first"):
            hybrid(layout, 2, kernel=PAGE, rule=GUESSED)
        assert check_ownership(hybrid(layout, 2, kernel=PAGE)).attention.ok
    for blocks in (1, 3):
        guessed = hybrid(layouts.ROCM_ATTN, blocks, kernel=PAGE, rule=GUESSED)
        assert check_ownership(guessed).attention.ok


@pytest.mark.parametrize("backend", ["FLASH_ATTN", "FLEX_ATTENTION", "TRITON_MLA", "CPU_ATTN"])
@pytest.mark.parametrize("blocks", BLOCKS)
def test_padded_pages_keep_their_padding(backend, blocks):
    views = hybrid(BACKENDS[backend].cache, blocks, padding=64)
    found = check_ownership(views).attention
    assert found.ok
    assert [page.unwritten_bytes for page in found.pages] == [64] * blocks


def test_a_padded_page_of_a_keys_first_cache_meets_its_neighbour():
    found = check_ownership(hybrid(layouts.ROCM_ATTN, 3, padding=64)).attention
    assert [page.misplaced_bytes for page in found.pages] == [64, 128, 0]


def test_states_follow_each_other_in_a_page():
    tensors = torch_views(hybrid(layouts.FLASH_ATTN, 3))
    conv, recurrent = tensors.states
    assert (conv.dtype, recurrent.dtype) == (torch.float16, torch.float32)
    conv[1] = 1
    recurrent[1] = 1
    page = tensors.raw.numel() // 3
    used = tensors.raw.view(torch.uint8).nonzero().flatten()
    assert page <= used.min() < used.max() < page + conv[1].numel() * 2 + recurrent[1].numel() * 4


def test_flex_flattens_blocks_and_tokens_without_a_copy():
    keys_and_values = torch_views(hybrid(layouts.FLEX_ATTENTION, 3)).attention
    keys = keys_and_values[:, 0]
    assert keys.view(3 * 16, 2, 2).data_ptr() == keys.data_ptr()
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        torch_views(hybrid(layouts.FLASH_ATTN, 3)).attention[:, 0].view(3 * 16, 2, 2)


@pytest.mark.parametrize("blocks", [254, 255, 256, 600])
def test_more_blocks_than_a_byte_can_name(blocks):
    shape = (blocks, 4)
    view = View(("num_blocks", "x"), shape, contiguous_strides(shape), 0, "int8")
    owners = byte_owners((view,), blocks * 4)
    assert owners.tolist() == [block for block in range(blocks) for _ in range(4)]


def test_padding_has_no_owner_among_many_blocks():
    view = View(("num_blocks", "x"), (300, 3), (4, 1), 0, "int8")
    owners = byte_owners((view,), 1200).reshape(300, 4)
    assert owners[:, 3].unique().tolist() == [UNWRITTEN]
    assert owners[:, 0].tolist() == list(range(300))


def test_bytes_written_twice_are_reported():
    view = View(("num_blocks", "x"), (3, 4), (2, 1), 0, "int8")
    found = ownership((view,), page_bytes=4, raw_bytes=12)
    assert found.overwritten_bytes == 4
    assert not found.ok
    assert byte_owners((view,), 12).tolist() == [0, 0, 1, 1, 2, 2, 2, 2, *[UNWRITTEN] * 4]


WRONG = {
    "no view": {"views": (), "page_bytes": 4, "raw_bytes": 8},
    "half a page": {"page_bytes": 4, "raw_bytes": 10},
    "no page": {"page_bytes": 0, "raw_bytes": 8},
    "no kernel block": {"page_bytes": 4, "raw_bytes": 8, "blocks_per_page": 0},
}


@pytest.mark.parametrize("name", WRONG)
def test_sizes_that_do_not_fit_are_refused(name):
    view = View(("num_blocks", "x"), (2, 4), (4, 1), 0, "int8")
    with pytest.raises(LayoutError):
        ownership(**{"views": (view,), **WRONG[name]})


def small(case):
    return case["kind"] == "hybrid" and case["attn_spec"]["page_size_bytes"] < 200_000


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_torch_builds_the_views_that_vllm_built(runner):
    """Real tensors have the recorded shapes and strides; where vLLM raised, torch raises too."""
    field = {"v1": "v1_gpu_model_runner", "v2": "v2_attn_utils"}[runner]
    for case in filter(small, cases()):
        if "error" in case[field]:
            continue
        views = hybrid_views(case, runner)
        tensors = torch_views(views)
        kept = [tensors.attention, *tensors.states]
        recorded = [case[field]["attn"], *case[field].get("mamba", ())]
        for tensor, expected in zip(kept, recorded, strict=True):
            assert list(tensor.shape) == expected["shape"]
            assert list(tensor.stride()) == expected["stride"]
            assert tensor.storage_offset() == expected["storage_offset"]
        assert published_views(views)["attn"] == published(views.attention)


def test_torch_says_the_same_of_a_view_that_leaves_its_storage():
    shape, strides = (2, 1, 64, 1, 256), (33280, 16384, 256, 256, 1)
    with pytest.raises(LayoutError) as ours:
        View(layouts.KV_FIRST, shape, strides, 0, "bfloat16").inside(66560)
    raw = torch.zeros(66560, dtype=torch.int8)
    with pytest.raises(RuntimeError) as torchs:
        torch_view(raw, View(layouts.KV_FIRST, shape, strides, 0, "bfloat16"))
    assert str(torchs.value) == ours.value.vllm_text


def test_torch_says_the_same_of_sizes_that_do_not_fit():
    with pytest.raises(RuntimeError) as torchs:
        torch.zeros(12288, dtype=torch.uint8).view([12, 64, 64])
    pages = AttentionPages(CacheGeometry(256, 1, 64), "uint8", 64 * 64, compress_ratio=4)
    with pytest.raises(LayoutError) as ours:
        attention_view(
            layouts.LATENT, pages, raw_bytes=12288, kernel_block_size=64, layout_name="NHD"
        )
    assert str(torchs.value) == ours.value.vllm_text
    with pytest.raises(RuntimeError) as torchs:
        torch.zeros(1, dtype=torch.int8).view(torch.bfloat16)
    with pytest.raises(LayoutError) as ours:
        attention_view(
            layouts.LATENT,
            AttentionPages(CacheGeometry(1, 1, 1), "bfloat16", 1),
            raw_bytes=1,
            kernel_block_size=1,
            layout_name="NHD",
        )
    assert str(torchs.value) == ours.value.vllm_text
