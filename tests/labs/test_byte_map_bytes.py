"""The byte map against real tensors: who wrote a byte, and how the backends' kernels cut a block.

The cuts are those of vLLM 0.23's own view calls, made here with torch.
"""

from dataclasses import replace

import pytest
import torch

from tests.core.byte_map_cases import ATTENTION_BACKENDS, packed_group, small_group, state_group
from tests.labs.small_views import SMALL, hybrid, torch_view
from workbench.core.layouts.hybrid_rewrite import GUESSED_UNCHECKED, NEVER
from workbench.core.versions.v0_23 import layouts
from workbench.labs.cache_views import UNWRITTEN, byte_owners

BLOCKS = (1, 2, 3, 7)
RATIOS = (1, 2, 33)


def assert_same_owners(group, step):
    """Every `step`-th byte has the owner that wrote it through the parts' views."""
    views = [part.view for part in group.parts]
    owners = byte_owners(views, group.raw_bytes, group.kernel_blocks)
    for byte in range(0, group.raw_bytes, step):
        meaning = group.meaning(byte)
        expected = UNWRITTEN if meaning.is_padding and meaning.value is None else meaning.block
        assert owners[byte] == expected, byte


@pytest.mark.sampled(100)
@pytest.mark.parametrize("backend", ATTENTION_BACKENDS)
@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("ratio", RATIOS)
def test_every_byte_was_written_by_its_block(backend, blocks, ratio):
    assert_same_owners(small_group(backend, blocks, ratio), 1 if ratio < 33 else 61)


@pytest.mark.parametrize("rule", [NEVER, GUESSED_UNCHECKED])
@pytest.mark.parametrize("blocks", [2, 3])
def test_wrong_rules_too(rule, blocks):
    assert_same_owners(small_group("ROCM_ATTN", blocks, rule=rule), 1)
    assert_same_owners(small_group("FLASH_ATTN", blocks, rule=rule), 1)


@pytest.mark.parametrize("case", ["nvfp4", "fp8 scales", "k8v4", "fp8_ds_mla"])
def test_packed_formats_fill_their_pages(case):
    assert_same_owners(packed_group(case), 1)


def test_states_and_padding():
    assert_same_owners(state_group(hybrid(layouts.FLASH_ATTN, 3, kernel=SMALL)), 1)


def numbered(view, raw_bytes):
    """The attention tensor over raw bytes that hold nothing yet."""
    raw = torch.zeros(raw_bytes, dtype=torch.int8)
    return raw, torch_view(raw, replace(view, dtype="int8") if view.itemsize == 1 else view)


def assert_meaning(group, raw, **expected):
    """The bytes that are set mean what is expected, all of them."""
    found = raw.nonzero().flatten().tolist()
    assert found
    for byte in found:
        meaning = group.meaning(byte)
        assert {name: getattr(meaning, name) for name in expected} == expected, byte


PLACE = {"part": "V", "block": 1, "token": 5, "head": 1}


def test_paged_order_of_rocm_attention():
    """PagedAttention.split_kv_cache: K [block, head, size / x, token, x], V [.., size, token]."""
    group = small_group("ROCM_ATTN", 3)
    views = hybrid(layouts.ROCM_ATTN, 3, kernel=replace(SMALL, head_size=8))
    raw, cache = numbered(views.attention, views.raw_bytes)
    key, value = cache[0].view(3, 2, 1, -1, 8), cache[1].view(3, 2, 8, -1)
    value[1, 1, 3, 5] = -1
    assert_meaning(group, raw, **PLACE, value=3)
    raw.zero_()
    key[2, 0, 0, 7, 6] = -1
    assert_meaning(group, raw, part="K", block=2, token=7, head=0, value=6)


def test_cpu_attention_cuts_heads_in_two():
    """CPUAttentionBackendImpl.forward: [block, head, 2 * tokens, size], chunked in dimension 2."""
    group = small_group("CPU_ATTN", 3)
    views = hybrid(layouts.CPU_ATTN, 3, kernel=SMALL)
    raw, cache = numbered(views.attention, views.raw_bytes)
    blocks, heads, tokens, _both = cache.size()
    _key, value = cache.view(blocks, heads, tokens * 2, -1).chunk(2, dim=2)
    value[1, 1, 5, 1] = -1
    assert_meaning(group, raw, **PLACE, value=1)


@pytest.mark.parametrize("name", ["NHD", "HND"])
def test_nvfp4_keeps_scales_after_the_values_of_a_half_page(name):
    """nvfp4_kv_cache_split_views: data first, scales after it, strides in proportion."""
    group = packed_group("nvfp4", name=name)
    raw = torch.zeros(group.raw_bytes, dtype=torch.int8)
    half, tokens, heads, data, scales = group.page_bytes // 2, 4, 2, 16, 2
    base = group.page_bytes + half
    dense = {"NHD": (heads, 1), "HND": (1, tokens)}[name]
    at = (3 * dense[0] + 1 * dense[1]) * data + 7
    raw[base + at] = -1
    assert_meaning(group, raw, part="V", block=1, token=3, head=1, value=14, last_value=15)
    raw.zero_()
    raw[base + tokens * heads * data + (3 * dense[0] + 1 * dense[1]) * scales + 1] = -1
    assert_meaning(group, raw, part="V scale", block=1, token=3, head=1, value=1)


def test_scales_of_a_token_and_head_are_after_its_values():
    """TritonAttentionImpl._ensure_scale_caches: one float32 in the last four bytes."""
    group = packed_group("fp8 scales")
    raw = torch.zeros(group.raw_bytes, dtype=torch.int8)
    cache = raw.view(3, 2, 16, 2, 8)
    scales = cache[..., -4:].view(torch.float32)
    scales[1, 1, 5, 1, 0] = float.fromhex("-0x1.fffffep-1")
    assert_meaning(group, raw, part="V scale", block=1, token=5, head=1, value=0)
