"""The programs of a step: every visible key once, and no more work than the mask shows."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import numpy as np
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.kernels.paged_flex.cases import FOLDED, SPLIT, Case, requests
from tests.kernels.paged_flex.test_masks import SIZE, any_mask, picture
from workbench.kernels.paged_flex import masks, programs
from workbench.kernels.paged_flex.programs import (
    COMBINE_SPLITS,
    NO_PARTIAL,
    work_of,
)
from workbench.kernels.paged_flex.settings import BITWISE, FAST, SPLIT_BY_BATCH, Settings, Tile
from workbench.kernels.paged_flex.work import paged_batch

SMALL = Settings(Tile(32, 16), Tile(16, 16), split_tokens=16, fill_programs=8)
IN_ORDER = Settings(Tile(16, 16), Tile(16, 16), split_tokens=16, fill_programs=8, one_path=True)


def batch_of(*sizes):
    """A batch of (tokens, queries), with one page for every 16 tokens; its table is not read."""
    lengths, counts = zip(*sizes, strict=True)
    starts = np.concatenate([[0], np.cumsum(counts)])
    table = np.zeros((len(sizes), -(-max(*lengths, 1) // 16)), dtype=np.int32)
    return paged_batch(starts, lengths, table, num_blocks=1, entry_tokens=16)


@settings(max_examples=settings.default.max_examples // 2)
@given(any_mask, st.integers(1, SIZE), st.sampled_from([1, 4, 16, 64]))
@example(masks.prefix_lm([[(3, 9), (20, 60)]]), SIZE, 16)
@example(masks.window_around(5), SIZE, 16)
@example(masks.sliding_window(5), SIZE, 4)
@example(masks.sink_window([3], 5), SIZE, 4)
@example(masks.chunked(6), SIZE, 4)
@example(masks.document([[10, 20, 34]]), SIZE, 4)
def test_the_hosts_span_is_the_kernels(mask, seq_len, tile):
    _, spans = picture(mask, seq_len, tile)
    first = np.arange(0, seq_len, tile)
    last = np.minimum(first + tile, seq_len) - 1
    found = mask.visible(first, last, np.full_like(first, seq_len), first * 0)
    for i, (near, low, _, _, high) in enumerate(spans[: len(first)]):
        end = min(max(high, 0), seq_len)
        start = min(max(low, 0), end)
        assert tuple(int(part[i]) for part in found) == (min(max(near, 0), start), start, end)


@pytest.mark.parametrize(
    ("queries", "group", "is_decode"), [(16, 1, True), (17, 1, False), (8, 2, True)]
)
def test_queries_that_fill_a_decode_tile_take_one(queries, group, is_decode):
    work = work_of(batch_of((64, queries)), SMALL, masks.causal(), group=group, kv_heads=1)
    wanted = SMALL.decode if is_decode else SMALL.prefill
    assert {launched.tile for launched in work.attend} == {wanted}


def test_a_mask_without_a_span_on_the_host_is_visited_everywhere():
    mask = masks.Mask("own", masks.causal().mask_mod, masks.causal().torch_mask_mod)
    work = work_of(batch_of((40, 3)), SMALL, mask, group=1, kv_heads=1)
    assert {(begin, end) for _, _, begin, end, _ in work.attend[0].items.tolist()} == {
        (0, 16),
        (16, 32),
        (32, 48),
    }


def tile_of(work, row, first):
    """(launch, items) of one tile, by first key."""
    return sorted(
        (begin, end, partial)
        for launched in work.attend
        for r, f, begin, end, partial in launched.items.tolist()
        if (r, f) == (row, first)
    )


hows = st.sampled_from([SMALL, IN_ORDER, SPLIT, FOLDED, SPLIT_BY_BATCH, FAST, BITWISE])
sizes = st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, 40)), min_size=1, max_size=4)


@given(any_mask, sizes, hows, st.sampled_from([1, 3]), st.sampled_from([1, 2, 8]))
def test_the_work_gate(mask, sizes, how, group, kv_heads):
    """Programs, scratch and combine are within a small constant of what the mask shows."""
    sizes = [(tokens, min(tokens, queries)) for tokens, queries in sizes]
    # the masks hold values of one request
    mask = mask if mask.aux is None else repeated(mask, len(sizes))
    work = work_of(batch_of(*sizes), how, mask, group=group, kv_heads=kv_heads)
    unit = how.split_tokens if not how.by_batch else how.prefill.block_n
    partials = []
    for row, (tokens, queries) in enumerate(sizes):
        starts = sorted({f for one in work.attend for r, f, *_ in one.items.tolist() if r == row})
        for first, after in zip(starts, [*starts[1:], queries], strict=False):
            places = torch.arange(tokens - queries + first, tokens - queries + after)
            seen = mask.torch_mask_mod(row, 0, places[:, None], torch.arange(tokens)[None, :])
            seen = seen.expand(len(places), tokens).any(0).numpy()
            items = tile_of(work, row, first)
            taken = np.zeros(tokens, dtype=int)
            for begin, end, _ in items:
                taken[begin:end] += 1
                assert len(items) == 1 or seen[begin:end].any()
            assert (taken <= 1).all()
            assert (taken[seen] == 1).all()
            # one more at each end of the two parts of a span
            assert len(items) <= 1 + seen.sum() / unit + 3
            own = [partial for _, _, partial in items]
            assert (own == [NO_PARTIAL]) == (len(items) == 1)
            partials += [partial for partial in own if partial != NO_PARTIAL]
    assert sorted(partials) == list(range(len(partials)))
    assert work.partials <= len(partials) + len(partials) / COMBINE_SPLITS + len(sizes)
    combined = sum(int(items[:, 3].sum()) for items in work.combine)
    assert combined <= 2 * work.partials * max(work.partial_tokens, 1)
    assert sum(queries for _, queries in sizes) == len(set(outputs(work, sizes, how, group)))


def repeated(mask, rows):
    aux = mask.aux.expand(rows, -1)
    return type(mask)(
        **{**vars_of(mask), "aux": aux, "torch_mask_mod": mask.torch_mask_mod_of(aux)}
    )


def vars_of(mask):
    return {name: getattr(mask, name) for name in mask.__dataclass_fields__}


def outputs(work, sizes, how, group):
    """Every token that some program writes; a token that two write is there twice."""
    starts = np.concatenate([[0], np.cumsum([queries for _, queries in sizes])])
    found = [int(out) for items in work.combine for out, *_, target in items if target < 0]
    for launched in work.attend:
        for row, first, _, _, partial in launched.items.tolist():
            if partial == NO_PARTIAL:
                end = min(first + launched.tile.block_m // group, sizes[row][1])
                found += range(starts[row] + first, starts[row] + end)
    assert len(found) == len(set(found)), how
    return found


def programs_of(sizes, how, mask, *, group=4, kv_heads=8):
    work = work_of(batch_of(*sizes), how, mask, group=group, kv_heads=kv_heads)
    return kv_heads * sum(len(launched.items) for launched in work.attend), work


@pytest.mark.parametrize(
    "mask", [masks.sliding_window(1024), masks.chunked(1024)], ids=lambda mask: mask.name
)
@pytest.mark.parametrize("how", [FAST, BITWISE], ids=["fast", "bitwise"])
def test_decodes_over_a_window_do_not_grow_with_the_context(mask, how):
    """256 requests of 128K: without the mask's span a million programs and 2 GB of scratch."""
    counts = []
    for tokens in (4608, 130560):
        found, work = programs_of([(tokens, 1)] * 256, how, mask)
        counts.append(found)
        assert found <= 256 * 8 * 5
        assert work.partials <= 256 * 5
        assert max((items[:, 3].max() for items in work.combine), default=0) <= 5
    assert counts[0] == counts[1]


