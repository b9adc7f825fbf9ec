"""Groups, tensors, blocks and capacity: vLLM's answers, worked numbers, and what must hold."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.catalog import distinct_models, short_length
from tests.core.conformance import scenario_values
from tests.core.strategies import scenarios
from tests.groups import in_groups
from tests.models.configs import gemma3
from tests.recorded import recorded
from workbench.core.capacity.blocks import blocks_in_group, tokens_in_flight
from workbench.core.capacity.occupancy import request_blocks, requests_that_fit, waste
from workbench.core.groups.cache_spec import CacheSpec
from workbench.core.groups.decision import group_layers
from workbench.core.groups.layer_classes import layer_classes
from workbench.core.groups.unification import PagesNotUnifiableError
from workbench.core.model import Layer
from workbench.models import load_model

GIB = 2**30


CASES = recorded("cache_plans")


@in_groups
@pytest.mark.parametrize("number", range(len(CASES)))
def test_groups_and_tensors_are_vllms(number):
    case = CASES[number]
    values = scenario_values({"rules": "0.23", **case})
    values["kv_cache_memory_bytes"] = case["input"]["available_memory"]
    plan = wb.resolve(**values).to_dict()
    expected = case["output"]
    assert plan["num_blocks"] == expected["num_blocks"]
    assert plan["tensors"] == expected["tensors"]
    assert [
        (group["spec"], group["block_size"], group["page_size_bytes"], group["layer_names"])
        for group in plan["groups"]
    ] == [
        (group["spec"], group["block_size"], group["page_size_bytes"], group["layer_names"])
        for group in expected["groups"]
    ]


WORKED = {
    "qwen3.5-4b none": ("qwen3.5-4b", "none", 32768, 0, (1241, 66, "18.80", 616_137)),
    "qwen3.5-4b align": ("qwen3.5-4b", "align", 32768, 0, (1241, 69, "17.99", 589_349)),
    "nemotron none": ("nemotron-3-nano-30b-a3b", "none", 32768, 0, (1667, 20, "83.35", 2_731_212)),
    "nemotron align": (
        "nemotron-3-nano-30b-a3b", "align", 32768, 0, (1667, 24, "69.46", 2_276_010),
    ),
    "qwen3-next": ("qwen3-next-80b-a3b", "align", 262144, 0, (1606, 488, "3.29", 862_711)),
    "kimi": ("kimi-linear-48b-a3b", "align", 131072, 0, (1387, 75, "18.49", 2_423_958)),
}  # fmt: skip


@pytest.mark.parametrize("name", WORKED)
def test_worked_numbers_for_20_gib(name):
    model, mode, length, drafts, (blocks, per_request, concurrency, tokens) = WORKED[name]
    plan = wb.resolve(
        model=model,
        backend="FLASHMLA" if model.startswith("kimi") else None,
        enable_prefix_caching=mode != "none",
        mamba_cache_mode=None if mode == "none" else mode,
        max_model_len=length,
        num_speculative_tokens=drafts,
        max_num_batched_tokens=8192,
        kv_cache_memory_bytes=20 * GIB,
    )
    assert (plan.cache.num_blocks, plan.cache.blocks_per_request) == (blocks, per_request)
    assert f"{plan.cache.max_concurrency:.2f}" == concurrency
    assert plan.cache.printed_tokens == tokens
    assert f"GPU KV cache size: {tokens:,} tokens" in plan.log_lines


def test_nemotron_on_four_ranks_for_20_gib():
    plan = wb.resolve(
        model="nemotron-3-nano-30b-a3b",
        tensor_parallel=4,
        enable_prefix_caching=True,
        mamba_cache_mode="align",
        max_model_len=32768,
        max_num_batched_tokens=8192,
        kv_cache_memory_bytes=20 * GIB,
    )
    assert (plan.block_size, plan.cache.num_blocks, plan.cache.blocks_per_request) == (
        1056, 6619, 40,
    )  # fmt: skip
    assert f"{plan.cache.max_concurrency:.2f}" == "165.47"
    assert plan.cache.printed_tokens == 5_422_284


def test_tensors_and_drafts_at_one_block_size():
    """Eight tensors of 1241 pages; three drafts take nine more blocks of the same 528 tokens."""
    cache = wb.resolve(
        model="qwen3.5-4b", max_model_len=32768, kv_cache_memory_bytes=20 * GIB
    ).cache
    assert [tensor.size_bytes for tensor in cache.tensors] == [2_683_895_808] * 8
    with_drafts = replace(cache, printed_blocks=cache.printed_blocks + 3 * 3)
    assert with_drafts.printed_blocks == 75
    assert f"{with_drafts.max_concurrency:.2f}" == "16.55"
    assert with_drafts.printed_tokens == 542_201


def test_drafts_take_a_block_of_every_mamba_group():
    plan = wb.resolve(model="qwen3.5-4b", max_model_len=32768, num_speculative_tokens=3)
    mamba = sum(group.spec.is_mamba for group in plan.cache.groups)
    without = wb.resolve(model="qwen3.5-4b", max_model_len=32768)
    attention = -(-32768 // plan.block_size)
    assert plan.cache.blocks_per_request == attention + 4 * mamba
    assert without.cache.blocks_per_request == -(-32768 // without.block_size) + mamba


def test_padding_layers_are_announced_as_vllm_announces_them():
    plan = wb.resolve(model="nemotron-3-nano-30b-a3b", kv_cache_memory_bytes=20 * GIB)
    assert "Add 1 padding layers, may waste at most 4.35% KV cache memory" in plan.log_lines
    assert [len(group.layers) for group in plan.cache.groups] == [6, 6, 6, 5, 6]


def test_mode_none_makes_the_scheduler_block_enormous():
    plan = wb.resolve(model="qwen3.5-4b", max_model_len=32768)
    assert plan.cache.scheduler_block_size == plan.cache.hash_block_size == 1_081_344


def test_align_hashes_by_the_common_block():
    plan = wb.resolve(model="qwen3.5-4b", enable_prefix_caching=True, mamba_cache_mode="align")
    assert plan.cache.scheduler_block_size == plan.cache.hash_block_size == 528


def test_too_little_memory_names_both_sizes_and_a_length_that_fits():
    plan = wb.resolve(model="qwen3.5-4b", max_model_len=262144, kv_cache_memory_bytes=GIB)
    (problem,) = [p for p in plan.problems if p.code == "not_enough_memory"]
    longest = problem.operands["estimated_max_model_len"]
    assert 0 < longest < 262144
    [shorter] = [one for one in plan.remedies(problem) if "max_model_len" in one.changes]
    assert 0 < shorter.changes["max_model_len"] <= longest
    assert "null_block_not_counted" not in {p.code for p in shorter.plan.problems}
    longer = wb.resolve(model="qwen3.5-4b", max_model_len=longest + 1, kv_cache_memory_bytes=GIB)
    assert "not_enough_memory" in {p.code for p in longer.problems}


def test_no_memory_at_all():
    plan = wb.resolve(model="qwen3.5-4b", max_model_len=4096, kv_cache_memory_bytes_by_rank=(0,))
    assert "no_memory_for_blocks" in {problem.code for problem in plan.problems}


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_an_explicit_size_of_0_is_not_set_except_on_cpus(rules):
    # `if kv_cache_memory_bytes := ...` of the GPU worker, `is not None` of the CPU worker.
    wanted = {"model": "llama-3.1-8b", "rules": rules, "device": "H100"}
    plan, unset = wb.resolve(**wanted, kv_cache_memory_bytes=0), wb.resolve(**wanted)
    assert plan.cache.num_blocks == unset.cache.num_blocks > 0
    assert plan.problems == unset.problems
    on_cpu = wb.resolve(model="llama-3.1-8b", rules=rules, platform="cpu", kv_cache_memory_bytes=0)
    assert "no_memory_for_blocks" in {problem.code for problem in on_cpu.problems}


def test_a_pool_of_exactly_the_needed_blocks_starts_but_is_flagged():
    needed = wb.resolve(model="qwen3.5-4b", max_model_len=32768).cache.needed_bytes
    plan = wb.resolve(
        model="qwen3.5-4b", max_model_len=32768, kv_cache_memory_bytes=needed, max_num_seqs=8
    )
    assert [problem.code for problem in plan.problems] == ["null_block_not_counted"]
    assert plan.errors == ()
    assert plan.remedies(plan.problems[0])


def test_an_override_counts_blocks_without_any_memory():
    plan = wb.resolve(model="qwen3.5-4b", max_model_len=4096, num_gpu_blocks_override=100)
    assert plan.cache.num_blocks == 100


def test_pages_that_cannot_be_equal_give_no_groups():
    plan = wb.resolve(
        model="nemotron-3-nano-30b-a3b",
        platform="xpu",
        tensor_parallel=4,
        rules="before-37467",
        kv_cache_memory_bytes=GIB,
    )
    assert plan.cache is None
    assert plan.to_dict()["groups"] is None


SPEC = CacheSpec("FullAttentionSpec", 16, 1024)


def test_a_small_attention_page_is_enlarged():
    grouping = group_layers({"a": SPEC, "b": CacheSpec("MambaSpec", 64, 4096)})
    assert [group.spec.block_size for group in grouping.groups] == [64, 64]


@pytest.mark.parametrize("page", [1536, 3000])
def test_pages_that_do_not_divide_are_refused(page):
    with pytest.raises(PagesNotUnifiableError, match="does not divide"):
        group_layers({"a": SPEC, "b": CacheSpec("MambaSpec", 64, page)})


def test_a_mamba_page_does_not_grow():
    with pytest.raises(PagesNotUnifiableError, match="does not grow"):
        group_layers({"a": CacheSpec("MambaSpec", 64, 512), "b": SPEC})


@given(
    sizes=st.lists(st.integers(1, 40), min_size=2, max_size=4),
    interleave=st.randoms(use_true_random=False),
)
def test_every_layer_is_in_one_slot_of_one_group(sizes, interleave):
    names = [(kind, f"{kind}.{i}") for kind, count in enumerate(sizes) for i in range(count)]
    interleave.shuffle(names)
    specs = {name: CacheSpec(f"Spec{kind}", 16, 1024) for kind, name in names}
    grouping = group_layers(specs)
    placed = [layer for group in grouping.groups for layer in group.layers]
    assert sorted(placed) == sorted(specs)
    assert all(len(group.layers) <= grouping.group_size for group in grouping.groups)
    shared = [layer for tensor in grouping.tensors(3) for layer in tensor.shared_by]
    assert sorted(shared) == sorted(specs)
    for tensor in grouping.tensors(3):
        owners = [group for group in grouping.groups if set(group.layers) & set(tensor.shared_by)]
        assert len(owners) == len(tensor.shared_by)


@given(scenario=scenarios(), memory=st.integers(1, 64 * GIB), prompt=st.integers(1, 4096))
def test_blocks_fill_the_memory_and_waste_adds_up(scenario, memory, prompt):
    try:
        plan = wb.resolve(scenario.replace(kv_cache_memory_bytes=memory))
    except wb.WorkbenchError:
        return
    cache = plan.cache
    if cache is None:
        return
    prompt = min(prompt, plan.max_model_len)
    per_block = cache.grouping.bytes_per_block
    assert cache.num_blocks * per_block <= memory < (cache.num_blocks + 1) * per_block
    parts = waste(plan, cache, prompt)
    assert sum(parts.parts.values()) == parts.reserved_bytes
    assert min(parts.parts.values()) >= 0
    more = wb.resolve(scenario.replace(kv_cache_memory_bytes=2 * memory)).cache
    assert more.num_blocks >= cache.num_blocks
    assert requests_that_fit(plan, more, prompt) >= requests_that_fit(plan, cache, prompt)


KV, STATE, BLOCK = 8 * 4096, 3 * 8 * 2_146_304, 17_301_504
"""qwen3.5-4b: one token of attention, the states of one request, one block of 528 tokens."""
DRAFT_STATE, DRAFT_BLOCK = 3 * 8 * 2_195_456, 17_825_792
"""The same with three drafts, which widen the convolution: blocks of 544 tokens."""
PARTS = {
    "none": (
        {},
        {
            "used": 600 * KV + STATE,
            "internal fragmentation": (2 * 528 - 600) * KV,
            "mamba padding": 3 * 8 * 16_384,
        },
        5 * BLOCK,
    ),
    "align": (
        {"enable_prefix_caching": True, "mamba_cache_mode": "align"},
        {
            "used": 600 * KV + STATE,
            "internal fragmentation": (2 * 528 - 600) * KV,
            "mamba padding": 2 * 3 * 8 * 16_384,
            "checkpoint": STATE,
        },
        8 * BLOCK,
    ),
    "drafts": (
        {"num_speculative_tokens": 3, "speculative_method": "ngram"},
        {
            "used": 600 * KV + DRAFT_STATE,
            "internal fragmentation": (2 * 544 - 600) * KV,
            "mamba padding": 4 * 3 * 8 * 32_768,
            "speculative blocks": 3 * DRAFT_STATE,
        },
        14 * DRAFT_BLOCK,
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_the_bytes_of_one_request_by_hand(name):
    fields, parts, reserved = PARTS[name]
    plan = wb.resolve(
        model="qwen3.5-4b", max_model_len=32768, kv_cache_memory_bytes=20 * GIB, **fields
    )
    found = waste(plan, plan.cache, 600)
    assert {part: size for part, size in found.parts.items() if size} == parts
    assert found.reserved_bytes == sum(parts.values()) == reserved


@pytest.mark.parametrize(("mode", "tokens", "blocks"), [("none", 600, 5), ("align", 600, 8)])
def test_the_null_block_holds_no_request(mode, tokens, blocks):
    """2 attention blocks, and 1 or 2 of each of three mamba groups; one block is unused."""
    caching = {} if mode == "none" else {"enable_prefix_caching": True, "mamba_cache_mode": mode}
    for pool, fits in ((3 * blocks, 2), (3 * blocks + 1, 3)):
        plan = wb.resolve(
            model="qwen3.5-4b", max_model_len=4096, num_gpu_blocks_override=pool, **caching
        )
        assert plan.cache.num_blocks == pool
        assert requests_that_fit(plan, plan.cache, tokens) == fits


@given(scenario=scenarios(), length=st.integers(16, 2048))
def test_a_longer_request_never_fits_more_often(scenario, length):
    try:
        short = wb.resolve(scenario.replace(max_model_len=length, kv_cache_memory_bytes=GIB))
        long = wb.resolve(scenario.replace(max_model_len=2 * length, kv_cache_memory_bytes=GIB))
    except wb.WorkbenchError:
        return
    if short.cache is None or long.cache is None:
        return
    assert long.cache.blocks_per_request >= short.cache.blocks_per_request
    if short.cache.max_concurrency is not None and long.cache.max_concurrency is not None:
        assert long.cache.max_concurrency <= short.cache.max_concurrency


@pytest.mark.parametrize("model", distinct_models())
def test_every_catalog_model_gets_a_cache(model):
    plan = wb.resolve(model=model, max_model_len=short_length(model), kv_cache_memory_bytes=8 * GIB)
    assert plan.cache.num_blocks > 0
    names = [name for group in plan.cache.groups for name in group.layers]
    assert len(names) == len(set(names))
    assert sum("indexer" not in name for name in names) == len(plan.model.layers)


def test_a_length_that_was_fitted_to_the_memory_is_that_of_the_cache():
    plan = wb.resolve(model="jamba-1.5-mini", max_model_len=-1, kv_cache_memory_bytes=2 * GIB)
    assert plan.max_model_len < plan.model.derived_max_model_len
    assert plan.cache.max_model_len == plan.max_model_len


@pytest.mark.parametrize("name", distinct_models())
def test_identical_layers_are_listed_once_and_none_is_lost(name):
    layers = load_model(name).layers
    classes = layer_classes(layers, frozenset())
    assert classes is layer_classes(tuple(Layer(*layer) for layer in layers), frozenset())
    assert len(set(classes.names)) == len(layers)
    examples = [classes.kinds[kind][0] for kind in classes.kind_of_layer]
    assert [layer._replace(number=0) for layer in examples] == [
        layer._replace(number=0) for layer in layers
    ]
    assert len(classes.kinds) == len({layer[1:] for layer in layers})
    first = frozenset({layers[0].number})
    apart = layer_classes(layers, first)
    assert [apart.kinds[kind][1] for kind in apart.kind_of_layer] == [
        layer.number in first for layer in layers
    ]


@pytest.mark.parametrize(("platform", "batches"), [("cuda", 2), ("cpu", 1)])
def test_a_window_holds_the_steps_that_overlap(platform, batches):
    """0.33 counts one more step than the running one, but on a CPU, where steps do not overlap."""
    config = gemma3(layer_types=["sliding_attention"] * 5 + ["full_attention"], hidden_size=4096)
    plan = wb.resolve(
        model=config,
        rules="0.33",
        platform=platform,
        block_size=64,
        max_model_len=65536,
        max_num_batched_tokens=2048,
    )
    sliding = next(group for group in plan.cache.groups if group.spec.window_tokens)
    held = 1023 + batches * 2048
    assert blocks_in_group(plan, sliding, 65536) == -(-held // sliding.spec.block_size) + 1


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
@pytest.mark.parametrize("model", ["gpt-oss-20b", "gemma-3-27b"])
def test_a_long_request_takes_of_a_window_what_vllm_reserves(model, rules):
    """`max_memory_usage_bytes` of SlidingWindowSpec: the window, a step, and one block more."""
    plan = wb.resolve(model=model, rules=rules, max_model_len=65536, kv_cache_memory_bytes=2**36)
    windows = [one for one in plan.cache.groups if one.spec.kind == "SlidingWindowSpec"]
    assert windows
    for group in windows:
        tokens = group.spec.window_tokens - 1 + tokens_in_flight(plan)
        most = -(-tokens // group.spec.block_size) + 1
        assert request_blocks(plan, group, 65536) == most
        assert request_blocks(plan, group, 1) == 1


@pytest.mark.parametrize("platform", ["cuda", "rocm", "xpu"])
def test_0_33_prints_the_pool_in_one_line_that_names_the_device(platform):
    fields = {"model": "llama-3.1-8b", "platform": platform, "kv_cache_memory_bytes": 2**36}
    old, new = (wb.resolve(**fields, rules=rules) for rules in ("0.23", "0.33"))
    (size,) = (one for one in old.log_lines if "KV cache size" in one)
    assert size.startswith("GPU KV cache size: ")
    assert "Maximum concurrency" not in size
    (joined,) = (one for one in new.log_lines if "KV cache size" in one)
    device = "XPU" if platform == "xpu" else "GPU"
    assert joined.startswith(f"{device} KV cache size: ")
    assert ", Maximum concurrency for" in joined


def test_a_pool_of_another_size_keeps_every_other_value():
    of_its_size = {"available_bytes", "num_blocks", "room_blocks", "rank_bytes"}
    cache = wb.resolve(kv_cache_memory_bytes=GIB).cache
    kept = {one.name for one in fields(cache)} - of_its_size - {"grouping", "stages"}
    sized = replace(cache, **{name: name for name in kept}).sized((2 * GIB,))
    assert {name: getattr(sized, name) for name in kept} == {name: name for name in kept}
    assert sized.rank_bytes == (2 * GIB,)
    assert sized.grouping is cache.grouping
