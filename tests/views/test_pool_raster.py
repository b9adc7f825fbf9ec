"""The pool raster: every block has the owner that the requests give it, however many there are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.views.plans import plan_of
from workbench.core.capacity.occupancy import request_blocks
from workbench.core.layouts.error import LayoutError
from workbench.views.capacity.pool_fill import FREE, NULL, OWNERS, fill_pool
from workbench.views.capacity.pool_raster import COLUMNS, ROWS, VIEWS, pool_raster

PLAN = {"model": "qwen3.5-4b"}
MAX_BYTES = 150_000


def one_by_one(plan, num_blocks, prompts, requests, finished_every):
    """Return owner and request of every block, taken one after the other."""
    owners, numbers = [NULL], [-1]
    request = 0
    while requests is None or request < requests:
        done = bool(finished_every) and request % finished_every == finished_every - 1
        taken = []
        for group in plan.cache.groups:
            kind = "state" if group.spec.is_mamba else "attention"
            count = request_blocks(plan, group, prompts[request % len(prompts)])
            taken += [FREE if done else kind] * count
        if len(owners) + len(taken) > num_blocks:
            break
        owners += taken
        numbers += [request] * len(taken)
        request += 1
    left = num_blocks - len(owners)
    return owners + [FREE] * left, numbers + [-1] * left, request


@given(
    num_blocks=st.integers(1, 400),
    prompts=st.lists(st.integers(1, 20_000), min_size=1, max_size=4),
    requests=st.none() | st.integers(0, 30),
    finished_every=st.integers(0, 5),
)
def test_every_block_has_the_owner_that_took_it(num_blocks, prompts, requests, finished_every):
    plan = plan_of(**PLAN)
    filled = fill_pool(plan, num_blocks, prompts, requests=requests, finished_every=finished_every)
    owners, numbers, count = one_by_one(plan, num_blocks, prompts, requests, finished_every)
    edges = np.arange(num_blocks + 1)
    counts = np.diff(filled.owned_before(edges), axis=0)
    assert counts.sum(axis=1).tolist() == [1] * num_blocks
    assert [OWNERS[owner] for owner in counts.argmax(axis=1)] == owners
    assert filled.run_of(edges[:-1])[0].tolist() == numbers
    assert filled.request_count == count


@pytest.mark.parametrize("num_blocks", [1, 2, 50, 1537, 10**4, 10**6])
@pytest.mark.parametrize("by", VIEWS)
def test_the_raster_is_bounded_and_counts_every_block(num_blocks, by):
    figure = pool_raster(plan_of(**PLAN), num_blocks, finished_every=3, by=by)
    heat = figure.data[0]
    cells = np.asarray(heat.z, dtype=float)
    assert cells.size <= COLUMNS * ROWS
    assert np.asarray(heat.customdata)[..., 3:].sum() == num_blocks
    assert len(figure.to_json()) < MAX_BYTES
    assert len(figure.data) == 1 + len(OWNERS)
    letters = np.asarray(heat.text)
    assert letters.shape == cells.shape


def test_a_cell_of_one_block_says_who_has_it():
    plan = plan_of(**PLAN)
    figure = pool_raster(plan, 500, prompts=(4096,), finished_every=2)
    owners, numbers, _count = one_by_one(plan, 500, (4096,), None, 2)
    letters = [letter for row in figure.data[0].text for letter in row][:500]
    assert letters == [
        {"attention": "a", "state": "s", FREE: "", NULL: "0"}[owner] for owner in owners
    ]
    by_request = pool_raster(plan, 500, prompts=(4096,), finished_every=2, by="request")
    drawn = [letter for row in by_request.data[0].text for letter in row][:500]
    for letter, owner, number in zip(drawn, owners, numbers, strict=True):
        assert letter == (str(number) if owner in {"attention", "state"} else
                          {FREE: "", NULL: "0"}[owner])  # fmt: skip


def test_shares_are_right_over_many_cells():
    figure = pool_raster(plan_of(**PLAN), 10**6, finished_every=3)
    letters = [letter for row in figure.data[0].text for letter in row]
    blocks = np.asarray(figure.data[0].customdata)[..., 3:].sum(axis=(0, 1)) / 10**6
    for number, letter in enumerate(("a", "s")):
        assert letters.count(letter) / len(letters) == pytest.approx(blocks[number], abs=0.01)


def test_a_window_shows_single_blocks_of_a_large_pool():
    figure = pool_raster(plan_of(**PLAN), 10**6, window=(500_000, 501_000))
    assert "a cell is one block" in figure.layout.title.text
    first = np.asarray(figure.data[0].customdata)[0, 0]
    assert first[0] == first[1] == 500_000


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"num_blocks": 0}, "num_blocks"),
        ({"num_blocks": 10, "prompts": ()}, "prompts"),
        ({"num_blocks": 10, "prompts": (0,)}, "prompts"),
        ({"num_blocks": 10, "prompts": (10**9,)}, "prompts"),
        ({"num_blocks": 10, "requests": -1}, "requests"),
        ({"num_blocks": 10, "finished_every": -1}, "finished_every"),
        ({"num_blocks": 10, "by": "colour"}, "by"),
    ],
)
def test_bad_numbers_are_refused(fields, field):
    with pytest.raises(LayoutError) as found:
        pool_raster(plan_of(**PLAN), **fields)
    assert found.value.field == field


def test_a_model_without_attention_and_one_without_states():
    for model in ("falcon-mamba-7b", "llama-3.1-8b"):
        assert len(pool_raster(plan_of(model=model), 1000).data) == 5