@pytest.mark.parametrize("how", [FAST, BITWISE], ids=["fast", "bitwise"])
@pytest.mark.parametrize("queries", [1, 5, 20])
def test_a_short_request_fills_the_device(how, queries):
    found, work = programs_of([(32768, queries)], how, masks.causal())
    # parts are equal, so that up to as many programs as there are KV heads find no part
    assert found > 132 - 8
    if not how.one_path:
        # a multiprocessor works on two decode tiles at a time
        at_once = 1 if queries * 4 > how.decode.block_m else 2
        assert 132 * at_once - 8 <= found <= 132 * at_once
        assert work.partials * 8 <= 132 * at_once


def test_a_request_with_enough_tiles_is_not_split():
    _, work = programs_of([(8192, 8192)], FAST, masks.causal())
    assert (len(work.attend), work.combine, work.partials) == (1, (), 0)
    assert work.partial_tokens == 0


def test_no_program_adds_more_than_a_level_of_partials():
    _, work = programs_of([(131072, 1), (900, 1)], FAST, masks.causal(), kv_heads=1)
    assert [int(items[:, 3].max()) for items in work.combine] == [64, 2]
    _, work = programs_of([(131072, 1)], BITWISE, masks.causal(), kv_heads=1)
    assert [items[:, 3].tolist() for items in work.combine] == [[128]]


