"""Descriptors (TMA) and pointers: the same bits, one choice for each call, and only own pages."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tests.kernels.paged_flex.cases import (
    BOXES,
    DEVICE,
    FOLDED,
    SPLIT,
    Case,
    interpreted,
    live_memory,
    requests,
)
from workbench.kernels.block_table.traffic import counted_traffic
from workbench.kernels.errors import PagedFlexError
from workbench.kernels.paged_flex import masks
from workbench.kernels.paged_flex.bitwise import promised
from workbench.kernels.paged_flex.fitting import Limits
from workbench.kernels.paged_flex.heads import Views, cache_views
from workbench.kernels.paged_flex.launches import _is_narrow
from workbench.kernels.paged_flex.paths import box_of, rows_of, unfit, with_paths
from workbench.kernels.paged_flex.settings import FAST, Settings, Tile
from workbench.kernels.paged_flex.shapes import empty_cache

SIZES = ((150, 33), (300, 1), (17, 17))
HOPPER, AMPERE = Limits((9, 0), 227 * 1024), Limits((8, 0), 163 * 1024)
BLACKWELL = Limits((10, 0), 227 * 1024)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("layout", "settings", "poison"),
    [("NHD", SPLIT, float("nan")), ("HND", FOLDED, float("nan")), ("planes", SPLIT, 3e4)],
    ids=["NHD", "HND, folded", "planes"],
)
def test_descriptors_give_the_bits_of_pointers(layout, settings, poison):
    """Pages are read whole, and what they hold after a request's end never counts."""
    case = Case(
        requests(*SIZES, dim=24, dtype=torch.float16), 64, ratio=2, layout=layout, poison=poison
    )
    mask = masks.sliding_window(70)
    found = case.check(mask, settings=replace(settings, path="descriptors")).clone()
    other = case.attend(mask, settings=replace(settings, path="pointers"))
    assert torch.equal(found.view(torch.int16), other.view(torch.int16))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("poison", [float("nan"), 3e4])
@pytest.mark.parametrize(
    ("block_size", "ratio", "mask"),
    [
        (192, 1, masks.causal()),
        (64, 2, masks.sliding_window(70)),
        (80, 2, masks.sink_window([70, 3, 0], 90)),
        (144, 1, masks.prefix_lm([[(5, 150)], [(0, 9)], [(2, 8)]])),
        (528, 1, masks.chunked(200)),
        (208, 1, masks.full()),
    ],
    ids=["two boxes", "two pages", "sinks, rest of 16", "one box", "hybrid", "three boxes"],
)
def test_boxes_of_pages_and_what_is_left_of_them_are_exact(block_size, ratio, mask, poison):
    """No tile divides these pages; rows of the scratch and of pages have NaN where none is read."""
    sizes = ((700, 40), (300, 1), (17, 17))
    batch = requests(*sizes, dim=24, dtype=torch.float16)
    case = Case(batch, block_size, ratio=ratio, poison=poison)
    prepared = case.prepared(mask, settings=BOXES)
    assert prepared.plan.settings.prefill == replace(BOXES.described, path="descriptors")
    assert prepared.plan.work.partials
    case.check(mask, masks.soft_cap(5.0), settings=BOXES)


@interpreted
def test_boxes_are_read_of_own_pages_alone():
    batch = requests(*SIZES, dtype=torch.float16)
    for block_size in (64, 80, 192):
        case = Case(batch, block_size, guarded=True, dummies=(1,), padding=2)
        prepared = case.prepared(settings=BOXES)
        with counted_traffic(allowed=live_memory(case, prepared.plan, whole_pages=True)):
            prepared.run()
        case.memory.check()


@pytest.mark.thorough
@pytest.mark.parametrize("layout", ["NHD", "HND", "planes"])
def test_boxes_give_equal_bits_in_every_batch(layout):
    one, others = requests((300, 60), dtype=torch.float16), requests((90, 9), dtype=torch.float16)
    for block_size in (64, 80):
        alone = Case(one, block_size, layout=layout).attend(settings=BOXES).clone()
        other = Case([*others, *one], block_size, layout=layout, seed=5, dummies=(1,))
        found = other.attend(settings=BOXES)[other.paged.tokens_of(1 + 1)]
        assert torch.equal(found.view(torch.int16), alone.view(torch.int16))


