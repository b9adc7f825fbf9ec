"""Chunk sizes of connectors: legal sizes, bytes, what comes back, engines that share a store."""

from __future__ import annotations

import re
from fractions import Fraction
from math import lcm

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.groups import in_groups
from tests.views.plans import all_plans, plan_of
from workbench.core.chunks.connectors import (
    CONNECTORS,
    LMCACHE,
    LMCACHE_INSIDE,
    MOONCAKE,
    NIXL,
    OFFLOADING,
    OWN,
    SIMPLE,
)
from workbench.core.chunks.engines import member_remedies
from workbench.core.chunks.pieces import Piece, same_heads
from workbench.core.chunks.request import chunks
from workbench.core.errors import ScenarioError
from workbench.core.offload.plan import OffloadRequest, offload
from workbench.core.offload.pool import layer_bytes
from workbench.core.prefix.hits import caching_of
from workbench.core.problems import ERROR, WARNING
from workbench.scenario.resolution import resolve

STORES = [name for name, one in CONNECTORS.items() if one.stores]


def hybrid(model="qwen3.5-27b", **fields):
    """Return a plan that keeps states at the ends of blocks, with steps of 8,192 tokens."""
    return plan_of(
        model=model, **{"enable_prefix_caching": True, "max_num_batched_tokens": 8192, **fields}
    )


def codes(found):
    return [problem.code for problem in found.problems]


@pytest.mark.parametrize(
    ("model", "block", "pages"), [("qwen3.5-27b", 800, 25), ("qwen3.5-4b", 544, 17)]
)
def test_the_blocks_of_lmcache_4701(model, block, pages):
    """With kernel blocks of 32, a block is 25 or 17 of them, and a chunk of 256 is none."""
    plan = hybrid(model, block_size=32)
    assert plan.kernel_blocks_per_block == pages
    found = chunks([plan], chunk_tokens=256)
    assert not found.is_legal
    assert found.legal_sizes[:3] == (block, 2 * block, 3 * block)
    problem = next(one for one in found.problems if one.code == "chunk_not_multiple")
    assert problem.vllm_text == f"LMCache chunk size 256 must be a multiple of {block}"
    assert problem.message.startswith("A chunk of 256 tokens")
    assert f"Nearest legal: {block}." in problem.message
    default = next(one for one in chunks([plan]).problems if one.code == "chunk_not_multiple")
    assert default.message.startswith("The default chunk of 256 tokens")
    assert chunks([plan], chunk_tokens=3 * block).is_legal


def test_two_ranks_sizes_of_vllm_41037():
    """Nemotron-3-Nano with fp8: 4,192 tokens on two ranks, 2,112 on four."""
    fields = {"kv_cache_dtype": "fp8", "block_size": 32, "mamba_cache_mode": "align"}
    sides = [hybrid("nemotron-3-nano-30b-a3b", tensor_parallel=ranks, **fields) for ranks in (2, 4)]
    found = chunks(sides, connector=NIXL)
    assert [member.plan.block_size for member in found.members] == [4192, 2112]
    assert [pair.is_legal for pair in found.pairs()] == [False, False]
    assert all(pair.remedies() for pair in found.pairs())
    both = chunks(sides)
    assert both.unit_tokens == lcm(4192, 2112) == both.legal_sizes[0]
    assert "chunks_not_shared" in codes(both)


def test_a_window_limits_the_chunk_of_the_lmcache_server():
    piece = Piece(tokens=48, bytes_on_rank=4800, copies=1, is_state=False, tail_tokens=128)
    assert piece.longest_chunk == 128
    whole = Piece(tokens=16, bytes_on_rank=1600, copies=1, is_state=False, tail_tokens=128)
    assert whole.longest_chunk is None
    assert (whole.chunk_bytes(64), whole.chunk_bytes(256)) == (6400, 12800)


def test_the_server_keeps_one_state_per_chunk():
    """Two blocks of attention and one state, or one of each."""
    member = chunks([hybrid()]).members[0]
    attention = next(piece for piece in member.pieces if not piece.is_state)
    states = [piece for piece in member.pieces if piece.is_state]
    block = attention.tokens
    one, two = (member.cost(block * factor, 32000) for factor in (1, 2))
    assert one.chunk_bytes == attention.bytes_on_rank + sum(one.bytes_on_rank for one in states)
    assert two.chunk_bytes - one.chunk_bytes == attention.bytes_on_rank


