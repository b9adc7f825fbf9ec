"""Rules at the value where their answer changes: on either side, with what removes a problem."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench.core.arithmetic import GIB
from workbench.core.capacity.occupancy import request_blocks
from workbench.core.capacity.separate_pools import separate_pools
from workbench.core.chunks.answer import FACTORS
from workbench.core.errors import Refused, ScenarioError
from workbench.core.flex.batch import MAX_WORK, paged_batch
from workbench.core.layer_query import LayerQuery
from workbench.core.layouts.view import View, overlaps
from workbench.core.ranks import Split, context_sizes
from workbench.core.tables.batch_grammar import parse_batch
from workbench.core.versions.v0_33.flash_attention import needs_newer_version
from workbench.core.weights import Part
from workbench.core.what_if.answers import answers
from workbench.core.what_if.next_steps import next_step, next_steps, single_changes
from workbench.models import catalog_config

DRAFTS = "num_speculative_tokens"


def codes(**values):
    return {problem.code for problem in wb.resolve(**values).problems}


def test_only_methods_that_draft_in_the_same_step_fill_it():
    step = {"num_speculative_tokens": 2, "max_num_batched_tokens": 1024, "max_num_seqs": 1024}
    assert "no_tokens_left_by_drafts" not in codes(
        model="llama-3.1-8b", speculative_method="ngram", **step
    )


@pytest.mark.parametrize("platform", ["cuda", "rocm"])
def test_a_compressed_drafter_that_no_backend_takes_is_refused(platform):
    """The cache of the target cannot be bfloat16 either: both are refused."""
    fields = {"model": "deepseek-v4-flash", "kv_cache_dtype": "bfloat16", "platform": platform}
    assert {"no_valid_backend", "draft_backend_not_valid"} <= codes(
        speculative_method="mtp", num_speculative_tokens=1, **fields
    )


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_the_memory_that_is_enough_includes_the_null_block(rules):
    values = {"model": "llama-3.1-8b", "rules": rules, "max_model_len": 8192}
    cache = wb.resolve(kv_cache_memory_bytes=2**30, **values).cache
    starts = cache.needed_bytes + cache.held_back_bytes
    short = wb.resolve(kv_cache_memory_bytes=starts - 1, **values)
    [problem] = [one for one in short.problems if one.code == "not_enough_memory"]
    changes = [remedy.changes for remedy in short.remedies(problem)]
    enough = cache.needed_bytes + cache.grouping.bytes_per_block
    assert {"kv_cache_memory_bytes": enough} in changes
    assert "null_block_not_counted" not in codes(kv_cache_memory_bytes=enough, **values)
    assert not wb.resolve(kv_cache_memory_bytes=starts, **values).errors


def test_without_mtp_layers_no_drafts_are_a_way_out():
    with pytest.raises(Refused) as caught:
        wb.resolve(model="llama-3.1-8b", speculative_method="mtp", num_speculative_tokens=1)
    assert {"num_speculative_tokens": 0} in caught.value.candidates


def test_a_pool_without_memory_is_not_split():
    empty = wb.resolve(model="qwen3.5-4b", kv_cache_memory_bytes_by_rank=(0,))
    assert empty.cache.available_bytes == 0
    assert separate_pools(empty, 1000) is None


def test_the_longest_sequence_of_a_batch_is_that_of_32_bits():
    assert parse_batch("q2147483647")[0].sequence_tokens == 2**31 - 1
    with pytest.raises(ScenarioError, match="up to 2,147,483,647"):
        parse_batch("q2147483648")


@pytest.mark.parametrize(
    ("model", "ranks", "sizes"),
    [
        ("llama-3.1-8b", 16, (1, 2)),
        ("gemma-2-2b", 32, (1, 2)),
        ("deepseek-v3", 8, (1, 2, 4, 8)),
        ("qwen3.5-4b", 32, (1, 2, 4)),
    ],
)
def test_ranks_share_tokens_as_far_as_query_heads_divide(model, ranks, sizes):
    assert context_sizes(wb.load_model(model), ranks) == sizes


def test_sequences_without_states_need_no_block_each():
    # 128 blocks hold two requests; the limit of 256 sequences is one of states alone
    plan = wb.resolve(model="llama-3.1-8b", kv_cache_memory_bytes=2**28, max_model_len=1024)
    assert plan.cache.num_blocks < plan.max_num_seqs
    assert plan.memory().starts == "yes"


@pytest.mark.parametrize(
    ("tensor_parallel", "kv_cache_dtype", "backend"),
    [
        (1, "auto", "FLASHMLA_SPARSE"),
        (1, "fp8", "FLASHINFER_MLA_SPARSE"),
        (8, "auto", "FLASHINFER_MLA_SPARSE"),
    ],
)
def test_few_heads_or_fp8_choose_flashinfer_on_sm10x(tensor_parallel, kv_cache_dtype, backend):
    several = {"tensor_parallel": tensor_parallel, "kv_cache_dtype": kv_cache_dtype}
    assert wb.resolve(model="deepseek-v3.2", device="B200", **several).backend == backend


@pytest.mark.parametrize(("strides", "shared"), [((24, 6, 1), False), ((11, 6, 1), True)])
def test_a_stride_that_is_shorter_than_what_is_inside_overlaps(strides, shared):
    view = View(("block", "head", "element"), (2, 2, 6), strides, 0, "uint8")
    assert overlaps(view) == shared


@pytest.mark.parametrize(
    ("values", "returns_lse"),
    [
        ({"model": "llama-3.1-8b", "tensor_parallel": 16, "backend": "FLASHINFER"}, True),
        ({"model": "llama-3.1-8b", "tensor_parallel": 16, "backend": "TRITON_ATTN"}, False),
        ({"model": "deepseek-v3", "tensor_parallel": 8, "device": "B200"}, True),
    ],
)
def test_ranks_of_0_33_join_decodes_by_the_lse_of_their_backend(values, returns_lse):
    found = codes(rules="0.33", decode_context_parallel=2, **values)
    assert ("layers_not_spread" in found) != returns_lse


def test_small_devices_run_few_sequences_offline_too():
    plan = wb.resolve(model="llama-3.1-8b", device_memory_bytes=24 * GIB, entry_point="LLM")
    assert (plan.max_num_batched_tokens, plan.max_num_seqs) == (8192, 256)


def test_a_state_that_fills_its_page_fits():
    drafts = {"num_speculative_tokens": 6, "speculative_method": "ngram", "block_size": 16}
    plan = wb.resolve(model="lfm2-1.2b", rules="0.33", **drafts)
    assert plan.layer_state_bytes == plan.mamba_page_size_padded == 8 * 2048 * 2
    assert plan.errors == ()


def test_only_mode_all_keeps_a_state_for_every_block_of_a_prompt():
    for mode, blocks in (("all", 10), ("align", 2), ("none", 1)):
        caching = {"mamba_cache_mode": mode, "enable_prefix_caching": mode != "none"}
        plan = wb.resolve(model="bamba-9b", kv_cache_memory_bytes=2**35, **caching)
        group = next(one for one in plan.cache.groups if one.spec.is_mamba)
        assert request_blocks(plan, group, 10 * plan.block_size) == blocks


@pytest.mark.parametrize(("model", "has_mtp"), [("qwen3.5-4b", True), ("llama-3.1-8b", False)])
def test_drafts_of_mtp_layers_are_offered_where_a_model_has_such(model, has_mtp):
    """They are tried of every model, as a question about them is answered by the refusal."""
    drafts = {DRAFTS: 1, "speculative_method": "mtp"}
    plan = wb.resolve(model=model, kv_cache_memory_bytes=2**34)
    assert drafts in single_changes(plan)
    assert (drafts in [step.changes for step in next_steps(plan)]) == has_mtp


def test_fewer_ranks_divide_a_tower_more_need_more_devices():
    with pytest.raises(Refused) as caught:  # of 16 heads
        wb.resolve(model="qwen3.5-27b", tensor_parallel=3)
    assert caught.value.candidates == ({"tensor_parallel": 2}, {"tensor_parallel": 1})


@pytest.mark.parametrize("batch", ["q512s8192", "q1s4194304"])
def test_a_picture_takes_as_many_entries_and_blocks_as_it_says(batch):
    [request] = parse_batch(batch)
    assert request.query_tokens * request.sequence_tokens // 16 == MAX_WORK
    assert paged_batch([request], 16).rows
    with pytest.raises(ScenarioError, match="entries"):
        paged_batch(parse_batch(f"{batch}_q1"), 16)


def test_compared_chunks_are_doubled_from_the_smallest():
    assert all(factor in {1, 3, 5} or factor / 2 in FACTORS for factor in FACTORS)
    assert len({*FACTORS}) == len(FACTORS)


def test_the_trace_says_what_a_block_spans():
    ranks = {"tensor_parallel": 16, "decode_context_parallel": 2, "block_size": 32}
    plan = wb.resolve(model="llama-3.1-8b", **ranks)
    step = plan.trace.step("context_parallel")
    assert (step.result, step.operands) == (64, {"block_size": 32, "ranks": 2})


@pytest.mark.parametrize("model", ["llama-3.1-8b", "nemotron-3-nano-30b-a3b"])
def test_blocks_are_the_first_dimension_where_vllm_packs_them(model):
    views = wb.resolve(model=model, rules="0.33").layout(num_blocks=4)
    assert views.block_dim == 0


def test_stages_without_a_layer_are_one_problem_with_a_remedy():
    plan = wb.resolve(model="gpt-oss-20b", pipeline_parallel=92)
    [problem] = plan.problems
    assert "no layer of stage 0 and of 67 more keeps a cache" in problem.message
    assert problem.candidates[0] == {"pipeline_parallel": 24}
    assert plan.remedies(problem)[0].changes == {"pipeline_parallel": 24}


def test_two_experts_are_divided_as_experts_are():
    part = Part("w", ((8, 1),), experts=2)
    assert part.ranks(Split(4, keeps_experts=True)) == 1
    assert part.ranks(Split(4)) == 4


def test_a_step_with_several_gains_serves_the_goal_of_each():
    steps = next_steps(wb.resolve(model="deepseek-v4-flash"))
    [step] = [one for one in steps if dict(one.changes) == {"kv_cache_dtype": "fp8"}]
    assert [gain.measure for gain in step.gains] == ["starts", "hits"]
    served = {goal: step.serves(goal) for goal in ("requests", "hits", "padding", "starts")}
    assert served == {"requests": False, "hits": True, "padding": False, "starts": True}


@pytest.mark.parametrize(("platform", "reads_fp8"), [("cuda", True), ("rocm", False)])
def test_sparse_attention_of_qwen4_reads_fp8_on_nvidia_alone(platform, reads_fp8):
    sparse = {"model": "qwen3.8-flash-next", "rules": "0.33", "platform": platform}
    assert ("backend_not_valid" not in codes(**sparse, kv_cache_dtype="fp8")) == reads_fp8


@pytest.mark.parametrize(
    ("method", "rules", "is_missing"),
    [
        ("compressed-tensors", "0.23", True),
        ("compressed-tensors", "0.33", False),
        ("fp8", "0.23", False),
    ],
)
def test_xpu_has_a_kernel_for_blocks_of_fp8_of_each_method(method, rules, is_missing):
    """But for those of compressed-tensors in 0.23."""
    weights = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}
    described = {
        "compressed-tensors": {
            "config_groups": {"one": {"weights": weights, "targets": ["Linear"]}}
        },
        "fp8": {"weight_block_size": [128, 128]},
    }[method]
    model = {
        **catalog_config("qwen3-8b"),
        "quantization_config": {"quant_method": method, **described},
    }
    assert ("no_weight_kernel" in codes(model=model, platform="xpu", rules=rules)) == is_missing


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("block", [None, [128, 128]])
def test_of_fp8_weights_a_cpu_refuses_blocks_with_float16_alone(dtype, block):
    weights = {"quant_method": "fp8", "weight_block_size": block}
    model = {**catalog_config("qwen3-8b"), "quantization_config": weights}
    found = codes(model=model, platform="cpu", dtype=dtype)
    assert ("no_weight_kernel" in found) == (block is not None and dtype == "float16")


def test_of_the_ranks_the_neighbours_are_tried():
    plan = wb.resolve(model="qwen3-8b", tensor_parallel=4, kv_cache_memory_bytes=2**34)
    assert not plan.errors
    tried = [one["tensor_parallel"] for one in single_changes(plan) if "tensor_parallel" in one]
    assert tried == [2, 8]


def test_more_devices_are_a_cost_and_fewer_a_gain():
    plan = wb.resolve(model="qwen3-8b", tensor_parallel=4, kv_cache_memory_bytes=2**34)
    fewer, more = (next_step(plan, answers(plan), {"tensor_parallel": one}) for one in (2, 8))
    assert "devices" in {one.measure for one in more.costs}
    assert "devices" in {one.measure for one in fewer.gains}


@pytest.mark.parametrize(("platform", "is_barred"), [("xpu", False), ("cuda", True)])
def test_the_causal_half_needs_a_newer_version_but_on_xpu(platform, is_barred):
    capability = None if platform == "xpu" else (8, 0)
    plain = LayerQuery.of(wb.resolve(model="qwen3-8b"))
    query = plain._replace(platform=platform, capability=capability)
    assert (needs_newer_version(query) is not None) == is_barred


@pytest.mark.parametrize(("model", "order"), [("qwen3-8b", "LHBNC"), ("qwen3.5-4b", "LBHNC")])
def test_pages_of_two_sizes_are_one_run_of_bytes_each(model, order):
    plan = wb.resolve(model=model, rules="0.33", platform="rocm", backend="ROCM_ATTN")
    assert plan.to_dict()["cache_layout"] == order


@pytest.mark.parametrize(
    ("method", "group", "code"),
    [
        ("gptq", 32, "experts_need_amx"),
        ("compressed-tensors", 32, "no_integer_experts"),
        ("compressed-tensors", 128, "experts_need_amx"),
    ],
)
def test_a_cpu_has_no_key_for_small_groups_of_one_format(method, group, code):
    """CPUExpertsInt4 of 0.33 takes any group of AWQ and GPTQ."""
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": group}
    parts = {"group_0": {"targets": ["Linear"], "weights": weights}}
    stored = {"quant_method": method, "format": "pack-quantized", "config_groups": parts}
    stored |= {"bits": 4, "group_size": group, "desc_act": False, "sym": True}
    model = {**catalog_config("mixtral-8x7b"), "quantization_config": stored}
    assert code in codes(model=model, platform="cpu", rules="0.33")