@pytest.mark.thorough
def test_hidden_keys_change_no_bit_of_boxes():
    batch, mask = requests((330, 40), (300, 1), dtype=torch.float16), masks.sliding_window(150)
    clean = Case(batch, 80).attend(mask, settings=BOXES).clone()
    for one in batch:
        hidden = len(one.keys) - len(one.queries) - 150
        one.keys[20:hidden] = float("nan")
        one.values[20:hidden] = float("inf")
    found = Case(batch, 80).check(mask, settings=BOXES)
    assert torch.equal(found.view(torch.int16), clean.view(torch.int16))


@interpreted
def test_descriptors_read_the_pages_of_their_requests_and_no_others():
    case = Case(requests(*SIZES, dtype=torch.float16), 64, guarded=True, dummies=(1,), padding=2)
    prepared = case.prepared(settings=replace(SPLIT, path="descriptors"))
    settings = prepared.plan.settings
    assert settings.prefill.path == settings.decode.path == "descriptors"
    with counted_traffic(allowed=live_memory(case, prepared.plan, whole_pages=True)):
        prepared.run()
    case.memory.check()


def cache_of(block_size, dtype=torch.float16, dim=128):
    return empty_cache(2, block_size, 1, dim, dtype=dtype, device="cpu")


def views_of(cache):
    return cache_views(cache, cache.shape[-1], None)[0]


@pytest.mark.parametrize(
    ("cache", "limits", "keys", "paths"),
    [
        (cache_of(256), HOPPER, 128, "descriptors descriptors"),
        (cache_of(64), HOPPER, 128, "descriptors descriptors"),
        (cache_of(528), HOPPER, 128, "descriptors pointers"),
        (cache_of(64), BLACKWELL, 128, "descriptors descriptors"),
        (cache_of(528), BLACKWELL, 64, "pointers pointers"),
        (cache_of(48), HOPPER, 64, "pointers pointers"),
        (cache_of(256), AMPERE, 64, "pointers pointers"),
        (cache_of(256), None, 64, "pointers pointers"),
        (cache_of(256, torch.float32), HOPPER, 64, "pointers pointers"),
        (cache_of(256).to(torch.float8_e4m3fn), HOPPER, 64, "pointers pointers"),
        # 2 bytes too far to the left for a descriptor
        (cache_of(256, dim=136)[..., 1:129], HOPPER, 64, "pointers pointers"),
    ],
    ids=[
        "256",
        "64",
        "528",
        "64 B200",
        "528 B200",
        "48",
        "Ampere",
        "interpreter",
        "float32",
        "8 bits",
        "unaligned",
    ],
)
def test_page_tile_and_device_decide_the_path(cache, limits, keys, paths):
    chosen = with_paths(FAST, views_of(cache), limits)
    assert chosen.prefill.block_n == keys
    assert f"{chosen.prefill.path} {chosen.decode.path}" == paths


def test_a_path_can_be_forced_where_it_is_possible():
    pointers = with_paths(replace(FAST, path="pointers"), views_of(cache_of(256)), HOPPER)
    assert (pointers.prefill, pointers.decode) == (FAST.prefill, FAST.decode)
    with pytest.raises(PagedFlexError, match="pages of 528 tokens are not a multiple"):
        with_paths(replace(FAST, path="descriptors"), views_of(cache_of(528)), HOPPER)
    with pytest.raises(PagedFlexError, match="Invalid path 'tma'"):
        replace(FAST, path="tma")


def test_a_layer_that_descriptors_cannot_copy_is_refused():
    case = Case(requests((40, 3), dim=24, dtype=torch.float16), 64)
    plan = case.prepared(settings=replace(SPLIT, path="descriptors")).plan
    wide = torch.zeros(*case.cache.shape[:-1], 32, dtype=torch.float16, device=DEVICE)
    plan.run(case.query, wide[..., 8:], case.out)
    with pytest.raises(PagedFlexError, match="not multiples of 16 bytes"):
        plan.run(case.query, wide[..., 1:25], case.out)