@in_groups
@pytest.mark.parametrize("plan", all_plans(), ids=lambda plan: f"{plan.model.name}")
def test_bytes_add_up_with_the_layers_of_a_block(plan):
    """The server keeps data of attention and whole pages of states; others whole block ids."""
    if plan.cache is None or not plan.cache.groups:
        assert not chunks([plan]).is_legal
        return
    states = {name for group in plan.cache.groups if group.spec.is_mamba for name in group.layers}
    expected = sum(
        layer.page_bytes if layer.name in states else layer.data_bytes
        for layer in layer_bytes(plan)
    )
    assert sum(piece.bytes_on_rank for piece in chunks([plan]).members[0].pieces) == expected
    whole = chunks([plan], connector=SIMPLE).members[0].pieces
    assert {piece.bytes_on_rank for piece in whole} == {plan.cache.grouping.bytes_per_block}


@in_groups
@pytest.mark.parametrize("plan", all_plans()[::3], ids=lambda plan: f"{plan.model.name}")
@pytest.mark.parametrize("connector", STORES)
def test_whatever_is_listed_is_legal_for_every_engine(plan, connector):
    found = chunks([plan], connector=connector)
    for size in found.legal_sizes:
        assert found.is_legal_size(size)
        if CONNECTORS[connector].sizes != OWN and connector != LMCACHE_INSIDE:
            blocks = {piece.tokens for piece in found.members[0].pieces}
            assert not any(size % block for block in blocks)
    for one in found.recommended:
        assert found.is_legal_size(one.tokens)
        assert one.reason
    for one in found.recommended[1:]:
        before, after = (found.costs(size) for size in (found.recommended[0].tokens, one.tokens))
        less, back = map(int, re.findall(r"(\d+) %", one.reason))
        for name, percent in (("stored_bytes", 100 - less), ("loadable_tokens", back)):
            now, once = (sum(getattr(one, name) for one in costs) for costs in (after, before))
            assert abs(Fraction(100 * now, max(1, once)) - percent) < 1


@settings(max_examples=60, deadline=None)
@given(
    models=st.lists(
        st.sampled_from(["qwen3.5-27b", "qwen3.5-4b", "qwen3-next-80b-a3b", "gpt-oss-20b"]),
        min_size=1,
        max_size=3,
    ),
    ranks=st.sampled_from([1, 2, 4]),
    rules=st.sampled_from(["0.23", "0.33"]),
    size=st.integers(1, 20000),
)
def test_another_engine_never_makes_a_size_legal(models, ranks, rules, size):
    plans = [hybrid(model, tensor_parallel=ranks, rules=rules) for model in models]
    all_of_them, fewer = chunks(plans), chunks(plans[:1])
    assert all_of_them.unit_tokens % fewer.unit_tokens == 0
    assert fewer.is_legal_size(size) or not all_of_them.is_legal_size(size)
    assert all_of_them.legal_sizes[0] >= fewer.legal_sizes[0]
    near = all_of_them.nearest(size)
    assert near
    assert all(all_of_them.is_legal_size(one) for one in near)
    assert min(abs(one - size) for one in near) <= all_of_them.unit_tokens


@settings(max_examples=60, deadline=None)
@given(
    model=st.sampled_from(["qwen3.5-4b", "gpt-oss-20b", "llama-3.1-8b", "deepseek-v3"]),
    connector=st.sampled_from(STORES),
    factor=st.integers(1, 12),
    prompt=st.integers(1, 60000),
)
def test_tail_and_chunks_are_the_prompt(model, connector, factor, prompt):
    found = chunks([hybrid(model)], connector=connector)
    if not found.legal_sizes:
        return
    size = found.legal_sizes[0] * (1 if CONNECTORS[connector].sizes == OWN else factor)
    cost = found.members[0].cost(size, prompt)
    assert cost.chunks * size + cost.tail_tokens == prompt
    assert 0 <= cost.tail_tokens < size
    assert cost.loadable_tokens % size == 0
    assert cost.loadable_tokens <= prompt
    assert 0 <= cost.hit_percent <= 100
    assert cost.stored_bytes <= max(cost.chunks, 1) * cost.chunk_bytes


