"""Nothing outside is read or written; and mistakes planted into the kernel are found."""

import importlib
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tests.kernels.block_table.guards import GuardError
from tests.kernels.paged_flex.cases import (
    BOXES,
    FOLDED,
    ONE_PATH,
    SPLIT,
    Case,
    interpreted,
    live_memory,
    requests,
)
from workbench.kernels.block_table.traffic import OutOfBounds, counted_traffic
from workbench.kernels.paged_flex import launches, masks, programs
from workbench.kernels.paged_flex.reference import agreement

SIZES = ((150, 33), (300, 1))
WINDOW = masks.sliding_window(50)


@pytest.mark.sampled(2)
@interpreted
@pytest.mark.parametrize(("block_size", "ratio"), [(64, 1), (16, 3), (48, 1)])
@pytest.mark.parametrize("settings", [SPLIT, ONE_PATH], ids=["split", "one path"])
def test_only_live_tokens_are_read(block_size, ratio, settings):
    case = Case(requests(*SIZES), block_size, ratio=ratio, dummies=(1,), padding=2, guarded=True)
    prepared = case.prepared(settings=settings)
    with counted_traffic(allowed=live_memory(case, prepared.plan)) as traffic:
        prepared.run()
    case.memory.check()
    work = prepared.plan.work
    assert traffic.launches == len(work.attend) + len(work.combine)


@interpreted
def test_a_head_of_80_reads_its_own_elements():
    """Its tile is wider than the head, in the full part, too, which has no mask of keys."""
    case = Case(requests((300, 1), dim=80), 64, guarded=True)
    prepared = case.prepared()
    with counted_traffic(allowed=live_memory(case, prepared.plan)) as traffic:
        prepared.run()
    case.memory.check()
    # 80 floats of every key and value; the query and the parts of the result take less than 16 KiB
    assert 0 <= traffic.loaded_bytes - 300 * 2 * 80 * 4 < 16384


@interpreted
def test_a_window_reads_its_tiles_and_no_others():
    def loaded(mask):
        prepared = case.prepared(mask=mask)
        with counted_traffic() as traffic:
            prepared.run()
        return traffic.loaded_bytes

    case = Case(requests((1100, 1)), 64)
    # a token's keys and values take 128 bytes; tiles hold 64 tokens
    assert loaded(masks.causal()) > 1100 * 128
    assert loaded(masks.sliding_window(60)) < 200 * 128


def test_a_write_past_the_output_is_found_by_the_guard():
    case = Case(requests((40, 3)), 16, guarded=True)
    case.attend()
    case.out = case.out[1:].as_strided(case.out.shape, case.out.stride())
    with pytest.raises(GuardError):
        case.attend()


