"""The cases of paged attention: their sizes, their work, and how they shrink."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from workbench.kernels.bench import flex_cases
from workbench.kernels.bench.flex import CASES
from workbench.kernels.bench.flex_cases import CasePart, FlexCase
from workbench.kernels.bench.flex_inputs import flex_input, in_larger_pool
from workbench.kernels.bench.run import chosen


@pytest.mark.parametrize("name", CASES)
def test_visible_pairs_are_what_the_mask_shows(name):
    case = CASES[name].reduced()
    mask = case.mask_of(case.requests)
    pairs = 0
    for request, (tokens, queries) in enumerate(case.sizes()):
        at = torch.arange(tokens - queries, tokens)
        seen = mask.torch_mask_mod(request, 0, at[:, None], torch.arange(tokens)[None, :])
        seen = seen.expand(queries, tokens)
        assert case.visible(at.numpy()).tolist() == seen.sum(1).tolist()
        pairs += int(seen.sum())
    assert case.flop == 4 * pairs * case.heads * case.head_dim


@pytest.mark.parametrize("name", CASES)
def test_necessary_bytes_are_those_of_visible_keys(name):
    case = CASES[name].reduced()
    mask = case.mask_of(case.requests)
    keys = 0
    for request, (tokens, queries) in enumerate(case.sizes()):
        at = torch.arange(tokens - queries, tokens)[:, None]
        seen = mask.torch_mask_mod(request, 0, at, torch.arange(tokens)[None, :]).expand(
            queries, tokens
        )
        keys += int(seen.any(0).sum())
    element = case.torch_dtype.itemsize
    kv = 2 * keys * case.kv_heads * case.head_dim
    assert case.bytes == (kv + 2 * case.query_tokens * case.heads * case.head_dim) * element


def test_the_cases_at_their_full_size():
    assert CASES["P1"].flop == CASES["P2"].flop == pytest.approx(5.50e11, rel=1e-3)
    assert CASES["D2"].bytes == pytest.approx(2.148e9, rel=1e-3)
    assert CASES["P1"].block_size == 16
    assert {case.group for case in map(Group, CASES.values())} == {4}


@pytest.mark.parametrize("name", CASES)
def test_a_reduced_case_shares_keys_among_as_many_heads(name):
    case, small = CASES[name], CASES[name].reduced()
    assert small.heads % small.kv_heads == 0
    assert small.heads // small.kv_heads == case.heads // case.kv_heads
    assert small.mask == case.mask
    assert len(small.parts) == len(case.parts)


class Group:
    def __init__(self, case):
        self.group = case.heads // case.kv_heads


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_made_to_fit(name):
    case = CASES[name]
    assert case.fitted(10**12) is case
    small = case.fitted(case.needed_bytes // 3)
    assert small.needed_bytes <= case.needed_bytes // 3
    assert "divided by" in small.title
    assert small.name == name
    for tokens, queries in small.sizes():
        assert tokens >= queries >= 1
        # masks shrink with their requests
        assert small.visible(np.array([tokens - 1]))[0] <= tokens
    with pytest.raises(ValueError, match=f"{name} needs"):
        case.fitted(1)


@pytest.mark.parametrize("name", CASES)
def test_the_memory_of_a_case_holds_what_a_run_has_at_once(name):
    case = CASES[name].reduced()
    given = flex_input(case, "cpu")
    pools = [given.paged.kv_cache, in_larger_pool(given).paged.kv_cache]
    vectors = [one for own in given.requests for one in (own.keys, own.values, own.queries)]
    held = sum(one.nbytes for one in (*pools, *vectors))
    assert held < case.needed_bytes < 10 * held


def test_an_unknown_case_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"Invalid case 'P9'.*: P1, P2"):
        chosen("case", CASES, ["P9"])
    assert [case.name for case in chosen("case", CASES, ["D2", "P1"])] == ["D2", "P1"]
    assert len(chosen("case", CASES, [])) == len(CASES)


def test_as_many_requests_as_the_divisor_become_one_of_the_same_length():
    parts = CasePart(4, 512, 256), CasePart(2, 64, 8)
    case = FlexCase("n", "t", parts, 16, window=100, lengths=(40, 20))
    half, quarter = case.divided(2), case.divided(4)
    assert half.parts == (CasePart(2, 512, 256), CasePart(1, 64, 8))
    assert (half.window, half.lengths) == (100, (40, 20))
    assert quarter.parts == (CasePart(1, 512, 256), CasePart(2, 16, 2))
    assert (quarter.window, quarter.lengths) == (25, (10, 5))


def test_shorter_requests_have_shorter_masks_and_never_none():
    case = FlexCase("n", "t", (CasePart(1, 3, 1),), 16, window=3, lengths=(3,))
    quarter = case.divided(4)
    assert (quarter.parts, quarter.window, quarter.lengths) == ((CasePart(1, 1, 1),), 1, (1,))
    ranged = FlexCase("n", "t", (CasePart(1, 64, 64),), 16, ranges=((8, 15), (20, 31)))
    assert ranged.divided(4).ranges == ((2, 3), (5, 7))
    assert ranged.divided(4).window == 0


def test_the_least_division_is_taken_that_fits():
    case = FlexCase("n", "t", (CasePart(8, 4, 2), CasePart(8, 2, 1)), 16)
    assert case.fitted(case.needed_bytes) is case
    for by in (2, 4, 8):
        small = case.divided(by)
        assert case.fitted(small.needed_bytes) == replace(small, title=f"t, divided by {by}")


def test_the_memory_of_a_case_by_hand():
    parts = (CasePart(2, 40, 3), CasePart(1, 20, 20))
    sizes = {"heads": 4, "kv_heads": 2, "head_dim": 8, "dtype": "float16"}
    case = FlexCase("n", "t", parts, 16, **sizes)
    tokens, queries = 2 * 48 + 32, 2 * 3 + 20  # whole pages
    keys_and_values = 2 * tokens * 2 * 8 * 2
    vectors = queries * 4 * 8
    lists = 6 * 8 * queries * 3  # pages of the longest request
    mask = 3 * 20 * 20  # of the request with the most pairs
    assert case.needed_bytes == (
        flex_cases._COPIES * keys_and_values + vectors * (8 + 6 * 2) + lists + mask
    )