@pytest.mark.parametrize("connector", STORES)
@pytest.mark.parametrize("model", ["qwen3.5-4b", "gpt-oss-20b", "llama-3.1-8b"])
def test_no_shorter_prompt_hits_than_the_smallest_prefix(model, connector):
    found = chunks([hybrid(model)], connector=connector)
    if not found.legal_sizes:
        return
    [member], size = found.members, found.legal_sizes[0]
    smallest = member.cost(size, size).smallest_prefix_tokens
    prompts = range(size + 1, min(64 * size + 2, member.plan.max_model_len), size)
    hits = [found for prompt in prompts if (found := member.cost(size, prompt).loadable_tokens)]
    assert smallest == (hits[0] if hits else None)


@pytest.mark.parametrize("connector", [name for name in STORES if name != OFFLOADING])
@pytest.mark.parametrize("tokens", [1000, 32000])
def test_without_states_every_whole_chunk_is_stored(connector, tokens):
    found = chunks([plan_of(model="llama-3.1-8b", tensor_parallel=2)], connector=connector)
    cost = found.members[0].cost(found.legal_sizes[0], tokens)
    assert cost.stored_bytes == tokens // cost.chunk_tokens * cost.chunk_bytes > 0


@pytest.mark.parametrize("model", ["qwen3.5-4b", "nemotron-3-nano-30b-a3b"])
def test_of_a_hybrid_attention_is_stored_whole_and_states_where_steps_end(model):
    member = chunks([hybrid(model)], connector=SIMPLE).members[0]
    cost = member.cost(member.unit_tokens, 32000)
    states = sum(one.bytes_on_rank * one.copies for one in member.pieces if one.is_state)
    attention = cost.chunk_bytes - states
    kept = [
        p for p in caching_of(member.plan).prefill(32000).checkpoints if not p % cost.chunk_tokens
    ]
    assert 0 < len(kept) <= cost.chunks
    assert cost.stored_bytes == cost.chunks * attention + len(kept) * states


@pytest.mark.parametrize("model", ["qwen3.5-4b", "gpt-oss-20b", "deepseek-v3"])
@pytest.mark.parametrize("ranks", [1, 4])
def test_vllms_own_offload_costs_what_the_offload_planner_says(model, ranks):
    plan = hybrid(model, tensor_parallel=ranks)
    found = chunks([plan], connector=OFFLOADING)
    assert (
        found.legal_sizes == offload(plan, OffloadRequest(cpu_bytes_to_use=2**40)).legal_block_sizes
    )
    size = found.legal_sizes[2]
    planned = offload(plan, OffloadRequest(block_size=size, cpu_bytes_to_use=2**40))
    (cost,) = found.costs(size)
    stored = planned.stored_prompt(found.prompt_tokens)
    assert cost.stored_bytes == stored.blocks * planned.bytes_per_cpu_block
    assert cost.loadable_tokens == stored.loadable_tokens


def test_lmcache_inside_the_engine_takes_one_group_only():
    found = chunks([hybrid()], connector=LMCACHE_INSIDE)
    assert codes(found) == ["connector_needs_one_group"]
    assert found.legal_sizes == ()
    windows = chunks([plan_of(model="gpt-oss-20b")], connector=LMCACHE_INSIDE)
    assert codes(windows) == ["connector_turns_manager_off"]
    assert windows.is_legal
    assert windows.problems[0].severity == WARNING
    assert len(windows.members[0].plan.cache.groups) == 1
    assert windows.is_legal_size(257)


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
@pytest.mark.parametrize("connector", [LMCACHE, MOONCAKE, SIMPLE, OFFLOADING])
def test_states_that_are_not_kept_are_the_first_problem_and_no_size_is_advised(connector, rules):
    plan = plan_of(model="qwen3.5-4b", rules=rules, enable_prefix_caching=False)
    decoder = plan_of(model="gpt-oss-20b", rules=rules)
    for plans in ([plan], [plan, decoder]):
        found = chunks(plans, connector=connector)
        first = found.problems[0]
        wanted = "offload_hash_block_size" if connector == OFFLOADING else "connector_state_mode"
        assert (first.code, first.severity) == (wanted, ERROR)
        assert codes(found) == [wanted]
        assert "refix caching" in first.message
        assert (found.unit_tokens, found.chunk_tokens) == (None, None)
        assert found.legal_sizes == found.recommended == found.costs() == found.nearest(256) == ()
        (remedy,) = member_remedies(found.members[0])
        assert chunks([remedy.plan], connector=connector).legal_sizes


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ("0.23", "block_size must be divisible by hash_block_size"),
        ("0.33", "Mamba prefix caching requires mamba_cache_mode='align'"),
    ],
)
def test_what_vllm_prints_where_the_simple_offload_finds_no_states(rules, text):
    plan = plan_of(model="qwen3.5-4b", rules=rules, enable_prefix_caching=False)
    assert chunks([plan], connector=SIMPLE).problems[0].vllm_text == text


