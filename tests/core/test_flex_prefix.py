"""Prefix-LM ranges of each request: parsed, seen, built, and as torch sees them."""

from __future__ import annotations

import pytest

from workbench.core.errors import ScenarioError
from workbench.core.flex.batch import parse_prefixes, stale_batch
from workbench.core.flex.build import direct_build, generic_build, visits
from workbench.core.flex.mask import MaskRule, sees


def test_ranges_by_request():
    assert parse_prefixes("", 2) == ()
    assert parse_prefixes(" 0-63; 0 - 9,20-29 ", 3) == (((0, 63),), ((0, 9), (20, 29)), ())
    assert parse_prefixes(";5-5", 2) == ((), ((5, 5),))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0:5", "Invalid range"),
        ("9-3", "Nearest valid value: 3-9"),
        ("-1-3", "Invalid range"),
        ("0-1;0-1;0-1", "batch has 2"),
        ("0-9999999999", "Invalid range"),
    ],
)
def test_an_invalid_range_is_refused(text, said):
    with pytest.raises(ScenarioError, match=said) as caught:
        parse_prefixes(text, 2)
    assert caught.value.code == "prefix_not_readable"


def test_a_request_has_its_own_ranges_and_others_the_common_one():
    rule = MaskRule(prefix=((0, 3),), prefixes=(((1, 2),), ()))
    assert rule.of(0).prefix == ((1, 2),)
    assert rule.of(1).prefix == ()
    assert rule.of(2).prefix == ((0, 3),)


def test_only_the_request_with_the_range_looks_ahead():
    batch = stale_batch()
    rule = MaskRule(prefixes=((), (), ((24, 39),)))
    causal = MaskRule()
    more = [
        token
        for token in range(batch.num_tokens)
        if any(
            sees(batch, rule, token, slot) and not sees(batch, causal, token, slot)
            for slot in range(batch.total_slots)
        )
    ]
    assert more == list(range(4, 19))
    pairs = [visits(batch, r, generic_build(batch, r, 16, 16)).pairs for r in (rule, causal)]
    assert pairs[0] - pairs[1] == 15 * 16 // 2


def test_0_33_prunes_later_blocks_that_a_range_would_see():
    """Its `future_blocks` go by causal alone: what the mask would let through is never visited."""
    batch = stale_batch()
    ahead = MaskRule(prefixes=((), (), ((24, 39),)))
    pruned = direct_build(batch, ahead, 8, pruned=True)
    assert pruned.visits == direct_build(batch, MaskRule(), 8, pruned=True).visits
    lost = visits(batch, ahead, pruned).missed
    whole = visits(batch, ahead, direct_build(batch, ahead, 8))
    assert whole.missed == 0
    seen = whole.pairs - visits(batch, MaskRule(), pruned).pairs
    assert 0 < lost <= seen == 15 * 16 // 2


def test_a_window_drops_blocks_that_a_range_would_see():
    batch = stale_batch()
    rule = MaskRule(window=4, prefixes=(((0, 49),), (), ()))
    assert visits(batch, rule, direct_build(batch, rule, 8)).missed > 0
    assert visits(batch, rule, generic_build(batch, rule, 8, 16)).missed == 0


def test_torch_sees_the_same():
    pytest.importorskip("torch")
    from workbench.labs.flex.masks import compare_with_torch

    rule = MaskRule(prefixes=(((0, 49),), ((15, 16), (2, 3)), ((30, 39),)))
    assert compare_with_torch(stale_batch(), rule, 16, 16).mismatch is None
