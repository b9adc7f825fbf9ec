"""Values at a limit, or that only one of several readers of a number would notice."""

from __future__ import annotations

from dataclasses import replace

import pytest

import workbench as wb
from tests.core.test_draft_models import BUILT, planned
from tests.models.configs import llama
from workbench.core.backends import LayerQuery
from workbench.core.capacity.largest_images import kept_bytes, tower_bytes
from workbench.core.capacity.memory_estimate import weights_of
from workbench.core.capacity.separate_pools import separate_pools
from workbench.core.chunks.connectors import LMCACHE_INSIDE
from workbench.core.chunks.request import chunks
from workbench.core.errors import SHOWN_CHARACTERS, ScenarioError, cut
from workbench.core.flex.batch import paged_batch
from workbench.core.flex.tiles import fit
from workbench.core.offload.transfer import transfer
from workbench.core.problems import ERROR
from workbench.core.tables.batch_grammar import parse_batch
from workbench.core.versions import V0_33
from workbench.core.versions.v0_33.flash_attention import reads_prefixes
from workbench.core.what_if.answers import answers
from workbench.core.what_if.facts import FACTS
from workbench.core.what_if.next_steps import differences
from workbench.models import catalog_config

DEEPSEEK = {"model": "deepseek-v3", "tensor_parallel": 8}


@pytest.mark.parametrize("method", ["mtp", "ngram"])
@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_engines_that_draft_from_hidden_states_are_compared(rules, method):
    """`compute_nixl_compatibility_hash` of 0.33 has the drafts of `use_eagle`; 0.23 has none."""
    plain = wb.resolve(**DEEPSEEK, rules=rules)
    drafts = {"speculative_method": method, "num_speculative_tokens": 1}
    found = transfer(plain, wb.resolve(**DEEPSEEK, rules=rules, **drafts)).problems
    errors = {one.code for one in found if one.severity == ERROR}
    differs = rules == "0.33" and method == "mtp"
    assert errors == ({"transfer_fingerprint"} if differs else set())


@pytest.mark.parametrize("method", ["dflash", "dspark"])
def test_drafts_that_never_read_the_next_token_are_compared_all_the_same(method):
    """`use_eagle` of 0.33 has these methods, `needs_eagle_block_drop` has not."""
    recorded = (one for one in BUILT if (one["rules"], one["method"]) == ("0.33", method))
    drafts = planned(next(recorded))
    undrafted = {"speculative_method": None, "num_speculative_tokens": 0, "draft_model": None}
    plain = wb.resolve(drafts.scenario, **undrafted)
    assert "transfer_fingerprint" in {one.code for one in transfer(plain, drafts).problems}
    assert transfer(drafts, drafts).problems == ()


def test_a_pool_of_attention_has_the_block_that_no_alignment_raised():
    for block in (16, 64):
        plan = wb.resolve(model="qwen3.5-4b", kv_cache_memory_bytes=2**34, block_size=block)
        assert separate_pools(plan, 8192).block_size == block < plan.block_size


def test_a_block_of_the_needed_size_is_not_raised():
    """vLLM says that it raised the block only where it was smaller."""
    free = wb.resolve(model="qwen3.5-4b")
    exact = wb.resolve(model="qwen3.5-4b", block_size=free.block_size)
    assert exact.block_size == free.block_size
    raised = "Setting attention block size"
    assert any(line.startswith(raised) for line in free.log_lines)
    assert not any(line.startswith(raised) for line in exact.log_lines)


def test_a_byte_has_one_meaning_per_group():
    plan = wb.resolve(model="deepseek-v4-flash", rules="0.33", kv_cache_memory_bytes=2**34)
    for byte in (0, 5000, 40_000):
        groups = [one.group for one in plan.byte_map().at(0, byte).meanings]
        assert groups == sorted({*groups})


def test_half_of_what_a_compressor_keeps_are_scores():
    """`CompressorStateCache` has `kv_state` and `score_state` of equal width, in this order."""
    plan = wb.resolve(model="deepseek-v4-flash", rules="0.33", kv_cache_memory_bytes=2**34)
    layers = plan.byte_map().layers.values()
    found = [group.parts for group, _ in layers if group.parts[0].name == "state"]
    assert found
    for state, score in found:
        assert state.view.shape == score.view.shape
        assert score.view.offset_elements - state.view.offset_elements == state.view.shape[-1]


def test_a_batch_has_the_blocks_that_its_rows_name_and_the_null_block():
    batch = paged_batch(parse_batch("q2s40_q1s17_q16"), 16)
    named = {block for row in batch.rows for block in row}
    assert named == set(range(batch.num_blocks))


def test_a_tile_that_shares_no_factor_with_its_block_is_the_block():
    """`ensure_divisible` of flex_attention.py."""
    assert [fit(64, block) for block in (63, 65, 81)] == [63, 65, 81]
    assert fit(64, 96) == 32


def test_a_cut_text_has_as_many_characters_as_are_shown():
    assert cut("x" * SHOWN_CHARACTERS) == "x" * SHOWN_CHARACTERS
    assert len(cut("x" * (SHOWN_CHARACTERS + 1))) == SHOWN_CHARACTERS


def test_a_model_without_images_keeps_nothing_of_them():
    plan = wb.resolve(model="llama-3.1-8b")
    assert (tower_bytes(plan), kept_bytes(plan)) == (0, 0)