@pytest.mark.parametrize("connector", [SIMPLE, OFFLOADING, LMCACHE_INSIDE])
def test_states_alone_start_but_are_never_found_without_prefix_caching(connector):
    found = chunks([plan_of(model="mamba-2.8b", enable_prefix_caching=False)], connector=connector)
    assert [(one.code, one.severity) for one in found.problems] == [
        ("connector_state_mode", WARNING)
    ]
    assert found.is_legal
    assert found.legal_sizes == found.recommended == ()


def test_engines_of_which_one_keeps_no_states_are_compared():
    plans = [hybrid(tensor_parallel=1), plan_of(model="qwen3.5-27b", tensor_parallel=2)]
    found = chunks(plans)
    assert codes(found)[-1] == "chunks_not_shared"
    assert "None" not in repr(found)


@pytest.mark.parametrize("prompt", [100, 600, 32768])
@pytest.mark.parametrize("model", ["qwen3.5-4b", "gpt-oss-20b", "llama-3.1-8b"])
def test_no_size_is_advised_twice(model, prompt):
    found = chunks([hybrid(model)], prompt_tokens=prompt).recommended
    assert len({one.tokens for one in found}) == len(found) > 0
    assert not any(" 0 % of the tokens back" in one.reason for one in found)


@pytest.mark.parametrize("connector", [LMCACHE, MOONCAKE])
def test_states_need_prefix_caching_and_the_remedy_works(connector):
    found = chunks([plan_of(model="qwen3.5-4b")], connector=connector)
    assert "connector_state_mode" in codes(found)
    (remedy,) = member_remedies(found.members[0])
    assert "connector_state_mode" not in codes(chunks([remedy.plan], connector=connector))


def test_the_lesson_asks_for_a_block_size_that_has_an_effect():
    """Blocks of qwen3.5-27b on four ranks are multiples of 64 in 0.33, whichever divisor is set."""
    fields = {"tensor_parallel": 4, "rules": "0.33"}
    sizes = [chunks([hybrid(block_size=size, **fields)]).unit_tokens for size in (16, 32, 64, 128)]
    assert sizes == [832, 832, 832, 896]


def test_a_step_below_the_block_is_refused():
    plan = hybrid("nemotron-3-nano-30b-a3b", max_num_batched_tokens=2048, mamba_cache_mode="align")
    found = chunks([plan])
    assert "connector_step_below_block" in codes(found)
    assert member_remedies(found.members[0])[0].changes == {"max_num_batched_tokens": 2096}


def test_a_step_of_several_blocks_needs_separate_objects():
    assert "connector_states_between_steps" in codes(chunks([hybrid()]))
    assert "connector_states_between_steps" not in codes(
        chunks([hybrid(max_num_batched_tokens=1000)])
    )


def test_latents_and_repeated_heads_are_kept_once():
    latent = chunks([plan_of(model="deepseek-v3", tensor_parallel=8)])
    assert {piece.copies for piece in latent.members[0].pieces} == {1}
    next_80b = hybrid("qwen3-next-80b-a3b", tensor_parallel=8, rules="0.33")
    assert {piece.copies for piece in chunks([next_80b]).members[0].pieces} == {8}
    kept = {
        (piece.is_state, piece.copies)
        for piece in chunks([next_80b], connector=MOONCAKE).members[0].pieces
    }
    assert kept == {(True, 8), (False, 2)}


@pytest.mark.parametrize(("ranks", "same"), [(1, 1), (2, 1), (8, 1), (16, 2), (32, 4)])
def test_ranks_hold_the_same_heads_only_where_there_are_more_of_them(ranks, same):
    plan = plan_of(model="qwen3-8b", tensor_parallel=ranks)  # 8 heads of keys and values
    [group] = plan.built_cache().groups
    assert same_heads(plan, group) == same


def test_a_mooncake_store_of_0_23_mixes_the_states_of_ranks():
    plan = hybrid("qwen3-next-80b-a3b", tensor_parallel=8)
    assert "connector_shares_states" in codes(chunks([plan], connector=MOONCAKE))
    alone = hybrid("qwen3.5-27b", tensor_parallel=1)
    assert "connector_shares_states" not in codes(chunks([alone], connector=MOONCAKE))
    newer = hybrid("qwen3-next-80b-a3b", tensor_parallel=8, rules="0.33")
    assert "connector_shares_states" not in codes(chunks([newer], connector=MOONCAKE))