def test_bits_depend_on_the_page_size_only_where_descriptors_have_a_tile_of_their_own():
    assert FAST.depends_on_page_size
    assert not replace(FAST, path="pointers").depends_on_page_size
    assert BOXES.depends_on_page_size
    assert "page size" not in promised(BOXES)
    assert not SPLIT.depends_on_page_size
    assert replace(SPLIT, decode=None, one_path=True, described=Tile(64, 128)).depends_on_chunks


@pytest.mark.parametrize("decode", [None, Tile(64, 64)])
def test_bits_depend_on_chunks_where_decode_has_another_order_than_boxes(decode):
    same = Settings(Tile(64, 64), decode=decode, described=Tile(64, 64), one_path=True)
    assert same.depends_on_page_size
    assert same.depends_on_chunks == (decode is not None)


@pytest.mark.parametrize("blocks", [1, 7])
@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("in_rows", [False, True])
def test_a_descriptor_ends_with_the_last_row_of_a_head(blocks, layout, in_rows):
    row = 32 if in_rows else 16
    cache = empty_cache(
        blocks, 48, 3, row, dtype=torch.float16, layout=layout, device="cpu", in_rows=in_rows
    )
    views, _dims = cache_views(cache, 16, None)
    found = rows_of(views)
    last = views.values if found.to_value else views.keys
    distance = last[-1, -1, 0].data_ptr() - views.keys.data_ptr()
    row_bytes = views.keys.stride(1) * cache.element_size()
    assert distance == (found.total - 1) * row_bytes


@pytest.mark.parametrize(("blocks", "fits"), [(2**25 - 1, True), (2**25, False)])
def test_descriptors_have_rows_of_31_bits(blocks, fits):
    """A cache of that size, without its memory."""
    shape, strides = (blocks, 64, 2, 128), (64 * 256, 256, 128, 1)
    keys = torch.empty_strided(shape, strides, dtype=torch.float16, device="meta")
    reason = unfit(Tile(128, 64), Views(keys, keys), HOPPER)
    assert (reason is None) == fits
    assert fits or "fewer than 2**31 rows" in reason


@pytest.mark.parametrize(("keys", "fits"), [(256, True), (512, False)])
def test_a_descriptor_copies_at_most_256_keys(keys, fits):
    reason = unfit(Tile(64, keys), views_of(cache_of(512)), HOPPER)
    assert (reason is None) == fits
    assert fits or "at most 256 keys" in reason


@pytest.mark.parametrize(
    ("strides", "fits"),
    [((64 * 256, 256, 128, 1), True), ((64 * 256 + 128, 256, 128, 1), False),
     ((256, 0, 128, 1), False)],
    ids=["rows", "pages between rows", "one place for all tokens"],
)  # fmt: skip
def test_descriptors_need_pages_of_rows(strides, fits):
    keys = torch.empty_strided((3, 64, 2, 128), strides, dtype=torch.float16, device="meta")
    reason = unfit(Tile(128, 64), Views(keys, keys), HOPPER)
    assert (reason is None) == fits
    assert fits or "not a list" in reason


@pytest.mark.parametrize(
    ("keys", "page", "box"),
    [
        (128, 256, 128),
        (128, 64, 64),
        (128, 96, 64),
        (128, 192, 64),
        (128, 528, 128),
        (64, 96, 64),
        (256, 384, 128),
    ],
)
def test_a_box_is_half_a_tile_where_that_leaves_less_of_a_page(keys, page, box):
    assert box_of(Tile(128, keys), page) == box


def test_prefill_tiles_with_few_keys_take_every_maximum():
    """As was measured on an H200."""
    tiles = ((128, 64), (128, 32), (256, 64), (128, 128), (64, 64), (64, 32), (16, 64))
    assert [sizes for sizes in tiles if _is_narrow(Tile(*sizes))] == [*tiles[:3]]