@pytest.mark.parametrize("how", [FAST, BITWISE, SPLIT, FOLDED], ids=range(4))
def test_how_a_request_is_cut_does_not_depend_on_its_batch(how):
    own, others = (3000, 7), [(900, 33), (5000, 1), (64, 64)]
    alone = work_of(batch_of(own), how, masks.causal(), group=4, kv_heads=2)
    batched = work_of(
        batch_of(others[0], own, *others[1:]), how, masks.causal(), group=4, kv_heads=2
    )

    def cut(work, row):
        return sorted(
            (launched.tile.block_m, launched.fold_tokens, first, begin, end, partial < 0)
            for launched in work.attend
            for r, first, begin, end, partial in launched.items.tolist()
            if r == row
        )

    assert cut(alone, 0) == cut(batched, 1)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tokens", [5, 1])
def test_partials_are_added_in_two_levels(tokens, monkeypatch):
    monkeypatch.setattr(programs, "COMBINE_SPLITS", 2)
    case = Case(requests((300, tokens), (150, 1), heads=4, kv_heads=2, dim=24), 16, guarded=True)
    how = Settings(Tile(64, 32), Tile(16, 32), split_tokens=32, fill_programs=40, as_given=True)
    prepared = case.prepared(settings=how)
    assert len(prepared.plan.work.combine) == 2
    case.check(masks.causal(), settings=how)
    case.check(masks.sink_window([40, 40], 100), settings=how)


def test_a_split_by_batch_cuts_no_tile_of_either_kind():
    how = Settings(Tile(32, 16), Tile(16, 64), split_tokens=64, fill_programs=64, by_batch=40)
    work = work_of(batch_of((900, 1), (700, 33)), how, masks.causal(), group=1, kv_heads=1)
    begins = {begin for one in work.attend for _, _, begin, _, _ in one.items.tolist()}
    assert len(begins) > 10
    assert all(begin % 64 == 0 for begin in begins)


@pytest.mark.parametrize(("by_batch", "programs"), [(16, 2), (8, 1), (4, 1)])
def test_a_split_by_batch_has_as_many_programs_as_there_are_for_a_head(by_batch, programs):
    how = Settings(Tile(32, 16), Tile(16, 16), split_tokens=16, fill_programs=64, by_batch=by_batch)
    work = work_of(batch_of((640, 1)), how, masks.causal(), group=1, kv_heads=8)
    assert sum(len(launched.items) for launched in work.attend) == programs


@pytest.mark.parametrize("mask", [masks.causal(), masks.sliding_window(40)], ids=lambda m: m.name)
@pytest.mark.parametrize("how", [SMALL, IN_ORDER], ids=["split", "in order"])
def test_the_longest_programs_of_a_launch_come_first(mask, how):
    sizes = [(30, 1), (700, 1), (90, 90), (200, 3), (64, 64), (900, 2)]
    work = work_of(batch_of(*sizes), how, mask, group=1, kv_heads=4)
    assert sum(len(launched.items) for launched in work.attend) > 12
    for launched in work.attend:
        keys = []
        for row, first, begin, end, partial in launched.items.tolist():
            tokens, queries = sizes[row]
            last = min(first + launched.tile.block_m, queries)
            at = torch.arange(tokens - queries + first, tokens - queries + last)[:, None]
            seen = mask.torch_mask_mod(row, 0, at, torch.arange(tokens)[None, :])
            keys.append(int(seen.any(0).sum()) if partial == NO_PARTIAL else end - begin)
        assert keys == sorted(keys, reverse=True)


def test_tiles_of_one_token_are_as_long_as_it_sees():
    work = work_of(
        batch_of((8, 8)), Settings(Tile(16, 16)), masks.sliding_window(1), group=16, kv_heads=1
    )
    [launched] = work.attend
    items = [tuple(item) for item in launched.items.tolist()]
    # of one key each, so that their order stays
    assert items == [(0, first, 0, first + 1, NO_PARTIAL) for first in range(8)]
