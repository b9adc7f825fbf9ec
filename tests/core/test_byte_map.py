"""The byte map of real plans: L1 to L6 over backends, models, tensor parallelism and dtypes."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.catalog import distinct_models, short_length
from tests.core.strategies import HYBRID, scenarios
from workbench.core.byte_map.of_plan import byte_map
from workbench.core.errors import WorkbenchError
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.hybrid_rewrite import NEVER
from workbench.core.layouts.view import joined
from workbench.models import catalog_config

SAMPLES = 12


def all_layers(pool):
    """Every layer of the map."""
    return [group for tensor in pool.tensors for group in tensor.groups]


def mapped(scenario, **options):
    """The byte map, or None where vLLM would not get so far."""
    try:
        return byte_map(wb.resolve(scenario), **options)
    except WorkbenchError:
        return None


def holds(pool, layer, ranges, address):
    """Whether the byte at `address` (of the allocation, or of the tensor) is in these ranges.

    Pages may be in pieces there, so ranges are cut where a page or a piece of it ends.
    """
    place = pool.places.get(layer)
    size = pool.layers[layer][0].page_bytes // (place.where.pieces if place else 1)
    for piece in ranges:
        cuts = [piece.start, *range((piece.start // size + 1) * size, piece.stop, size), piece.stop]
        for first, last in pairwise(cuts):
            start = pool.address(layer, first)
            if start <= address < start + last - first:
                return True
    return False


def assert_round_trip(pool, tensor, byte):
    """`bytes_of` what `at` says holds the byte, and no more than the value's bytes."""
    found = pool.at(tensor, byte)
    assert (found.page, found.page_byte) == divmod(byte, pool.tensors[tensor].page_bytes)
    address = pool.address(pool.tensors[tensor].groups[0].layer, byte)
    for meaning in found.meanings:
        group, own = pool.layers[meaning.layer]
        assert own == tensor or pool.places
        where = {"layer": meaning.layer, "block": meaning.block, "part": meaning.part}
        if not meaning.is_padding:
            where |= {
                "kernel_block": meaning.kernel_block,
                "token": meaning.kernel_token,
                "head": meaning.head,
                "value": meaning.value,
            }
        elif meaning.value is not None:
            continue  # the odd byte of a packed slot: padding inside a token
        ranges = pool.bytes_of(**where)
        assert holds(pool, meaning.layer, ranges, address), (byte, meaning, ranges)
        if not meaning.is_padding:
            bits = next(part.bits for part in group.parts if part.name == meaning.part)
            assert sum(map(len, ranges)) <= max(2, bits // 8)


@given(
    scenario=scenarios(),
    blocks=st.integers(1, 4),
    runner=st.sampled_from(["v1", "v2"]),
    layout=st.sampled_from([None, "NHD", "HND"]),
    seed=st.integers(0, 2**16),
)
def test_any_byte_of_any_plan_and_back(scenario, blocks, runner, layout, seed):
    """L3 and L5 on real sizes."""
    pool = mapped(scenario, num_blocks=blocks, runner=runner, layout=layout)
    if pool is None:
        return
    pick = random.Random(seed)
    hybrid = len({group.is_state for group, _tensor in pool.layers.values()}) == 2
    for _ in range(SAMPLES):
        tensor = pick.randrange(len(pool.tensors))
        byte = pick.randrange(pool.tensors[tensor].raw_bytes)
        assert_round_trip(pool, tensor, byte)
        if hybrid:
            assert not any(meaning.is_misplaced for meaning in pool.at(tensor, byte).meanings)


@given(scenario=scenarios(HYBRID), blocks=st.integers(1, 3))
def test_parts_and_padding_fill_every_page(scenario, blocks):
    """L1 and L2: the parts of a block never meet, and nothing is missing."""
    pool = mapped(scenario, num_blocks=blocks)
    if pool is not None:
        assert_pages_are_filled(pool)


def assert_pages_are_filled(pool):
    """Parts and padding of every kind of layer: disjoint, and every page is covered.

    A cache with K and V outermost that no state shares covers its tensor, but not page by page.
    """
    for group in {(group.parts, group.is_state): group for group in all_layers(pool)}.values():
        own_pages, found = not pool.misplaced_bytes, []
        for block in range(pool.num_blocks):
            names = [part.name for part in group.parts if part.name != "padding"]
            pieces = [piece for name in names for piece in group.ranges(block, part=name)]
            pieces += [*group.padding(block)]
            found += pieces
            if any(part.name == "padding" for part in group.parts):
                pieces += group.ranges(block, part="padding")
            pieces.sort(key=lambda piece: piece.start)
            assert all(one.stop <= other.start for one, other in pairwise(pieces))
            page = range(block * group.page_bytes, (block + 1) * group.page_bytes)
            assert not own_pages or joined(pieces) == (page,)
        assert own_pages or joined(found) == (range(group.raw_bytes),)


@given(scenario=scenarios(HYBRID), seed=st.integers(0, 2**16))
def test_tokens_of_kernel_blocks_are_tokens_of_the_block(scenario, seed):
    """L4."""
    pool = mapped(scenario, num_blocks=2)
    if pool is None:
        return
    pick = random.Random(seed)
    for group in pool.tensors[0].groups:
        if group.is_state:
            continue
        kernel, token = pick.randrange(group.kernel_blocks), pick.randrange(group.kernel_tokens)
        layer = {"layer": group.layer, "block": 1}
        whole = pool.bytes_of(**layer, token=kernel * group.kernel_tokens + token)
        assert whole == pool.bytes_of(**layer, kernel_block=kernel, token=token)


@given(scenario=scenarios(memory=True))
def test_the_pool_uses_the_memory_up(scenario):
    """L6: blocks x page <= memory < (blocks + 1) x page, over all tensors."""
    plan = None
    try:
        plan = wb.resolve(scenario)
    except WorkbenchError:
        return
    if plan.cache is None or plan.settings.num_gpu_blocks_override is not None:
        return
    available = plan.cache.available_bytes
    if not available:
        return
    pool = mapped(scenario)
    if pool is None:
        return
    one = plan.cache.grouping.bytes_per_block
    if plan.cache.grouping.layout is None:
        assert sum(tensor.page_bytes for tensor in pool.tensors) == one
        sizes = [tensor.size_bytes for tensor in plan.cache.tensors]
        assert [tensor.raw_bytes for tensor in pool.tensors] == sizes
    assert pool.num_blocks * one <= available < (pool.num_blocks + 1) * one


@pytest.mark.parametrize("model", distinct_models())
def test_every_catalog_model_byte_by_byte_in_places(model):
    pool = byte_map(wb.resolve(model=model, max_model_len=short_length(model)), num_blocks=3)
    for tensor in {0, len(pool.tensors) - 1}:
        page = pool.tensors[tensor].page_bytes
        for byte in (0, 1, page - 1, page, page + page // 2, 2 * page - 1, 3 * page - 1):
            assert_round_trip(pool, tensor, byte)


def test_groups_share_tensors_layer_by_layer():
    pool = byte_map(wb.resolve(model="gpt-oss-20b"), num_blocks=2)
    kinds = [group.kind for group in pool.tensors[0].groups]
    assert kinds == ["SlidingWindowSpec", "FullAttentionSpec"]
    found = pool.at(3, 5)
    layers = [meaning.layer for meaning in found.meanings]
    assert layers == ["model.layers.6.attn", "model.layers.7.attn"]
    assert found.of_group(1).layer == "model.layers.7.attn"


@pytest.mark.parametrize("backend", [None, "ROCM_FLASHMLA_SPARSE_DSV4"])
def test_no_byte_has_a_meaning_where_no_backend_takes_the_drafter(backend):
    head = catalog_config("llama-3.1-8b") | {"num_hidden_layers": 1, "vocab_size": 129280}
    drafts = {"speculative_method": "eagle", "draft_model": head, "num_speculative_tokens": 2}
    target = {"model": "deepseek-v4-flash", "platform": "rocm", "backend": backend}
    plan = wb.resolve(rules="0.33", tensor_parallel=4, **target, **drafts)
    with pytest.raises(LayoutError, match="the layers of the drafter") as caught:
        plan.byte_map(num_blocks=2)
    assert caught.value.code == "draft_backend_not_valid"


def test_a_padding_layer_has_no_bytes():
    plan = wb.resolve(model="bamba-9b")
    pool = byte_map(plan, num_blocks=2)
    short = next(n for n, group in enumerate(plan.cache.groups) if group.padding_layers)
    last = pool.at(len(pool.tensors) - 1, 0)
    assert short not in {meaning.group for meaning in last.meanings}


def test_the_paged_order_of_rocm():
    """vLLM cuts K of a block as [head, 16 bytes, token], and V as [head, element, token]."""
    scenario = wb.Scenario(model="bamba-9b", platform="rocm", backend="ROCM_ATTN")
    pool = byte_map(wb.resolve(scenario), num_blocks=2)
    layer = next(name for name in pool.layers if name.endswith("attn"))
    key = pool.bytes_of(layer=layer, block=0, part="K", token=1, head=0)
    assert key[:2] == (range(16, 32), range(528 * 16 + 16, 528 * 16 + 32))
    value = pool.bytes_of(layer=layer, block=0, part="V", token=1, head=0)
    assert [len(piece) for piece in value] == [2] * 128
    assert value[1].start - value[0].start == 528 * 2


def test_without_the_rewrite_blocks_are_misplaced():
    scenario = wb.Scenario(model="bamba-9b", platform="rocm", backend="ROCM_ATTN")
    plan = wb.resolve(scenario)
    right, wrong = (byte_map(plan, num_blocks=3, rule=rule) for rule in (None, NEVER))
    tensor = wrong.tensors[0]
    assert right.misplaced_bytes == 0
    assert tensor.misplaced_bytes == 2 * tensor.raw_bytes // 3
    assert wrong.misplaced_bytes == tensor.misplaced_bytes * len(wrong.tensors)
    byte = tensor.page_bytes // 2
    meaning = wrong.at(0, byte).meanings[-1]
    assert (meaning.part, meaning.block, meaning.page, meaning.is_misplaced) == ("K", 1, 0, True)


WRONG = {
    "layer": ({"layer": "model.layers.3.att", "block": 0}, "model.layers.3.attn"),
    "block": ({"layer": "model.layers.3.attn", "block": 3}, "Nearest valid: 2"),
    "kernel block": (
        {"layer": "model.layers.3.attn", "block": 0, "kernel_block": 99},
        "Nearest valid: 32",
    ),
    "part": ({"layer": "model.layers.3.attn", "block": 0, "part": "conv"}, "Allowed: K, V"),
    "token": ({"layer": "model.layers.3.attn", "block": 0, "token": 528}, "Nearest valid: 527"),
    "head": ({"layer": "model.layers.3.attn", "block": 0, "head": 4}, "4"),
    "value": ({"layer": "model.layers.3.attn", "block": 0, "value": 256}, "Nearest valid: 255"),
    "no tokens": ({"layer": "model.layers.0.mixer", "block": 0, "token": 0}, "keeps a state"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_exist_is_an_error(case):
    pool = byte_map(wb.resolve(model="qwen3.5-4b"), num_blocks=3)
    where, says = WRONG[case]
    with pytest.raises(LayoutError, match=says):
        pool.bytes_of(**where)


@pytest.mark.parametrize(("tensor", "byte"), [(8, 0), (-1, 0), (0, -1), (0, 10**12), (0, True)])
def test_bytes_that_do_not_exist(tensor, byte):
    pool = byte_map(wb.resolve(model="qwen3.5-4b"), num_blocks=3)
    with pytest.raises(LayoutError, match="Nearest valid"):
        pool.at(tensor, byte)


def test_an_unknown_pool_size_is_an_error():
    with pytest.raises(LayoutError, match="Pass num_blocks"):
        byte_map(wb.resolve(model="qwen3.5-4b"))
    known = wb.Scenario(model="qwen3.5-4b", kv_cache_memory_bytes=2**30)
    assert byte_map(wb.resolve(known)).num_blocks == wb.resolve(known).cache.num_blocks