MUTANTS = [
    ("in_request=o_key < seq_len", "in_request=o_key <= seq_len"),
    ("(o_token < b_count)", "(o_token <= b_count)"),
    (
        "t_high = tl.cdiv(keys_before(high, sizes, walk), N)",
        "t_high = keys_before(high, sizes, walk) // N",
    ),
    (
        "tl.maximum(seen.low, 0), sizes, walk) // N,",
        "tl.maximum(seen.low, 0), sizes, walk) // N + 1,",
    ),
    ("t_full = tl.cdiv(keys_before(full_low, sizes, walk), N)", "t_full = full_low * 0"),
    (
        "tl.maximum(full_high, 0), sizes, walk) // N",
        "tl.maximum(full_high, 0), sizes, walk) // N + 1",
    ),
    ("* sizes.RATIO + b_part % sizes.RATIO", "* sizes.RATIO + b_part"),
    ("(o_key % sizes.BLOCK_SIZE) * pages.token", "o_key * pages.token"),
    ("b_part = o_key // sizes.BLOCK_SIZE", "b_part = (o_key + 1) // sizes.BLOCK_SIZE"),
    ("o_row // GROUP", "o_row // (GROUP + 1)"),
    ("o_row % GROUP", "o_row % (GROUP - 1)"),
    ("b_computed = seq_len - b_count", "b_computed = seq_len - b_count + 1"),
    ("tl.fma(b_sum, b_shrink, b_total)", "b_sum + b_total"),
    ("b_acc * b_shrink[:, None], b_new", "b_acc, b_new"),
    (
        "return m_visible & m_key[None, :] & queries.in_batch[:, None]",
        "return m_visible",
    ),
    ("begin = tl.load(p_items + i_item * 5 + 2)", "begin = tl.load(p_items + i_item * 5 + 3)"),
    ("end = tl.load(p_items + i_item * 5 + 3)", "end = tl.load(p_items + i_item * 5 + 3) - 64"),
    ("begin = i_split * FOLD", "begin = (i_split + 1) * FOLD"),
    ("i_near + tl.cdiv(seen.high, FOLD) - i_first,", "i_near + seen.high // FOLD - i_first,"),
    (
        "tl.minimum(seen.low, seen.high), 0) // FOLD",
        "tl.minimum(seen.low, seen.high), 0) // FOLD + 1",
    ),
    ("i_visit < i_near, i_visit,", "i_visit <= i_near, i_visit,"),
    ("b_weight = tl.exp2(b_split_max - b_new)", "b_weight = b_split_sum * 0 + 1"),
    ("tl.range(0, b_splits,", "tl.range(0, b_splits - 1,"),
    ("b_sum * b_shrink)\n", "b_sum)\n"),
    ("i_partial * partial_rows * BLOCK_V + o_cell, b_acc", "i_partial * BLOCK_V + o_cell, b_acc"),
    ("(i_target * partial_rows + i_row) * BLOCK_V", "(i_target * partial_rows) * BLOCK_V"),
    ("m_first = o_dim == 0", "m_first = o_dim < 0"),
    ("i_head // GROUP", "i_head"),
    ("i_head % GROUP\n", "i_head * 0\n"),
    ("i_partial = b_partial * tl.num_programs(1) + i_heads", "i_partial = b_partial + i_heads"),
    ("tl.range(0, b_splits,", "tl.range(1, b_splits,"),
    ("o_dim < sizes.KEY_DIM", "o_dim <= sizes.KEY_DIM"),
    ("o_value_dim < VALUE_DIM", "o_value_dim <= VALUE_DIM"),
    ("m_dim = o_dim < VALUE_DIM", "m_dim = o_dim <= VALUE_DIM"),
    ("step.table + b_row * strides.table", "step.table + i_request * strides.table"),
    ("i_visit < near_count", "i_visit <= near_count"),
    ("tile_at(i_visit + 1,", "tile_at(i_visit,"),
    ("pages.row, seq_len, tile_count > 0, sizes", "pages.row, seq_len, True, sizes"),
    ("shift = t_low - near_count\n", "shift = t_low - near_count + 1\n"),
    ("near_count, t_begin, shift)", "near_count, t_begin + 1, shift)"),
    ("i_visit >= v_full_end", "i_visit > v_full_end"),
    ("i_visit < v_full)", "i_visit < v_full - 1)"),
    ("m_value = box_at(boxes, i).in_request & ~m_odd", "m_value = box_at(boxes, i).in_request"),
    ('tl.where(m_boxes[i] & m_odd[None, :], float("nan"), b_weight)', "b_weight"),
    ("tl.constexpr(-3.4028234663852886e38)", 'tl.constexpr(-float("inf"))'),
    ("1.0, b_sum)", "b_sum, b_sum)"),
    ("key // SIZE * walk.IN_PAGE + within", "key // SIZE * walk.IN_PAGE"),
    ("tl.maximum(key % SIZE - walk.AFTER, 0)", "key % SIZE"),
    ("o_page + walk.AFTER + o_key", "o_page + o_key"),
    ("i_box % PER_PAGE * walk.KEYS", "i_box * 0"),
    ("(o_key >= begin) & (o_key < end)", "o_key < end"),
    ("(o_key >= begin) & (o_key < end)", "(o_key >= begin) & (o_key <= end)"),
    ("tl.minimum(i_box, i_last)", "i_box"),
    ("b_place = b_block * pages.block_rows + first", "b_place = b_block * pages.block_rows"),
    ("box.place + pages.value_rows", "box.place"),
    ("b_total += b_weights[i]", "b_total += b_weights[0]"),
    ("tl.maximum(b_top, b_scores[i])", "b_top"),
    ("tl.max(b_bits) > LARGEST_SUM", "i_visit == 0"),
]
QUICK = 3
OF_EVERY_KIND = (0, 1, 2, 5, 9, 13, 22, 25, 28)
"""A few mistakes of each of the four files; the others belong to `make thorough`."""