def test_the_same_key_for_other_bytes_is_a_warning():
    plans = [plan_of(model="llama-3.1-8b", kv_cache_dtype=dtype) for dtype in ("auto", "fp8")]
    assert "chunks_wrongly_shared" in codes(chunks(plans))
    assert "chunks_not_shared" in codes(chunks(plans, connector=LMCACHE_INSIDE))
    sizes = [plan_of(model="llama-3.1-8b", tensor_parallel=ranks) for ranks in (2, 4)]
    assert "chunks_wrongly_shared" in codes(chunks(sizes, connector=MOONCAKE))
    assert codes(chunks([plans[0], plans[0]])) == []


def test_states_near_the_end_alone_make_large_chunks_miss():
    """0.33 keeps the state of the last block, which one in three chunks of three blocks ends on."""
    member = chunks([hybrid("qwen3-next-80b-a3b", tensor_parallel=4, rules="0.33")]).members[0]
    block = member.unit_tokens
    assert [member.cost(block * factor, 32768).hit_percent for factor in (1, 3)] == [100, 33]


def test_requests_that_are_refused():
    plan = plan_of(model="llama-3.1-8b")
    with pytest.raises(ScenarioError, match="LMCacheMPConnector"):
        chunks([plan], connector="LMCacheMP")
    with pytest.raises(ScenarioError, match="chunk_tokens"):
        chunks([plan], chunk_tokens=0)
    with pytest.raises(ScenarioError, match="Nearest valid value: 2147483647"):
        chunks([plan], chunk_tokens=2**31)
    assert not chunks([plan], chunk_tokens=2**31 - 1).is_legal
    with pytest.raises(ScenarioError, match="prompt_tokens"):
        chunks([plan], prompt_tokens=plan.max_model_len)
    assert chunks([plan], prompt_tokens=plan.max_model_len - 1).prompt_tokens
    with pytest.raises(ValueError, match="got none"):
        chunks([])


def test_a_block_is_all_there_is_without_a_setting():
    found = chunks([plan_of(model="llama-3.1-8b")], connector=MOONCAKE, chunk_tokens=256)
    assert codes(found) == ["chunk_not_settable"]
    assert found.legal_sizes == (16,)


def test_engines_are_named_by_what_differs():
    plans = [plan_of(model="llama-3.1-8b", tensor_parallel=ranks) for ranks in (1, 2, 2)]
    labels = [member.label for member in chunks(plans).members]
    assert labels == ["llama-3.1-8b TP 1", "llama-3.1-8b TP 2", "llama-3.1-8b TP 2 #2"]
    named = chunks({"prefill": plans[0], "decode": plans[1]}).members
    assert [member.label for member in named] == ["prefill", "decode"]


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_offloading_sets_no_size_where_groups_have_several(rules):
    plan = resolve(model="gemma-4-26b-a4b", rules=rules)
    found = chunks([plan], connector="OffloadingConnector")
    assert found.legal_sizes == (32,)
    requested = chunks([plan], connector="OffloadingConnector", chunk_tokens=64)
    assert [problem.code for problem in requested.problems] == ["chunk_not_settable"]


def test_a_rank_holds_the_chunk_of_the_stage_with_most_layers():
    plan = plan_of(model="qwen3-0.6b", pipeline_parallel=3)
    (member,) = chunks([plan], chunk_tokens=256).members
    cost = member.cost(256, 4096)
    assert [stage.layers.start for stage in plan.stages] == [0, 9, 19]  # 9, 10 and 9 of 28 layers
    assert cost.chunk_bytes_on_rank == cost.chunk_bytes * 10 // 28


def test_a_pair_is_compared_in_words():
    plans = [plan_of(model="llama-3.1-8b", tensor_parallel=ranks) for ranks in (1, 2)]
    there, _here = chunks(plans).pairs()
    found = {one.what: (one.prefill, one.decode, one.relation) for one in there.compared}
    assert found["tensor parallel"] == ("1", "2", "divisible")
    assert found["bytes of a token, all heads"] == ("4,096", "4,096", "equal")
    assert found["layout"][0] == found["state dtypes"][0] == found["state block"][1] == "none"
