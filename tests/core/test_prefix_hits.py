"""Steps, checkpoints and hits: vLLM's own answers, reported cases, and what must hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from workbench.core.errors import ScenarioError
from workbench.core.prefix.hits import (
    Caching,
    caching_of,
    hit_after,
    is_inert,
    prefix_hit,
    reason_without_hits,
    shortest_prompt_with_hit,
    smallest_prefix,
)
from workbench.core.prefix.prefill import last_cache_position, prefill
from workbench.core.prefix.workload import Workload, workload_hits

# block, budget, earlier prompt, prompt, shared, mode, drafts -> cached, steps of the earlier one.
# Answered by the KVCacheManager and the align split of vLLM 0.23.0.
ANSWERS = [
    (528, 2048, 2200, 2200, 1600, 'align', False, 1584, (1584, 528, 88)),
    (528, 2048, 2200, 2200, 1500, 'align', False, 0, (1584, 528, 88)),
    (528, 2048, 552, 552, 552, 'align', False, 528, (528, 24)),
    (528, 2048, 2200, 2200, 1600, 'align', True, 1584, (1584, 616)),
    (528, 2048, 2200, 2200, 2200, 'align', True, 1584, (1584, 616)),
    (528, 2048, 552, 552, 552, 'align', True, 0, (552,)),
    (528, 2048, 2200, 2200, 1500, 'all', False, 1056, (2048, 152)),
    (528, 2048, 2200, 2200, 1600, 'all', True, 1584, (2048, 152)),
    (528, 500, 2200, 2200, 1600, 'align', False, None, ()),
    (528, 1063, 5113, 4342, 1513, 'all', False, 1056, (1063, 1063, 1063, 1063, 861)),
    (1056, 4223, 4106, 2598, 581, 'align', False, 0, (3168, 938)),
    (1056, 3168, 11450, 1742, 1340, 'all', False, 1056, (3168, 3168, 3168, 1946)),
    (16, 16, 175, 175, 10, 'align', False, 0, (16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 15)),
    (1056, 3168, 1548, 8657, 1211, 'align', False, 1056, (1056, 492)),
    (1056, 1056, 5875, 5875, 3747, 'all', True, 3168, (1056, 1056, 1056, 1056, 1056, 595)),
    (1056, 4223, 2419, 12652, 941, 'all', True, 0, (2419,)),
    (16, 16, 160, 43, 19, 'align', True, 16, (16, 16, 16, 16, 16, 16, 16, 16, 16, 16)),
    (16, 39, 191, 191, 14, 'align', True, 0, (32, 32, 32, 32, 32, 31)),
    (1056, 2119, 7567, 7567, 6378, 'all', True, 6336, (2119, 2119, 2119, 1210)),
    (16, 48, 95, 95, 16, 'align', True, 0, (48, 16, 31)),
    (16, 48, 18, 31, 6, 'all', False, 0, (18,)),
    (528, 1584, 4696, 4696, 3144, 'align', True, 1584, (1584, 1584, 528, 1000)),
    (16, 16, 16, 85, 7, 'align', True, 0, (16,)),
    (16, 48, 172, 100, 10, 'align', True, 0, (48, 48, 48, 28)),
    (1056, 4223, 11485, 11485, 6090, 'all', False, 5280, (4223, 4223, 3039)),
    (1056, 3168, 8981, 8981, 2996, 'all', True, 2112, (3168, 3168, 2645)),
    (16, 39, 172, 172, 162, 'all', True, 160, (39, 39, 39, 39, 16)),
    (528, 1584, 4480, 4480, 389, 'align', True, 0, (1584, 1584, 528, 784)),
    (1056, 4223, 5236, 4962, 3448, 'all', False, 3168, (4223, 1013)),
]  # fmt: skip


def caching(block=528, budget=2048, mode="align", drafts=False, longest=32768, is_on=True):
    return Caching(mode, is_on, (block,), block, block, budget, drafts, longest)


def plan_of(**fields):
    return wb.resolve(model="qwen3.5-4b", **fields)


@pytest.mark.parametrize(
    ("block", "budget", "before", "prompt", "shared", "mode", "drafts", "cached", "steps"), ANSWERS
)
def test_hits_and_steps_are_vllms(
    block, budget, before, prompt, shared, mode, drafts, cached, steps
):
    rules = caching(block, budget, mode, drafts)
    earlier = rules.prefill(before)
    assert earlier.steps == steps
    assert hit_after(rules, earlier, prompt, shared).cached_tokens == (cached or 0)


def test_the_reported_prompt_stops_where_it_was_reported():
    done = prefill(2200, 2048, mode="align", block_size=528)
    assert done.steps == (1584, 528, 88)
    assert done.checkpoints == (1584, 2112)


@pytest.mark.parametrize(("shared", "attention", "cached"), [(1600, 1584, 1584), (1500, 1056, 0)])
def test_a_hundred_tokens_decide(shared, attention, cached):
    plan = plan_of(enable_prefix_caching=True)
    assert (plan.block_size, plan.mamba_cache_mode) == (528, "align")
    hit = prefix_hit(caching_of(plan), 2200, shared)
    assert (hit.attention_tokens, hit.cached_tokens) == (attention, cached)
    assert hit.attention_lost_tokens == attention - cached


def test_a_prompt_just_over_a_block_is_reused_up_to_the_block():
    assert prefix_hit(caching(), 552, 552).cached_tokens == 528
    assert prefix_hit(caching(), 528, 528).cached_tokens == 0


@pytest.mark.parametrize("prefixes", [1, 8, 12])
def test_all_but_the_first_request_of_a_prefix_have_a_hit(prefixes):
    result = workload_hits(caching(), Workload(64, 1600, 600, prefixes))
    assert result.hits == 64 - prefixes
    assert set(result.cached_tokens) == {0, 1584}
    assert "1,584 and 2,112; 1,584 is inside the shared 1,600" in result.explanation


def test_no_request_has_a_hit_when_every_checkpoint_is_after_the_prefix():
    result = workload_hits(caching(), Workload(64, 1500, 700, 8))
    assert result.hits == 0
    assert "none is inside the shared 1,500" in result.explanation
    assert "1,056 tokens" in result.explanation


def test_a_workload_that_can_never_hit_says_why():
    assert "off" in workload_hits(caching(is_on=False), Workload(4, 1600, 600)).explanation


@pytest.mark.parametrize("numbers", [(-1, 1, 1, 1), (1, -1, 2, 1), (1, 0, 0, 1), (1, 1, 1, 0)])
def test_impossible_workloads(numbers):
    with pytest.raises(ValueError, match="a workload needs"):
        Workload(*numbers)


def test_a_budget_below_the_block_schedules_nothing():
    done = prefill(2200, 500, mode="align", block_size=528)
    assert not done.is_scheduled
    assert done.steps == done.checkpoints == ()
    assert prefill(527, 500, mode="align", block_size=528).steps == (500, 27)
    reason = reason_without_hits(caching(budget=500))
    assert "500" in reason
    assert "528" in reason


def test_attention_without_states_keeps_every_block():
    rules = Caching("none", True, (16,), None, 16, 2048, False, 4096)
    assert prefix_hit(rules, 2200, 1500).cached_tokens == 1488
    with_drafts = Caching("none", True, (16,), None, 16, 2048, True, 4096)
    assert prefix_hit(with_drafts, 2200, 1500).cached_tokens == 1472


def test_states_without_attention():
    rules = Caching("align", True, (), 16, 16, 64, False, 4096)
    hit = prefix_hit(rules, 200, 130)
    assert (hit.attention_tokens, hit.cached_tokens) == (None, 128)
    assert hit.attention_missing_tokens == hit.attention_lost_tokens == 0


def test_drafts_may_read_a_block_that_attention_dropped():
    hit = prefix_hit(caching(drafts=True), 2200, 1600)
    assert (hit.attention_tokens, hit.cached_tokens) == (1056, 1584)
    assert hit.attention_missing_tokens == 528


def test_hits_need_prefix_caching():
    plan = plan_of(max_model_len=8192)
    rules = caching_of(plan)
    assert not rules.is_on
    assert prefix_hit(rules, 4000, 4000).cached_tokens == 0
    assert not is_inert(rules)
    assert "off" in reason_without_hits(rules)


@pytest.mark.parametrize(("longest", "inert"), [(512, True), (529, True), (530, False)])
def test_inert_when_no_request_fills_a_block(longest, inert):
    rules = caching_of(plan_of(enable_prefix_caching=True, max_model_len=longest))
    assert is_inert(rules) is inert
    assert (reason_without_hits(rules) is not None) is inert
    assert smallest_prefix(rules) == (None if inert else 528)


@pytest.mark.parametrize("drafts", [0, 1])
@pytest.mark.parametrize(("rules", "mode"), [("0.23", "align"), ("0.23", "all"), ("0.33", "align")])
def test_no_prompt_below_the_shortest_with_a_hit_has_one(rules, mode, drafts):
    fields = {"mamba_cache_mode": mode, "num_speculative_tokens": drafts, "rules": rules}
    draft = {"speculative_method": "mtp"} if drafts else {}
    plan = plan_of(enable_prefix_caching=True, max_num_batched_tokens=8192, **fields, **draft)
    rules = caching_of(plan)
    shortest = shortest_prompt_with_hit(rules)
    assert prefix_hit(rules, shortest, shortest).cached_tokens > 0
    assert not any(prefix_hit(rules, n, n).cached_tokens for n in range(1, shortest))


def test_smallest_prefix_depends_on_the_prompt():
    assert smallest_prefix(caching()) == 528
    assert smallest_prefix(caching(), 2200) == 1584
    assert smallest_prefix(caching(mode="all"), 2200) == 528
    assert smallest_prefix(caching(), 528) is None


def test_a_plan_without_groups_has_no_hits():
    plan = wb.resolve(
        model="nemotron-3-nano-30b-a3b",
        platform="xpu",
        tensor_parallel=4,
        rules="before-37467",
    )
    with pytest.raises(ValueError, match="cannot be made equal"):
        caching_of(plan)


@pytest.mark.parametrize(
    "values",
    [
        {"budget_tokens": 0},
        {"budget_tokens": 1, "block_size": 0},
        {"budget_tokens": 1, "cached_tokens": 11},
        {"budget_tokens": 1, "cached_tokens": -1},
    ],
)
def test_invalid_lengths_are_refused(values):
    with pytest.raises(ValueError, match="got"):
        prefill(10, **values)


def test_more_cannot_be_shared_than_there_is():
    with pytest.raises(ValueError, match=r"shared_tokens 101\..*\(100\)"):
        prefix_hit(caching(), 100, 101)


@pytest.mark.parametrize(
    ("prompt", "shared", "field", "near"),
    [
        (10**9, 10**9, "prompt_tokens", 32768),
        (32769, 0, "prompt_tokens", 32768),
        (0, 0, "prompt_tokens", 1),
        (-5, 0, "prompt_tokens", 1),
        (2.5, 0, "prompt_tokens", 2),
        ("many", 0, "prompt_tokens", 1),
        (True, 0, "prompt_tokens", 1),
        (None, 0, "prompt_tokens", 1),
        (100, 101, "shared_tokens", 100),
        (100, -1, "shared_tokens", 0),
        (100, 1.5, "shared_tokens", 1),
    ],
)
def test_lengths_that_cannot_be_are_refused_with_the_nearest(prompt, shared, field, near):
    with pytest.raises(ScenarioError, match=f"Nearest valid value: {near}\\.") as caught:
        prefix_hit(caching(), prompt, shared)
    assert (caught.value.code, caught.value.field) == ("out_of_range", field)
    earlier = caching().prefill(200)
    with pytest.raises(ScenarioError, match=f"Nearest valid value: {near}\\."):
        hit_after(caching(), earlier, prompt, shared)


def test_a_huge_prompt_costs_nothing():
    done = prefill(2**31, 1, mode="all", block_size=16)
    assert done.step_count == 2**31
    assert done.checkpoint_below(1_000_000) == 1_000_000
    assert smallest_prefix(caching(longest=2**31)) == 528


BLOCKS = st.integers(2, 40)
LENGTHS = st.integers(1, 600)


@st.composite
def rules_and_lengths(draw):
    block = draw(BLOCKS)
    prompt = draw(LENGTHS)
    rules = caching(
        block,
        draw(st.integers(block, 8 * block)),
        draw(st.sampled_from(["none", "align", "all"])),
        draw(st.booleans()),
        prompt + draw(LENGTHS),
    )
    return rules, prompt, draw(st.integers(0, prompt))


@given(rules_and_lengths(), st.data())
def test_steps_sum_to_the_prompt_and_checkpoints_are_block_multiples(case, data):
    rules, prompt, _ = case
    cached = data.draw(st.integers(0, (prompt - 1) // rules.state_block)) * rules.state_block
    done = rules.prefill(prompt, cached)
    assert sum(done.steps) == prompt - cached
    assert all(0 < step <= rules.budget_tokens for step in done.steps)
    assert all(position % rules.state_block == 0 for position in done.checkpoints)
    assert all(cached < position <= prompt for position in done.checkpoints)
    assert list(done.checkpoints) == sorted(set(done.checkpoints))
    assert done.step_count == len(done.steps)
    if rules.mode == "align":
        assert set(done.checkpoints) <= set(done.step_ends)
        last = last_cache_position(prompt, rules.state_block, rules.drafts)
        assert last <= cached or last in done.step_ends
    for limit in range(0, prompt + 1, 7):
        expected = max((p for p in done.checkpoints if p <= limit), default=0)
        assert done.checkpoint_below(limit) == expected
        between = [p for part in done.kept_between(limit, prompt) for p in part]
        assert between == [p for p in done.checkpoints if p > limit]


@given(rules_and_lengths())
def test_a_hit_is_whole_blocks_of_the_shared_prefix_and_less_than_the_prompt(case):
    rules, prompt, shared = case
    hit = prefix_hit(rules, prompt, shared)
    assert 0 <= hit.cached_tokens <= min(shared, prompt - 1)
    assert hit.cached_tokens % rules.state_block == 0
    if shared < rules.state_block or rules.mode == "none":
        assert hit.cached_tokens == 0
    if not rules.drafts:
        assert hit.cached_tokens <= hit.attention_tokens
    assert hit.attention_missing_tokens <= rules.state_block


@given(rules_and_lengths())
def test_a_longer_shared_prefix_never_hits_less(case):
    rules, prompt, shared = case
    hits = [prefix_hit(rules, prompt, part).cached_tokens for part in (shared // 2, shared)]
    assert hits == sorted(hits)


@given(rules_and_lengths())
def test_every_block_kept_is_never_worse_than_checkpoints(case):
    rules, prompt, shared = case
    every = caching(rules.state_block, rules.budget_tokens, "all", rules.drafts)
    assert (
        prefix_hit(every, prompt, shared).cached_tokens
        >= prefix_hit(rules, prompt, shared).cached_tokens
    )


@given(rules_and_lengths())
def test_the_smallest_prefix_is_the_smallest(case):
    rules, prompt, _ = case
    smallest = smallest_prefix(rules, prompt)
    found = [n for n in range(prompt + 1) if prefix_hit(rules, prompt, n).cached_tokens]
    assert smallest == (found[0] if found else None)
    overall = smallest_prefix(rules)
    if smallest is not None and prompt < rules.max_model_len:
        assert overall is not None
        assert overall <= smallest


@given(rules_and_lengths())
def test_a_reason_means_that_nothing_is_ever_found(case):
    rules, prompt, shared = case
    if reason_without_hits(rules) is not None and prompt < rules.max_model_len:
        assert prefix_hit(rules, prompt, shared).cached_tokens == 0


def test_more_budget_may_give_fewer_hits():
    small, large = (prefix_hit(caching(budget=b), 2200, 600).cached_tokens for b in (528, 2048))
    assert (small, large) == (528, 0)


def one_by_one(caching, workload):
    """Return what each request reuses of all before it with the same prefix."""
    earlier, cached = {}, []
    for number in range(workload.requests):
        seen = earlier.setdefault(number % workload.prefixes, [])
        prompt, shared = workload.prompt_tokens, workload.shared_tokens
        hits = [hit_after(caching, one, prompt, shared).cached_tokens for one in seen]
        cached.append(max(hits, default=0))
        seen.append(caching.prefill(prompt, cached[-1]))
    return tuple(cached)


@given(
    requests=st.integers(0, 12),
    shared=st.integers(0, 3000),
    unique=st.integers(1, 1500),
    prefixes=st.integers(1, 5),
    mode=st.sampled_from(("align", "all")),
)
def test_a_workload_is_its_requests_one_by_one(requests, shared, unique, prefixes, mode):
    workload, known = Workload(requests, shared, unique, prefixes), caching(mode=mode)
    assert workload_hits(known, workload).cached_tokens == one_by_one(known, workload)
