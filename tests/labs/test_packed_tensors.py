"""Real torch views over the one allocation of 0.33: every layer's blocks keep what is written."""

from __future__ import annotations

import pytest
import torch

import workbench as wb
from tests.labs.small_views import allocation_views
from workbench.core.byte_map.of_plan import byte_map
from workbench.core.layouts.of_plan import plan_layout
from workbench.core.layouts.packed import layer_places
from workbench.core.versions.v0_33.layouts import NAMES
from workbench.labs.cache_views import check_ownership

LLAMA = {"model": "llama-3.1-8b", "max_model_len": 2048}
SMALL_HYBRID = {"model": "qwen3.5-4b", "backend": "TRITON_ATTN", "tensor_parallel": 4}


def number(tensor, value):
    """Write one byte into every byte of a tensor."""
    tensor.view(torch.int8).fill_(value)


@pytest.mark.parametrize("layout", NAMES)
def test_layers_and_blocks_of_a_group_do_not_meet(layout):
    plan = wb.resolve(rules="0.33", **LLAMA)
    tensors = allocation_views(plan, 3, layout=layout)
    raw = next(iter(tensors.values())).raw
    ids = {}
    for layer, views in tensors.items():
        assert views.raw.data_ptr() == raw.data_ptr()
        for block in range(3):
            ids[layer, block] = len(ids) + 1 - 128
            number(views.attention[block], ids[layer, block])
    for (layer, block), value in ids.items():
        kept = tensors[layer].attention[block].view(torch.int8)
        assert bool((kept == value).all())
    assert len(torch.unique(raw)) == len(ids)


@pytest.mark.parametrize("layout", ["LBNHC", "LBHNC", "BLNHC", "BLHNC"])
def test_states_and_keys_of_one_block_share_its_bytes_and_no_others(layout):
    plan = wb.resolve(rules="0.33", max_model_len=2048, **SMALL_HYBRID)
    tensors = allocation_views(plan, 2, layout=layout)
    places = layer_places(plan, 2, layout=layout)
    state = next(place for place in places if place.spec.is_mamba)
    attention = next(
        place for place in places if not place.spec.is_mamba and place.index == state.index
    )
    for view in tensors[state.name].states:
        number(view[1], 7)
    raw = tensors[state.name].raw
    first, page = attention.address(1), attention.spec.page_size_bytes
    assert int(raw.count_nonzero()) == state.spec.content_bytes
    assert int(raw[first : first + page].count_nonzero()) == state.spec.content_bytes
    assert not bool(tensors[attention.name].attention[0].count_nonzero())


@pytest.mark.parametrize("backend", ["FLASHINFER", "TRITON_ATTN"])
def test_the_first_layers_own_their_pages(backend):
    fields = {**SMALL_HYBRID, "backend": backend, "max_model_len": 2048}
    plan = wb.resolve(rules="0.33", **fields)
    views = plan_layout(plan, num_blocks=2)
    owned = check_ownership(views)
    assert owned.attention.ok
    assert owned.states.ok
    assert views.misplaced_attention_bytes == 0


def meanings(plan, cut, layout="LBHNC"):
    """What the bytes mean that `cut` sets in the first layer's tensor."""
    layer, raw = next(
        (name, views)
        for name, views in allocation_views(plan, 2, layout=layout).items()
        if views.attention is not None
    )
    pool = byte_map(plan, num_blocks=2, layout=layout)
    cut(raw.attention)
    group, index = pool.layers[layer]
    addresses = set(raw.raw.nonzero().flatten().tolist())
    found = [
        pool.at(index, byte).of_group(group.number)
        for byte in range(group.page_bytes, 2 * group.page_bytes)
        if pool.address(layer, byte) in addresses
    ]
    assert len(found) == len(addresses) > 0
    return {(m.part, m.block, m.token, m.head) for m in found}


ONE_LAYER = {"max_model_len": 2048, "tensor_parallel": 4, "model": "llama-3.1-8b"}


def test_rocm_reads_pages_of_16_bytes_in_0_33():
    """PagedAttention.split_kv_cache over the transposed view [2, block, token, heads * size]."""

    def cut(view):
        values = view.transpose(0, 1)[1].view(2, 2, 128, -1)
        values[1, 1, :, 5] = 1.0

    plan = wb.resolve(rules="0.33", platform="rocm", backend="ROCM_ATTN", **ONE_LAYER)
    assert meanings(plan, cut) == {("V", 1, 5, 1)}


def test_keys_come_before_values_in_every_token():
    """FlashAttention: `kv_cache.transpose(1, 2).split(head_size, dim=-1)`."""

    def cut(view):
        _keys, values = view.transpose(1, 2).split(128, dim=-1)
        values[1, 5, 1, :] = 1.0

    plan = wb.resolve(rules="0.33", backend="FLASH_ATTN", **ONE_LAYER)
    for layout in NAMES:
        assert meanings(plan, cut, layout) == {("V", 1, 5, 1)}


def test_b12x_keeps_keys_and_values_apart():
    """`kv_cache.unbind(1)`, then heads out of the last dimension."""

    def cut(view):
        _keys, values = view.unbind(1)
        values.unflatten(-1, (2, 128))[1, 5, 1, :] = 1.0

    fields = {"backend": "B12X", "compute_capability": "12.0", **ONE_LAYER}
    assert meanings(wb.resolve(rules="0.33", **fields), cut) == {("V", 1, 5, 1)}


def test_the_cpu_cuts_a_head_into_keys_and_values():
    """`kv_cache.view(blocks, heads, 2 * tokens, -1).chunk(2, dim=2)`."""

    def cut(view):
        blocks, heads, tokens, _both = view.size()
        values = view.view(blocks, heads, tokens * 2, -1).chunk(2, dim=2)[1]
        values[1, 1, 5, :] = 1.0

    plan = wb.resolve(rules="0.33", platform="cpu", **ONE_LAYER)
    assert meanings(plan, cut) == {("V", 1, 5, 1)}