def marks_of(number):
    slow = [pytest.mark.slow] if number >= QUICK else []
    return slow if number in OF_EVERY_KIND else [*slow, pytest.mark.thorough]


@pytest.mark.sampled(1)
@interpreted
@pytest.mark.parametrize(
    ("right", "wrong"),
    [pytest.param(*mutant, id=f"{i}", marks=marks_of(i)) for i, mutant in enumerate(MUTANTS)],
)
def test_a_planted_mistake_is_found(right, wrong, tmp_path, monkeypatch):
    sources = {name: mutant_of(source_of(name)) for name in KERNELS}
    assert any(right in source for source in sources.values())
    for name, source in sources.items():
        (tmp_path / f"mutant_{name}.py").write_text(source.replace(right, wrong), encoding="utf-8")
        monkeypatch.delitem(sys.modules, f"mutant_{name}", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("attend_kernel", "combine_kernel"):
        mutant = importlib.import_module(f"mutant_{name}")
        monkeypatch.setattr(launches, name, getattr(mutant, name))
    monkeypatch.setattr(programs, "COMBINE_SPLITS", 2)
    assert is_found()


@pytest.mark.thorough
@interpreted
def test_without_a_planted_mistake_nothing_is_found(monkeypatch):
    monkeypatch.setattr(programs, "COMBINE_SPLITS", 2)
    assert not is_found()


KERNELS = ("attend_kernel", "box_kernel", "combine_kernel", "tile_kernel")


def source_of(name):
    return (Path(launches.__file__).parent / f"{name}.py").read_text(encoding="utf-8")


def mutant_of(source):
    """The source whose kernels import the mutants of each other, and all else as it is."""
    for name in KERNELS:
        source = source.replace(
            f"from workbench.kernels.paged_flex.{name} ", f"from mutant_{name} "
        )
    return source


def is_found():
    """Whether one of a few batches reads elsewhere, writes elsewhere, or computes otherwise."""
    sinks = masks.sink_window([70] * 5, 20)
    for block_size, ratio, mask, settings in (
        (16, 3, WINDOW, SPLIT),
        (128, 1, masks.causal(), SPLIT),
        (48, 1, masks.full(), SPLIT),
        (32, 1, sinks, SPLIT),
        (32, 1, WINDOW, FOLDED),
        (32, 1, sinks, FOLDED),
        (112, 2, masks.causal(), BOXES),
        (208, 1, sinks, BOXES),
    ):
        described = settings is BOXES
        batch = odd_requests(torch.float16 if described else torch.float32)
        case = Case(batch, block_size, ratio=ratio, dummies=(1,), guarded=True)
        prepared = case.prepared(mask=mask, settings=settings)
        try:
            allowed = live_memory(case, prepared.plan, whole_pages=described)
            with counted_traffic(allowed=allowed):
                prepared.run()
            case.memory.check()
        except GuardError:
            return True
        except Exception as error:
            if stray(error):
                return True
            raise
        if not agreement(case.out, case.query, case.cache, case.batch, mask).ok:
            return True
    return False


def odd_requests(dtype):
    """Requests of several tiles and splits: two have a NaN, and the scores of one rise."""
    sizes = {"heads": 6, "kv_heads": 2, "dim": 24, "dtype": dtype}
    batch = requests((180, 33), (300, 1), (17, 17), (280, 60), **sizes)
    for one in batch[:2]:
        one.values[140, 0, 3] = float("nan")
    batch[3].keys.mul_(torch.linspace(0.0, 100.0, 280)[:, None, None])
    return batch


def stray(error):
    """Whether the interpreter's wrapped error is an access out of bounds."""
    while error is not None and not isinstance(error, OutOfBounds):
        error = error.__cause__
    return error is not None