@pytest.mark.parametrize(("requests", "differs"), [(1009, 0), (991, 0), (1011, 1), (989, 1)])
def test_less_than_one_percent_does_not_count(requests, differs):
    plan = wb.resolve(model="llama-3.1-8b", kv_cache_memory_bytes=2**36)
    before, after = (replace(answers(plan, 8192), requests=(one, one)) for one in (1000, requests))
    assert [one.measure for one in differences(before, after)] == ["requests"] * differs


def test_percents_have_a_decimal():
    fact = replace(FACTS[0], means="{percent}")
    assert fact.meaning(30, 40) == "33.3 % more"
    assert fact.meaning(40, 30) == "25.0 % fewer"
    assert fact.meaning(None, 30) == fact.meaning(0, 30) == "other"


def test_the_last_of_several_stages_gets_the_layers_that_are_left():
    plan = wb.resolve(model="llama-3.1-8b", pipeline_parallel=3, pipeline_layers=(8, 9, 10))
    [problem] = [one for one in plan.errors if one.code == "stage_layers_mismatch"]
    assert {"pipeline_layers": (8, 9, 15)} in problem.candidates


def test_a_message_names_its_engine_where_there_are_several():
    plan = wb.resolve(model="gpt-oss-20b", rules="0.33")  # a warning: windows become full attention
    alone, both = (chunks([plan] * count, connector=LMCACHE_INSIDE) for count in (1, 2))
    [problem] = alone.problems
    assert problem == alone.members[0].problems[0]
    named = [f"{member.label}: {problem.message}" for member in both.members]
    assert [one.message for one in both.problems] == named


def test_a_stage_of_owners_alone_is_not_the_one_that_lacks_caches():
    """Layers 13 and 14 of Gemma 4 E2B have the caches that those from 15 on read."""
    plan = wb.resolve(model="gemma-4-e2b", pipeline_parallel=3, pipeline_layers=(14, 1, 20))
    [problem] = [one for one in plan.errors if one.code == "cache_shared_over_stages"]
    assert problem.operands["first_layer"] == 15


def test_a_backend_that_does_not_exist_is_an_error_of_its_field():
    with pytest.raises(ScenarioError, match="FLASH_ATTN") as found:
        V0_33.backends["FLASH_ATN"]
    assert found.value.field == "backend"


def test_what_a_capability_is_taken_for_is_said_where_it_decides():
    """An A100 has smaller steps than other devices of its memory; 8.0 alone is taken for one."""
    words = "compute capability 8.0 is taken for an A100"
    memory = {"device_memory_bytes": 80 * 2**30}

    def notes(**fields):
        steps = wb.resolve(model="llama-3.1-8b", **fields).steps
        return [step.note for step in steps if step.rule.name == "max_num_batched_tokens"]

    assert notes(compute_capability="8.0", **memory) == [words]
    assert words not in notes(compute_capability="9.0", **memory)
    assert words not in notes(device="A100-80GB")


@pytest.mark.parametrize(("prefill", "decode", "larger"), [(2, 3, "Local"), (3, 2, "Remote")])
def test_the_side_with_more_ranks_is_named_first(prefill, decode, larger):
    config = llama(num_attention_heads=12, num_key_value_heads=6, hidden_size=1536)
    sides = (wb.resolve(config, tensor_parallel=n, rules="0.33") for n in (prefill, decode))
    [problem] = transfer(*sides).problems
    assert problem.vllm_text.startswith(f"{larger} tensor parallel size 3 is not divisible by ")


def test_without_a_memory_size_the_stage_whose_block_takes_most_bytes_decides():
    plan = wb.resolve("llama-3.1-8b", pipeline_parallel=3, pipeline_layers=(8, 14, 10))
    sizes = [stage.grouping.bytes_per_block for stage in plan.cache.stages]
    assert plan.cache.grouping.bytes_per_block == max(sizes) > sizes[0]


def test_a_vector_is_the_smallest_adapter():
    """`MaxLoRARanks` begins with 1."""
    assert wb.resolve("llama-3.1-8b", enable_lora=True, max_lora_rank=1).errors == ()
    with pytest.raises(ScenarioError, match="Expected one of 1, 8, 16"):
        wb.resolve("llama-3.1-8b", enable_lora=True, max_lora_rank=2)


@pytest.mark.parametrize(("dtype", "reads"), [("fp8", False), ("auto", True)])
def test_prefixes_that_are_seen_whole_need_a_plain_cache_on_hopper(dtype, reads):
    """Heads of 512 run version 4 there."""
    plan = wb.resolve("gemma-4-31b", rules="0.33", device="H100")
    attention = replace(plan.model.attention, head_size=512)
    query = LayerQuery.of(plan, attention)._replace(kv_cache_dtype=dtype)
    assert reads_prefixes(query) is reads


def test_a_draft_model_is_cut_into_stages_as_its_target_is():
    draft = {"draft_model": "llama-3.1-8b", "num_speculative_tokens": 3}
    plans = (wb.resolve("llama-3.3-70b", pipeline_parallel=n, **draft) for n in (1, 2, 4))
    assert [len(plan.drafter.layers) for plan in plans] == [32, 16, 8]


def test_experts_are_not_padded_where_batches_give_equal_bits():
    """FlashInfer's kernels for SM10x pad them, and are not used then."""
    config = {**catalog_config("qwen3-30b-a3b"), "moe_intermediate_size": 704}
    plain, same = (
        weights_of(wb.resolve(config, device="B200", rules="0.33", batch_invariant=one))
        for one in (False, True)
    )
    assert same == weights_of(wb.resolve(config, device="H100", rules="0.33")) < plain
