"""Keys and values of different sizes, values that are a part of their key, groups cut in parts."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tests.kernels.paged_flex.cases import (
    FOLDED,
    ONE_PATH,
    SPLIT,
    Case,
    interpreted,
    live_memory,
    requests,
    wide,
)
from workbench.kernels.block_table.traffic import counted_traffic
from workbench.kernels.errors import PagedFlexError
from workbench.kernels.paged_flex import masks
from workbench.kernels.paged_flex.fitting import Limits, fitted, heads_per_tile
from workbench.kernels.paged_flex.heads import HeadDims
from workbench.kernels.paged_flex.layout import lay_out
from workbench.kernels.paged_flex.settings import BITWISE, FAST

SIZES = ((150, 33), (300, 1), (17, 17))
MODES = pytest.mark.parametrize(
    "settings", [SPLIT, ONE_PATH, FOLDED], ids=["split", "one path", "folded"]
)
HEADS = {
    "wider keys, in two parts": {"dim": 48, "value_dim": 32},
    "wider values": {"dim": 24, "value_dim": 40, "heads": 4, "kv_heads": 2},
    "values in the key, its first part": {"dim": 48, "value_dim": 32, "in_key": True, "heads": 4},
    "values in the key, read again": {"dim": 40, "value_dim": 20, "in_key": True},
    "the whole key": {"dim": 32, "value_dim": 32, "in_key": True},
}
each = pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)


@pytest.mark.sampled(2)
@MODES
@each
def test_every_mode_is_exact_and_reads_no_other_page(head, settings):
    Case(requests(*SIZES, **head), 16, guarded=True, dummies=(1,), padding=2).check(
        masks.sink_window([3, 70, 0, 5], 40), masks.soft_cap(5.0), settings=settings
    )


@pytest.mark.sampled(1)
@MODES
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_the_heads_of_mla(settings, dtype):
    sizes = ((150, 5), (100, 1))
    batch = requests(*sizes, dim=576, value_dim=512, in_key=True, heads=4, dtype=dtype)
    Case(batch, 16).check(settings=wide(settings), scale=0.07)


@pytest.mark.parametrize("block_size", [16, 64])
def test_the_largest_keys_of_their_own_values(block_size):
    batch = requests((70, 9), (130, 1), dim=576, value_dim=512, dtype=torch.float16)
    Case(batch, block_size).check(settings=wide(SPLIT))


@pytest.mark.sampled(1)
@each
def test_descriptors_give_the_bits_of_pointers(head):
    case = Case(requests(*SIZES, **{**head, "dtype": torch.float16}), 64, ratio=2)
    found = case.check(settings=replace(SPLIT, path="descriptors")).clone()
    other = case.attend(settings=replace(SPLIT, path="pointers"))
    assert torch.equal(found.view(torch.int16), other.view(torch.int16))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", ["pointers", "descriptors"])
@pytest.mark.parametrize("dim", [40, 80])
def test_a_head_reads_nothing_of_its_neighbours(dim, path):
    """Rows of a head that is padded are followed by those of the next one."""
    case = Case(requests((70, 9), (130, 1), dim=dim, dtype=torch.float16), 64)
    settings = replace(SPLIT, path=path)
    expected = case.check(settings=settings).clone()
    case.cache[..., 1:, :] = float("nan")
    found = case.attend(settings=settings)
    own = case.query.shape[1] // case.cache.shape[-2]
    assert torch.equal(found[:, :own], expected[:, :own])


@pytest.mark.sampled(1)
@interpreted
@pytest.mark.parametrize("path", ["pointers", "descriptors"])
@each
def test_only_own_tokens_are_read(head, path):
    case = Case(requests(*SIZES, **{**head, "dtype": torch.float16}), 64, guarded=True, padding=2)
    prepared = case.prepared(settings=replace(SPLIT, path=path))
    with counted_traffic(allowed=live_memory(case, prepared.plan, whole_pages=path != "pointers")):
        prepared.run()
    case.memory.check()


@pytest.mark.sampled(1)
@MODES
@each
@pytest.mark.parametrize(
    "poison", [float("nan"), pytest.param(float("inf"), marks=pytest.mark.thorough)]
)
def test_what_hidden_keys_hold_changes_no_bit(head, settings, poison):
    batch, mask = requests((330, 40), (300, 1), **head), masks.sliding_window(150)
    clean = Case(batch, 16).attend(mask, settings=settings).clone()
    for one in batch:
        hidden = len(one.keys) - len(one.queries) - 150
        one.keys[20:hidden] = poison
        one.values[20:hidden] = poison
    found = Case(batch, 16).check(mask, settings=settings)
    assert torch.equal(found.view(torch.int32), clean.view(torch.int32))


def test_a_seen_key_that_is_not_finite_makes_its_tokens_nan():
    batch = requests((60, 20), dim=48, value_dim=32, in_key=True)
    batch[0].keys[50, 0, 3] = float("nan")
    found = Case(batch, 16).check()
    assert found.isnan().any(-1).any(-1).nonzero().flatten().tolist() == [*range(10, 20)]


def test_eight_bits_extras_and_log_sum_exps():
    batch = requests((150, 5), (90, 1), dim=48, value_dim=32, in_key=True, heads=4)
    case = Case(batch, 16)
    scale = torch.tensor([0.05], device=case.cache.device)
    cache = (case.cache / scale).round().nan_to_num(0).clamp(-127, 127).to(torch.int8)
    case.cache, case.paged = cache, replace(case.paged, kv_cache=cache)
    lse = torch.empty(case.query.shape[:2], device=cache.device)
    plan = case.prepared(lse=lse, scales=(scale, scale)).plan
    found = plan.run(case.query, cache, lse=lse, key_scale=scale, value_scale=scale)
    wide = cache.float() * scale
    exact = plan_of(case, wide).run(case.query, wide)
    assert (found - exact).abs().max() < 1e-5
    assert lse.isfinite().all()


def plan_of(case, cache):
    """The same batch over a cache of float32."""
    case.cache = cache
    return case.prepared().plan


@pytest.mark.thorough
@pytest.mark.parametrize("heads", [71, 96, 128])
def test_a_group_that_is_too_large_for_a_tile_is_cut(heads):
    batch = requests((40, 3), (130, 1), heads=heads, dim=16, dtype=torch.float32)
    small = replace(SPLIT, prefill=replace(SPLIT.prefill, block_m=32))
    case = Case(batch, 16)
    plan = case.prepared(settings=small).plan
    assert heads_per_tile(plan.settings.prefill, heads) == {71: 1, 96: 32, 128: 32}[heads]
    case.check(settings=small)


@pytest.mark.parametrize(
    ("dims", "parts", "shared"),
    [
        (HeadDims(128, 128), (128, 0), False),
        (HeadDims(96, 96), (128, 0), False),
        (HeadDims(576, 512, in_key=True), (512, 64), True),
        (HeadDims(576, 512), (512, 64), False),
        (HeadDims(192, 128), (128, 64), False),
        (HeadDims(250, 64), (256, 0), False),
        (HeadDims(64, 128), (64, 0), False),
        (HeadDims(40, 20, in_key=True), (32, 16), False),
        (HeadDims(60, 20, in_key=True), (64, 0), False),
        (HeadDims(8, 4), (16, 0), False),
    ],
    ids=str,
)
def test_parts_of_a_key(dims, parts, shared):
    assert (dims.parts_of_key, dims.share_a_tile) == (parts, shared)


@pytest.mark.parametrize(
    ("dim", "value_dim", "given", "message"),
    [
        (32, 16, 17, r"row\] a row of 32 \+ value_dim"),
        (32, 16, 0, "Nearest valid value: 1"),
        (577, 8, 8, r"head_dim must be in 1\.\.576; got 577"),
        (16, 513, 513, r"value_dim must be in 1\.\.512; got 513"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(dim, value_dim, given, message):
    def attend():
        case = Case(requests((5, 1), dim=dim, value_dim=value_dim), 16)
        case.value_dim = given
        case.attend()

    with pytest.raises(PagedFlexError, match=message):
        attend()


@pytest.mark.parametrize(
    "head",
    [{"dim": 1}, {"dim": 4, "value_dim": 1}, {"dim": 4, "value_dim": 1, "in_key": True}],
    ids=["pairs", "rows", "in the key"],
)
def test_the_smallest_heads_are_of_one_dim(head):
    Case(requests((40, 3), **head), 16).check()


def test_a_row_of_keys_alone_needs_the_size_of_its_values():
    paged = lay_out(requests((5, 1), dim=32, value_dim=16, in_key=True), 16)
    case = Case(requests((5, 1), dim=32, value_dim=16, in_key=True), 16)
    case.value_dim = None
    with pytest.raises(PagedFlexError, match=f"kv_cache {paged.kv_cache.shape[-1]}, value_dim is"):
        case.attend()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("settings", [FAST, BITWISE], ids=["fast", "bitwise"])
@pytest.mark.parametrize("shared_kib", [99, 163, 227])
def test_tiles_of_mla_fit_a_device(shared_kib, settings, dtype):
    capability = {99: (8, 6), 163: (8, 0), 227: (9, 0)}[shared_kib]
    limits = Limits(capability, shared_kib * 1024)
    sizes = {"head_dim": 576, "value_dim": 512, "group": 128, "dtype": dtype}
    if (shared_kib, dtype) == (99, "float32"):
        # 16 keys and 16 queries of 2,304 bytes, 16 values of 2,048, and the compiler's own 7 KiB
        with pytest.raises(PagedFlexError, match="takes 113,664 bytes"):
            fitted(settings, **sizes, limits=limits)
        return
    found = fitted(settings, **sizes, limits=limits)
    # so wide an accumulator is kept in registers by at most 32 rows
    sides = {
        side for tile in (found.prefill, found.decode) for side in (tile.block_m, tile.block_n)
    }
    assert sides <= {16, 32}
    assert fitted(found, **sizes, limits=limits) == found
    assert 1 <= heads_per_tile(found.prefill, 128) <= min(32, found.decode.block_m)
    if dtype == "float16":
        assert min(found.prefill.num_stages, found.decode.num_stages) >= 3


def test_a_tile_on_its_way_is_kept_before_keys_are():
    """An RTX has room for two stages with twice the keys; with four they would be a half."""
    limits = Limits((8, 6), 99 * 1024)
    found = fitted(FAST, head_dim=128, group=8, dtype="float16", limits=limits)
    sizes = [(one.block_m, one.block_n, one.num_stages) for one in (found.prefill, found.decode)]
    assert sizes == [(128, 32, 3), (16, 64, 3)]


def test_the_last_stages_are_taken_one_by_one():
    """An A100 has room for two stages of the smallest tile with float32 heads of 512."""
    limits = Limits((8, 0), 163 * 1024)
    found = fitted(FAST, head_dim=512, group=8, dtype="float32", limits=limits)
    sizes = [(one.block_m, one.block_n, one.num_stages) for one in (found.prefill, found.decode)]
    assert sizes == [(16, 16, 2), (16, 16, 2)]


def test_hopper_and_b200_alone_multiply_from_shared_memory():
    capabilities = ((8, 0), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0))
    found = [Limits(one, 0).multiplies_from_shared for one in capabilities]
    assert found == [False, False, True, True, True, False, False]


def test_what_no_tile_holds_is_refused():
    small = Limits((7, 5), 32 * 1024)
    sizes = {"head_dim": 576, "value_dim": 512, "group": 32, "dtype": "float32"}
    with pytest.raises(PagedFlexError, match=r"16 rows.* bytes.* gives 32,768"):
        fitted(FAST, **sizes, limits=small)
