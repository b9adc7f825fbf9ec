"""Masks over a paged cache: known answers, and what holds for every batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from workbench.core.errors import ScenarioError
from workbench.core.flex.batch import (
    DOCUMENT,
    KINDS,
    MAX_WORK,
    mask_rule,
    order_inversion,
    paged_batch,
    stale_batch,
)
from workbench.core.flex.build import (
    EMPTY,
    FULL,
    PARTIAL,
    direct_build,
    generic_build,
    visits,
)
from workbench.core.flex.mask import MaskRule, PagedBatch, sees, visible_slots
from workbench.core.flex.planned import layer_masks
from workbench.core.tables.batch_grammar import parse_batch
from workbench.core.tables.block_pool import NULL_BLOCK

CAUSAL = MaskRule()


def live(row):
    return {block: logical for block, logical in enumerate(row) if logical >= 0}


def test_the_inverse_table():
    first, second, third = stale_batch().inverse
    assert live(first) == {1: 2, 3: 0, 5: 1, 7: 3}
    assert live(second) == {8: 0, 10: 1}
    assert live(third) == {4: 1, 11: 2}


@pytest.mark.parametrize(
    ("q", "pruned", "expected"),
    [
        (16, False, [[3, 5, 1, 7, 8, 10, 11, 4], [4, 11]]),
        (8, False, [[3, 5, 1, 7, 8, 10, 11, 4], [4, 11], [4, 11]]),
        (16, True, [[3, 5, 1, 7, 8, 10, 4, 11], [4, 11]]),
        (8, True, [[3, 5, 1, 7, 8, 10, 4], [4, 11], [4, 11]]),
    ],
)
def test_the_direct_build(q, pruned, expected):
    lists = direct_build(stale_batch(), CAUSAL, q, pruned=pruned)
    assert [list(group) for group in lists.visits] == expected


def test_unique_in_order_keeps_the_first_and_drops_zeros():
    batch = PagedBatch(((3, 1, 0, 1, 2),), (1,), (5,), 1, 4)
    lists = direct_build(batch, MaskRule(causal=False), 1)
    assert lists.visits == ((3, 1, 2),)
    assert lists.dropped == 1


def test_a_stale_column_reorders_the_pages_of_another_request():
    found = order_inversion(stale_batch(), 2, 16)
    assert (found.alone, found.batched, found.pruned) == ((4, 11), (11, 4), (4, 11))
    assert found.inverted
    assert found.step().result == (11, 4)
    assert not order_inversion(stale_batch(), 0, 16).inverted


def test_the_batch_with_a_stale_column_can_come_from_one_pool():
    batch = stale_batch()
    own = [
        row[: -(-tokens // batch.block_size)]
        for row, tokens in zip(batch.rows, batch.seq_lens, strict=True)
    ]
    stale = [row[len(held) :] for row, held in zip(batch.rows, own, strict=True)]
    assert [len(held) for held in own] == [4, 2, 3]
    # an earlier request of the row returned its blocks before this one took others
    for held, columns in zip(own, stale, strict=True):
        assert not {*held} & {*columns}
    named = {block for row in batch.rows for block in row} - {NULL_BLOCK}
    assert named == set(range(1, batch.num_blocks))
    # after the columns that were ever written, rows are as they were made
    written = [4, 2, 0]
    assert [len(columns) for columns in stale] == [4, 6, 5]
    for columns, count in zip(stale, written, strict=True):
        assert NULL_BLOCK not in columns[:count]
        assert {*columns[count:]} <= {NULL_BLOCK}


def test_a_window_hides_earlier_keys():
    batch = PagedBatch((tuple(range(1, 9)),), (1,), (128,), 16, 9)
    assert direct_build(batch, MaskRule(window=32), 16).visits == ((7, 8),)
    assert direct_build(batch, MaskRule(window=33), 16).visits == ((6, 7, 8),)
    assert direct_build(batch, MaskRule(window=500), 16).visits == (tuple(range(1, 9)),)


@pytest.mark.parametrize(
    ("rule", "query", "seen"),
    [
        (MaskRule(), 3, {0, 1, 2, 3}),
        (MaskRule(window=2), 3, {2, 3}),
        (MaskRule(causal=False), 3, set(range(8))),
        (MaskRule(causal=False, window=2), 3, {2, 3, 4}),
        (MaskRule(chunk=4), 6, {4, 5, 6}),
        (MaskRule(causal=False, chunk=4), 6, {4, 5, 6, 7}),
        (MaskRule(prefix=((1, 5),)), 3, {0, 1, 2, 3, 4, 5}),
        (MaskRule(prefix=((1, 5),)), 6, set(range(7))),
        (MaskRule(window=1, prefix=((1, 3),)), 3, {1, 2, 3}),
        (MaskRule(prefix=((6, 20),)), 7, set(range(8))),
    ],
)
def test_what_a_query_sees(rule, query, seen):
    ranges = rule.visible(query, 8)
    assert {key for low, high in ranges for key in range(low, high)} == seen


@st.composite
def batches(draw):
    size = draw(st.sampled_from([1, 3, 4, 8]))
    lengths = draw(st.lists(st.integers(1, 20), min_size=1, max_size=4))
    width = max(-(-length // size) for length in lengths) + draw(st.integers(0, 2))
    blocks = draw(st.permutations(range(1, width * len(lengths) + 1)))
    if draw(st.booleans()):
        blocks = [draw(st.integers(0, len(blocks))) for _ in blocks]
    rows = tuple(tuple(blocks[i * width : (i + 1) * width]) for i in range(len(lengths)))
    queries = tuple(draw(st.integers(0, length)) for length in lengths)
    return PagedBatch(rows, queries, tuple(lengths), size, width * len(lengths) + 1)


rules = st.builds(
    MaskRule,
    causal=st.booleans(),
    window=st.none() | st.integers(1, 12),
    chunk=st.none() | st.integers(1, 12),
    prefix=st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 8)).map(lambda pair: (min(pair), max(pair))),
        max_size=2,
    ).map(tuple),
)


def dense(batch, rule):
    return [
        [sees(batch, rule, token, slot) for slot in range(batch.total_slots)]
        for token in range(batch.num_tokens)
    ]


@given(batches(), rules)
def test_ranges_of_slots_are_the_mask_function(batch, rule):
    for token, row in enumerate(dense(batch, rule)):
        spans = visible_slots(batch, rule, token)
        assert [any(low <= x < high for low, high in spans) for x in range(len(row))] == row


@given(batches(), rules, st.sampled_from([1, 2, 4, 16]), st.sampled_from([1, 2, 4, 16]))
def test_a_block_is_full_empty_or_partial_as_its_pairs_say(batch, rule, q, kv):
    mask = dense(batch, rule)
    lists = generic_build(batch, rule, q, kv)
    found = visits(batch, rule, lists)
    assert found.pairs == sum(map(sum, mask))
    assert found.wasted == 0
    for group, blocks in enumerate(lists.visits):
        rows = mask[group * q : (group + 1) * q]
        for block in range(-(-batch.total_slots // kv)):
            seen = [pair for row in rows for pair in row[block * kv : (block + 1) * kv]]
            assert (block in blocks) == any(seen)
            assert (block in lists.full[group]) == (len(seen) == q * kv and all(seen))
        kinds = found.kinds[group]
        assert kinds == tuple(FULL if b in lists.full[group] else PARTIAL for b in blocks)
        assert list(kinds) == sorted(kinds, key=(PARTIAL, FULL).index)


@given(batches(), st.sampled_from([1, 2, 4, 16]), st.booleans(), st.booleans())
def test_the_direct_build_visits_every_block_that_is_seen(batch, q, causal, pruned):
    for rule in (MaskRule(causal=causal), MaskRule(causal=causal, window=3)):
        lists = direct_build(batch, rule, q, pruned=pruned)
        seen = generic_build(batch, rule, q, batch.block_size)
        for group, needed in zip(lists.visits, seen.visits, strict=True):
            assert len(set(group)) == len(group)
            assert 0 not in group
            assert set(needed) <= set(group)
        found = visits(batch, rule, lists)
        assert found.wasted == found.visited - sum(seen.counts)
        assert [kinds.count(EMPTY) for kinds in found.kinds] == [
            len(set(group) - set(needed))
            for group, needed in zip(lists.visits, seen.visits, strict=True)
        ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_over_528_tokens_per_block(kind):
    batch = paged_batch(parse_batch("2q40_q16s700"), 528)
    assert batch.rows == ((1, 0), (2, 0), (3, 4))
    rule = mask_rule(kind, 32)
    for lists in (direct_build(batch, rule, 16), generic_build(batch, rule, 16, 16)):
        found = visits(batch, rule, lists)
        assert found.pairs > 0
        assert found.visited > found.wasted
    everything = sum(q * s for q, s in zip(batch.query_lens, batch.seq_lens, strict=True))
    assert (found.pairs == everything) == (kind == DOCUMENT)


def test_requests_that_grew_together_alternate_and_stale_tails_are_their_neighbours():
    batch = paged_batch(parse_batch("2q40_q16"), 16, stale=True)
    assert batch.rows == ((1, 4, 6), (2, 5, 7), (3, 2, 5))
    lists = direct_build(batch, CAUSAL, 16)
    fresh = direct_build(paged_batch(parse_batch("2q40_q16"), 16), CAUSAL, 16)
    assert sum(lists.counts) > sum(fresh.counts)
    kept = direct_build(batch, CAUSAL, 16, pruned=True)
    assert sum(kept.counts) < sum(fresh.counts)


def test_a_batch_that_is_too_large_is_refused_with_what_fits():
    with pytest.raises(ScenarioError, match=f"at most {MAX_WORK:,}"):
        paged_batch(parse_batch("q8ks1000000"), 16)
    with pytest.raises(ScenarioError, match="from 1 to"):
        mask_rule("causal", 0)


@pytest.mark.parametrize(
    "values",
    [
        {"rows": ((1,),), "query_lens": (1, 1), "seq_lens": (1,)},
        {"rows": ((1,),), "query_lens": (5,), "seq_lens": (5,)},
        {"rows": ((1,),), "query_lens": (3,), "seq_lens": (2,)},
        {"rows": ((9,),), "query_lens": (1,), "seq_lens": (1,)},
    ],
)
def test_rows_that_cannot_be_are_refused(values):
    with pytest.raises(ValueError, match=r"request|entry per request"):
        PagedBatch(**values, block_size=4, num_blocks=4)


@pytest.mark.parametrize("field", ["window", "chunk"])
@pytest.mark.parametrize("size", [0, -4])
def test_a_mask_of_no_tokens_is_refused(field, size):
    with pytest.raises(ScenarioError, match=f"Invalid {field} = {size} of a mask"):
        MaskRule(**{field: size})


@pytest.mark.parametrize(
    ("model", "rules", "masks"),
    [
        ("gemma-3-12b", "0.23", [("sliding window", 1024, 40), ("causal", None, 8)]),
        ("gemma-2-9b", "0.23", [("sliding window", 4096, 21), ("causal", None, 21)]),
        ("llama-4-scout", "0.23", [("chunked", 8192, 36), ("causal", None, 12)]),
        ("llama-3.1-8b", "0.23", [("causal", None, 32)]),
        ("mamba-2.8b", "0.23", []),
    ],
)
def test_the_masks_of_a_plan_are_those_of_its_layers(model, rules, masks):
    plan = wb.resolve(model=model, rules=rules)
    assert [(one.kind, one.tokens, one.layers) for one in layer_masks(plan)] == masks
