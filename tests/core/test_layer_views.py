"""The views that a model runner gives every layer of real models, and those of a plan.

`tests/data/layer_views.jsonl.gz` holds what `tools/record_views.py` recorded.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.core.test_drafter_groups import label, planned
from tests.recorded import recorded
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.runners import runner_verdicts

RECORDED = recorded("layer_views")
BUILT = [answer for answer in RECORDED if "refused" not in answer]
REFUSED = [answer for answer in RECORDED if "refused" in answer]
ITEM_BYTES = {"uint8": 1, "float8_e4m3fn": 1, "bfloat16": 2, "float16": 2, "float32": 4}


def in_tensor(shape, raw_bytes, dtype, strides, offset):
    """Return whether the last element of a view is inside of its tensor."""
    last = offset + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    return (last + 1) * ITEM_BYTES[dtype] <= raw_bytes


def of_plan(plan):
    """Every layer's (shape, strides, offset, bytes of an element) in a plan, counted."""
    cache = plan.built_cache()
    found = Counter()
    for name in cache.grouping.layers:
        view = plan.layout(num_blocks=cache.num_blocks, layer=name).attention
        found[view.shape, view.strides, view.offset_elements, ITEM_BYTES[view.dtype]] += 1
    return found


@pytest.mark.parametrize("answer", BUILT, ids=label)
def test_views_and_kernel_blocks_are_vllms(answer):
    plan = planned(answer)
    cache = plan.built_cache()
    views = answer["views"].values()
    raw_bytes = {name: spec.page_size_bytes * cache.num_blocks
                 for name, (_group, spec) in cache.grouping.layers.items()}  # fmt: skip
    # On the meta device nothing checks that a view is inside of its tensor.
    if answer["rules"] == "0.23" and not all(
        in_tensor(shape, max(raw_bytes.values()), dtype, strides, offset)
        for shape, strides, offset, dtype in views
    ):
        assert runner_verdicts(plan)["v1"]
        with pytest.raises(LayoutError):
            of_plan(plan)
        return
    assert cache.num_blocks == answer["num_blocks"]
    assert sorted(cache.kernel_block_sizes) == sorted(answer["kernel_blocks"])
    assert of_plan(plan) == Counter(
        (tuple(shape), tuple(strides), offset, ITEM_BYTES[dtype])
        for shape, strides, offset, dtype in views
    )


@pytest.mark.parametrize("answer", REFUSED, ids=label)
def test_what_the_runner_refuses_is_refused(answer):
    plan = planned(answer)
    assert plan.errors
    assert (plan.errors[0].vllm_text or "") in answer["refused"]["message"]


@pytest.mark.parametrize("answer", BUILT[:2] + BUILT[8:10], ids=label)
def test_every_byte_of_a_page_is_found_again(answer):
    bytes_of = planned(answer).byte_map(num_blocks=2)
    seen = set()
    for one in (group for tensor in bytes_of.tensors for group in tensor.groups):
        layer = (one.page_bytes, tuple(part.name for part in one.parts))
        if layer in seen:
            continue
        seen.add(layer)
        used = sum(map(len, one.ranges(1)))
        assert used + sum(map(len, one.padding(1))) == one.page_bytes
        for byte in range(one.page_bytes, 2 * one.page_bytes, 211):
            found = one.meaning(byte)
            assert found.page == 1
            if found.token is None:
                assert found.is_padding
                continue
            # A vector belongs to all of its tokens.
            for token in (found.token, found.token + one.tokens_per_state - 1):
                where = one.ranges(1, part=found.part, token=token)
                assert any(byte in run for run in where)
