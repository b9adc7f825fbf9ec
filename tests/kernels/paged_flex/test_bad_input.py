"""What is refused, with the place and the limit, before anything is launched."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch
from torch._subclasses import FakeTensorMode
from triton.errors import TritonError

from tests.kernels.block_table.cases import not_one_gpu
from tests.kernels.paged_flex import mods
from tests.kernels.paged_flex.cases import DEVICE, Case, requests
from workbench.kernels.errors import PagedFlexError
from workbench.kernels.paged_flex import masks, plan
from workbench.kernels.paged_flex.api import paged_attention, paged_batch
from workbench.kernels.paged_flex.fitting import Limits, fitted
from workbench.kernels.paged_flex.masks import Mask, Score
from workbench.kernels.paged_flex.mods import mask_mod_error
from workbench.kernels.paged_flex.settings import (
    BITWISE,
    BITWISE_ELSEWHERE,
    FAST,
    FAST_ELSEWHERE,
    Settings,
    Tile,
    shipped,
)
from workbench.kernels.paged_flex.shapes import checked_shapes

CASE = Case(requests((40, 3), (20, 1), heads=4, kv_heads=2), 16)
TABLE = np.array([[1, 2, 3], [4, 10**6, -5]])


def refused(match, call, *arguments, **expected):
    options = expected.pop("options", {})
    with pytest.raises(PagedFlexError, match=match) as caught:
        call(*arguments, **options)
    for field, value in expected.items():
        assert getattr(caught.value, field) == value, field


def batch(starts=(0, 3, 4), lengths=(40, 16), table=TABLE, **changes):
    options = {"num_blocks": 5, "entry_tokens": 16, **changes}
    return paged_batch(starts, lengths, table, **options)


def test_garbage_after_the_last_block_is_fine():
    assert batch().num_tokens == 4
    assert batch(idx_mapping=[1, -1], lengths=(16, 99)).seq_lens.tolist() == [16, 0]
    assert batch(lengths=(48, 16)).seq_lens.tolist() == [48, 16]  # a row's last token


@pytest.mark.parametrize("bad", [-1, 5, 2**31, -(2**40)])
def test_a_block_outside_of_the_cache(bad):
    table = TABLE.copy()
    table[0, 2] = bad
    expected = {"field": "block_table", "given": bad, "limit": 5, "index": 2, "request": 0}
    refused(r"blocks 0\.\.4", batch, options={"table": table}, **expected)
    refused(r"blocks 0\.\.4", batch, options={"table": torch.from_numpy(table)}, **expected)
    expected["request"] = 1
    swapped = {"table": table, "idx_mapping": [1, 0], "lengths": (16, 40)}
    refused("request 1 reads 3", batch, options=swapped, **expected)
    assert batch(table=table, trusted=True).num_requests == 2


@pytest.mark.parametrize(
    ("changes", "match", "expected"),
    [
        ({"starts": (0, 3)}, "need 3", {"field": "query_start_loc", "limit": 3}),
        ({"starts": (1, 3, 4)}, "begin with 0", {"index": 0}),
        ({"starts": (0, 3, 2)}, "never fall", {"index": 2, "given": 2}),
        ({"lengths": (2, 16)}, "3 queries", {"field": "seq_lens", "limit": 3, "request": 0}),
        ({"lengths": (49, 16)}, "holds 48 tokens", {"field": "seq_lens", "limit": 48}),
        ({"lengths": (40, -1)}, "nearest: 0", {"field": "seq_lens", "index": 1}),
        ({"lengths": (40, 2**31)}, "allowed", {"field": "seq_lens", "index": 1}),
        ({"lengths": (40, 1.5)}, "integers", {"field": "seq_lens"}),
        ({"lengths": [[40], [1, 2]]}, "integers", {"field": "seq_lens"}),
        ({"idx_mapping": [0]}, "one table row", {"field": "idx_mapping", "limit": 2}),
        ({"idx_mapping": [0, 2]}, "nearest: 1", {"field": "idx_mapping", "index": 1}),
        ({"idx_mapping": [-2, 0]}, "nearest: -1", {"field": "idx_mapping", "index": 0}),
        ({"table": [[1, 2], [3]]}, "different lengths", {"field": "block_table"}),
        ({"table": np.arange(4)}, r"\[rows, entries\]", {"field": "block_table"}),
        ({"table": TABLE * 0.5}, "integers", {"field": "block_table"}),
        ({"entry_tokens": 0}, "value: 1", {"field": "entry_tokens", "limit": 1}),
        ({"entry_tokens": -16}, "value: 1", {"field": "entry_tokens", "given": -16}),
        ({"entry_tokens": 16.0}, "value: 16", {"field": "entry_tokens", "limit": 16}),
        ({"entry_tokens": float("nan")}, "value: 1", {"field": "entry_tokens"}),
        ({"entry_tokens": True}, "integer", {"field": "entry_tokens"}),
        ({"num_blocks": 4.5}, "value: 4", {"field": "num_blocks", "given": 4.5}),
        ({"num_blocks": "5"}, "integer", {"field": "num_blocks", "given": "5"}),
        ({"lengths": torch.tensor([40, 16])}, r"is a tensor.*cpu\(\).numpy", {"field": "seq_lens"}),
    ],
)
def test_batches_that_do_not_fit_together(changes, match, expected):
    refused(match, batch, options=changes, **expected)


def attend(**changes):
    given = {"query": CASE.query, "kv_cache": CASE.cache, "batch": CASE.batch, **changes}
    return paged_attention(**given)


@pytest.mark.parametrize(
    ("changes", "match", "expected"),
    [
        ({"query": CASE.query[:, 0]}, r"\[tokens, query_heads", {"field": "query"}),
        ({"query": [1.0]}, "got list", {"field": "query"}),
        ({"query": CASE.query[:, :3]}, "KV heads: 1", {"field": "query", "given": 3, "limit": 2}),
        (
            {
                "query": CASE.query.repeat_interleave(2, 1)[:, :6],
                "kv_cache": CASE.cache.repeat_interleave(2, -2),
            },
            "KV heads: 3",
            {"field": "query", "given": 6, "limit": 4},
        ),
        ({"kv_cache": CASE.cache[..., :0, :]}, "KV heads: 1", {"field": "query", "limit": 0}),
        ({"query": CASE.query[:2]}, "ends at 4", {"field": "query", "given": 2, "limit": 4}),
        ({"query": CASE.query.double()}, "allowed: float32, float16", {"field": "query"}),
        ({"query": CASE.query.half()}, "both the same", {"field": "kv_cache"}),
        ({"query": CASE.query[..., ::2]}, "last stride is 2", {"field": "query"}),
        ({"query": CASE.query[..., :8].contiguous()}, "head_dim 8", {"field": "kv_cache"}),
        ({"value_dim": 8}, "value_dim is 8", {"field": "kv_cache", "limit": 16}),
        ({"value_dim": 20}, "value_dim is 20", {"field": "kv_cache", "limit": 16}),
        ({"kv_cache": CASE.cache[0]}, r"\[num_blocks, 2", {"field": "kv_cache"}),
        ({"kv_cache": CASE.cache.transpose(0, 1)}, "transpose", {"field": "kv_cache", "limit": 2}),
        ({"kv_cache": CASE.cache[:2]}, "2 kernel blocks", {"field": "num_blocks"}),
        ({"kv_cache": CASE.cache[:, :, :5]}, "do not divide", {"field": "entry_tokens"}),
        ({"out": CASE.query[:, :2]}, "out must be like", {"field": "out"}),
        ({"out": CASE.query[:, :1].expand(4, 4, 16)}, "in one place", {"field": "out"}),
        ({"out": CASE.query[:1].expand(4, 4, 16)}, "clone", {"given": (0, 16, 1)}),
        ({"out": CASE.query.to("meta")}, "on meta, query on", {"field": "out", "given": "meta"}),
        ({"out": torch.empty_like(CASE.query).requires_grad_()}, "detach", {"field": "out"}),
        ({"out": [1.0]}, "a tensor like query", {"field": "out", "given": [1.0]}),
        ({"scale": 0.0}, "above 0", {"field": "scale"}),
        ({"scale": float("nan")}, "finite", {"field": "scale"}),
        ({"scale": "0.5"}, "numbers", {"field": "scale", "given": "0.5"}),
        ({"settings": "fast"}, "settings.FAST", {"field": "settings", "given": "fast"}),
        ({"batch": (1, 2)}, "paged_batch", {"field": "batch", "given": (1, 2)}),
        ({"mask": "causal"}, r"masks.causal\(\)", {"field": "mask", "given": "causal"}),
        ({"score": 30.0}, "Invalid score", {"field": "score", "given": 30.0}),
        ({"mask": masks.document([[40]])}, "values of 1 requests", {"field": "mask", "limit": 2}),
        ({"score": masks.alibi([0.1, 0.2])}, "for 4 heads", {"field": "score", "limit": 4}),
    ],
)
def test_calls_that_do_not_fit_together(changes, match, expected):
    refused(match, attend, options=changes, **expected)


@not_one_gpu
@pytest.mark.parametrize("field", ["kv_cache", "out"])
def test_tensors_of_another_gpu(field):
    """The index of a device counts; the GPUs need not be there."""
    with FakeTensorMode():
        given = {
            "query": torch.empty(4, 4, 16, device="cuda:0"),
            "kv_cache": torch.empty(9, 2, 16, 2, 16, device="cuda:0"),
            "out": torch.empty(4, 4, 16, device="cuda:0"),
            "scale": None,
        }
        checked_shapes(**given, batch=batch())
        given[field] = torch.empty_like(given[field], device="cuda:1")
        options = {**given, "batch": batch()}
        refused("on cuda:1", checked_shapes, options=options, field=field, limit="cuda:0")


def test_heads_wider_than_a_tile_can_hold():
    wide = requests((5, 1), dim=513)
    refused(r"1\.\.512", Case, wide, 16, field="kv_cache", given=513, limit=512)


def test_mods_of_the_wrong_kind():
    def python(request, head, query, key, p_aux, PARAM):
        return key <= query

    five = Mask("five", mods.five_mask, masks.causal().torch_mask_mod)
    refused(
        "takes 5 parameters.*must take 6", attend, options={"mask": five}, field="mask", given=5
    )
    plain = Mask("plain", python, masks.causal().torch_mask_mod)
    refused("triton.jit function; got function", attend, options={"mask": plain}, field="mask")
    score = Score("six", mods.blind_mask, masks.soft_cap(1.0).torch_score_mod)
    refused(
        r"(?s)must take 7.*score \* 0.5", attend, options={"score": score}, field="score", limit=7
    )


@pytest.mark.parametrize(("size", "near"), [(8, 16), (48, 32), (0, 16), (-16, 16), (100, 64)])
def test_tiles_that_no_matrix_instruction_takes(size, near):
    refused(f"value: {near}$", Tile, size, 64, field="block_m", given=size, limit=near)
    refused(f"value: {near}$", Tile, 64, size, field="block_n", given=size, limit=near)
    refused("integer", Tile, 64, 1.5, field="block_n")


@pytest.mark.parametrize(
    ("field", "given", "near"),
    [
        ("block_m", 2**20, 1024),
        ("block_n", 2048, 1024),
        ("num_warps", 3, 2),
        ("num_warps", 0, 1),
        ("num_warps", 64, 32),
        ("num_warps", True, None),
        ("num_stages", 0, 1),
        ("num_stages", 100, 16),
        ("num_stages", 2.5, 2),
    ],
)
def test_tiles_that_triton_does_not_compile(field, given, near):
    tile = {"block_m": 64, "block_n": 64, field: given}
    refused("Invalid", lambda: Tile(**tile), field=field, given=given, limit=near)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"split_tokens": 128.0}, "split_tokens"),
        ({"split_tokens": -64}, "split_tokens"),
        ({"by_batch": True}, "by_batch"),
        ({"fill_programs": 0}, "fill_programs"),
        ({"prefill": "64 x 64"}, "prefill"),
        ({"decode": (16, 64)}, "decode"),
    ],
)
def test_settings_of_the_wrong_kind(options, field):
    given = {"prefill": Tile(64, 64), "decode": Tile(16, 64), **options}
    refused("Invalid", lambda: Settings(**given), field=field, given=given[field])


def test_splits_that_cut_tiles():
    for tiles in ((Tile(64, 64), Tile(16, 32)), (Tile(64, 32), Tile(16, 64)), (Tile(64, 64), None)):
        refused("value: 64", Settings, *tiles, 100, field="split_tokens", limit=64)


@pytest.mark.parametrize("how", [FAST_ELSEWHERE, BITWISE_ELSEWHERE], ids=["fast", "bitwise"])
def test_float32_heads_of_512_are_more_than_an_rtx_holds(how):
    """Keys, values, queries and sums take 132,160 bytes there, also without a pipeline."""
    sizes = {"head_dim": 512, "group": 4, "dtype": "float32", "limits": Limits((8, 6), 101_376)}
    refused("shared memory", fitted, how, options=sizes, field="query", limit=101_376)
    assert fitted(how, **sizes | {"limits": Limits((8, 0), 166_912)})


@pytest.mark.parametrize(("dtype", "bytes_each"), [("float16", 2), ("bfloat16", 2)])
def test_what_a_tile_takes_is_counted_in_bytes_of_its_dtype(dtype, bytes_each):
    """Of the smallest tile: 16 queries, 16 keys, 16 values, and what the compiler keeps."""
    needed = 3 * 16 * 512 * bytes_each + 7 * 1024
    sizes = {"head_dim": 512, "group": 4, "dtype": dtype}
    limits = Limits((8, 6), needed - 1)
    refused(f"takes {needed:,} bytes", fitted, FAST_ELSEWHERE, options={**sizes, "limits": limits})
    assert fitted(FAST_ELSEWHERE, **sizes, limits=Limits((8, 6), needed))


def test_tiles_that_fit_a_model():
    wide = fitted(FAST, head_dim=256, group=4, dtype="float16")
    assert (wide.prefill.block_m, wide.prefill.block_n) == (64, 32)
    deep = [fitted(one, head_dim=512, group=4, dtype="float16").prefill for one in (FAST, BITWISE)]
    assert [(one.block_m, one.block_n) for one in deep] == [(32, 32), (32, 16)]
    many = fitted(FAST, head_dim=64, group=71, dtype="float16")
    assert many.decode.block_m == many.prefill.block_m == 128
    assert fitted(FAST, head_dim=128, group=4, dtype="bfloat16") == FAST
    float32 = fitted(FAST, head_dim=128, group=4, dtype="float32")
    assert (float32.prefill.block_m, float32.prefill.block_n) == (32, 16)
    as_given = replace(FAST, as_given=True)
    assert fitted(as_given, head_dim=256, group=4, dtype="float32") == as_given


def test_tiles_that_fit_a_device():
    for capability, wide in (((9, 0), True), ((10, 0), True), ((8, 0), False), (None, False)):
        assert (shipped(bitwise=False, capability=capability) == FAST) == wide
        hopper = capability == (9, 0)
        assert (shipped(bitwise=True, capability=capability) == BITWISE) == hopper


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_pipelines_fit_a_device(head_dim, dtype):
    small, large = Limits((8, 6), 99 * 1024), Limits((9, 0), 227 * 1024)
    sizes = {"head_dim": head_dim, "group": 4, "dtype": dtype}
    for settings in (FAST, BITWISE):
        few, many = (fitted(settings, **sizes, limits=limits) for limits in (small, large))
        for tile in (few.prefill, few.decode, many.prefill, many.decode):
            assert tile.num_stages >= 3
        assert fitted(few, **sizes, limits=small) == few
        assert fitted(many, **sizes, limits=large) == many
        assert few.prefill.num_stages <= many.prefill.num_stages
        assert few.prefill.block_n <= many.prefill.block_n
    item = 4 if dtype == "float32" else 2
    tile = fitted(FAST, **sizes, limits=small).decode
    assert 2 * 2 * tile.block_n * head_dim * item < small.shared_bytes


def test_an_output_may_be_part_of_a_larger_tensor():
    for whole in (torch.zeros(4, 9, 16), torch.zeros(9, 4, 32)):
        part = whole.to(DEVICE)[-4:, -4:, -16:]
        assert torch.equal(attend(out=part), attend())


@pytest.mark.parametrize(
    ("strides", "fits"),
    [((32, 16, 1), True), ((16, 32, 1), True), ((32, 15, 1), False), ((31, 16, 1), False),
     ((32, 0, 1), False), ((0, 16, 1), False)],
)  # fmt: skip
def test_no_two_elements_of_an_output_may_share_a_place(strides, fits):
    case = Case(requests((5, 2), heads=2), 16)
    out = torch.zeros(99, device=DEVICE).as_strided((2, 2, 16), strides)
    arguments = (case.query, case.cache, case.batch)
    if fits:
        assert torch.equal(paged_attention(*arguments, out=out), case.attend())
    else:
        expected = {"field": "out", "given": strides}
        refused("in one place", paged_attention, *arguments, options={"out": out}, **expected)


def test_nothing_is_written_by_a_refused_call():
    out = torch.full_like(CASE.query, 7.0)
    refused("finite", attend, options={"out": out, "scale": float("inf")}, field="scale")
    assert (out == 7.0).all()
    assert out.device.type == DEVICE


@pytest.mark.parametrize(
    ("mod", "line"),
    [
        (mods.if_mask, "if q > 3:"),
        (mods.chained_mask, "return 0 <= key <= query"),
        (mods.renamed_mask, "if far > 3:"),
        (mods.added_mask, "return key <= query if far else key < query"),
        (mods.assert_mask, "assert key <= query"),
        (mods.min_mask, "return min(query, key) == key"),
        (mods.in_mask, "return key in (0, query)"),
    ],
)
def test_a_mask_that_decides_in_python_is_shown_its_line(mod, line):
    mask = Mask("python", mod, masks.causal().torch_mask_mod)
    expected = {"field": "mask", "given": line}
    refused("(?s)whole tiles.*tl.where.*Example", attend, options={"mask": mask}, **expected)
    with pytest.raises(PagedFlexError) as caught:
        attend(mask=mask)
    number = caught.value.index
    assert Path(mods.__file__).read_text(encoding="utf-8").splitlines()[number - 1].strip() == line


@pytest.mark.parametrize("mod", [mods.float_mask, mods.int_mask])
def test_a_mask_that_returns_numbers_stops_the_launch(mod):
    """Of an integer the lowest bit alone would count."""
    own = Mask("numbers", mod, masks.causal().torch_mask_mod)
    with pytest.raises(TritonError) as caught:
        attend(mask=own)
    said = mask_mod_error(own, caught.value)
    assert "it does not return true or false" in str(said)
    assert (said.field, said.given) == ("mask", "numbers")


def test_a_mask_may_decide_on_its_parameter():
    seen = masks.sliding_window(6).torch_mask_mod
    case = Case(requests((40, 3), (20, 1), heads=4, kv_heads=2), 16)
    case.check(mask=Mask("parameter", mods.scalar_mask, seen, param=5))


def test_a_score_that_decides_in_python_is_shown_its_line():
    score = Score("python", mods.and_score, masks.soft_cap(1.0).torch_score_mod)
    refused("key < query and key > 3", attend, options={"score": score}, field="score")


@pytest.mark.parametrize(
    ("capability", "taken"), [((8, 0), False), ((8, 6), False), ((8, 9), True), ((9, 0), True)]
)
def test_8_bit_floats_need_a_device_that_converts_them(monkeypatch, capability, taken):
    monkeypatch.setattr(plan, "limits_of", lambda _device: Limits(capability, 99 * 1024))
    cache = CASE.cache.nan_to_num(0.0).to(torch.float8_e4m3fn)
    query = CASE.query.to(torch.float16)
    if taken:
        assert plan.plan_attention(CASE.batch, query, cache, settings=FAST_ELSEWHERE)
    else:
        expected = {"field": "kv_cache", "given": capability, "limit": (8, 9)}
        refused(
            "float8_e4m3fn, which devices",
            plan.plan_attention,
            CASE.batch,
            query,
            cache,
            **expected,
        )


def test_sizes_of_a_batch_are_numbers_of_32_bits():
    most = 2**31 - 1
    assert batch(num_blocks=most).num_blocks == most
    refused("0..2147483647", batch, options={"num_blocks": most + 1}, limit=most)
    assert batch(entry_tokens=most, lengths=(40, 16)).entry_tokens == most
    refused("1..2147483647", batch, options={"entry_tokens": most + 1}, limit=most)
    lengths = (most - 1, 16)
    assert batch(entry_tokens=most, lengths=lengths).seq_lens.tolist() == [*lengths]
    expected = {"field": "seq_lens", "limit": most}
    refused("allowed", batch, options={"entry_tokens": most, "lengths": (most, 16)}, **expected)


def test_the_smallest_caches_are_taken():
    """Blocks of one token, and a single block."""
    Case(requests((5, 2), heads=2), 1).check()
    one = Case(requests((5, 2), heads=2), 16)
    block = int(one.paged.batch.block_table[one.paged.batch.rows[0], 0])
    single = paged_batch([0, 2], [5], np.zeros((1, 1), int), num_blocks=1, entry_tokens=16)
    found = paged_attention(one.query, one.cache[block : block + 1], single)
    torch.testing.assert_close(found, one.attend())


def test_an_axis_of_one_may_have_any_stride():
    case = Case(requests((40, 3), heads=1), 16)
    out = torch.zeros(3 * 16, device=DEVICE).as_strided((3, 1, 16), (16, 0, 1))
    found = paged_attention(case.query, case.cache, case.batch, out=out)
    assert found is out
    torch.testing.assert_close(found, case.attend())


def test_a_cache_without_a_token_is_refused():
    in_rows = torch.zeros(3, 16, 2, 32, device=DEVICE)
    for cache in (CASE.cache[:0], CASE.cache[:, :, :0], in_rows[:0], in_rows[:, :0]):
        expected = {"field": "kv_cache", "given": tuple(cache.shape), "limit": 1}
        refused("at least one block of one token", attend, options={"kv_cache": cache}, **expected)
