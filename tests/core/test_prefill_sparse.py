"""Align mode of 0.33: steps against its own scheduler, the states it keeps, and shared prefixes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.recorded import recorded
from workbench.core.prefix.hits import caching_of, hit_after, prefix_hit, reason_without_hits
from workbench.core.prefix.prefill import prefill
from workbench.core.prefix.sparse import Sparse, replay_position
from workbench.core.prefix.workload import Workload, workload_hits

CASES = recorded("align_steps_0_33")


def test_steps_as_the_scheduler_of_0_33_takes_them():
    assert len(CASES) == 400
    for case in CASES:
        how = Sparse(case["inside"], case["junction_tokens"])
        found = prefill(
            case["prompt_tokens"],
            case["budget_tokens"],
            mode="align",
            block_size=case["block_size"],
            cached_tokens=case["cached_tokens"],
            sparse=how,
        )
        assert list(found.steps) == case["steps"], case


STEPS = {
    "as 0.23": (None, (1584, 528, 88), (1584, 2112)),
    "few states": (Sparse(), (1584, 528, 88), (2112,)),
    "inside the last step": (Sparse(inside=True), (1584, 616), (2112,)),
    "a junction": (Sparse(junction_tokens=1056), (1056, 1056, 88), (1056, 2112)),
    "both": (Sparse(True, 1056), (1056, 1144), (1056, 2112)),
}


@pytest.mark.parametrize("case", STEPS)
def test_a_prompt_of_2200_tokens(case):
    how, steps, kept = STEPS[case]
    found = prefill(2200, 2048, mode="align", block_size=528, sparse=how)
    assert (found.steps, found.checkpoints) == (steps, kept)


def test_a_budget_below_the_block_only_makes_steps_smaller():
    assert not prefill(5000, 2048, mode="align", block_size=2096).is_scheduled
    found = prefill(5000, 2048, mode="align", block_size=2096, sparse=Sparse())
    assert found.is_scheduled
    assert found.steps == (2048, 48, 2048, 48, 808)
    assert found.checkpoints == (4192,)
    assert prefill(0, 8, mode="align", block_size=4, sparse=Sparse()).steps == ()


@given(
    st.integers(1, 400),
    st.integers(1, 90),
    st.integers(1, 50),
    st.booleans(),
    st.integers(0, 8),
)
def test_steps_add_up_and_kept_states_are_where_a_resent_prompt_goes_on(
    prompt, budget, block, inside, blocks
):
    how = Sparse(inside, min(blocks * block, prompt // block * block))
    found = prefill(prompt, budget, mode="align", block_size=block, sparse=how)
    assert sum(found.steps) == prompt
    assert all(0 < step <= budget for step in found.steps)
    replay = replay_position(prompt, block)
    assert (replay in found.checkpoints) == (replay > 0)
    assert set(found.checkpoints) <= {replay, how.junction_tokens}
    ends = set(found.step_ends)
    assert set(found.checkpoints) - ends <= ({replay} if inside else set())


def caching(rules="0.33", **fields):
    options = {
        "model": "qwen3.5-4b",
        "enable_prefix_caching": True,
        "mamba_cache_mode": "align",
        "gdn_flashinfer_prefill": False,
    }
    return caching_of(wb.resolve(rules=rules, **{**options, **fields}))


def test_who_exports_a_state_inside_a_step():
    assert not caching().keeps_inside
    assert caching(gdn_flashinfer_prefill=None).keeps_inside
    assert caching(gdn_flashinfer_prefill=True).keeps_inside
    assert caching(model="nemotron-3-nano-30b-a3b").keeps_inside
    assert not caching("0.23", max_num_batched_tokens=8192).keeps_few


def test_with_drafts_hashes_look_one_token_ahead_and_nothing_is_dropped():
    old, new = (caching(rules, num_speculative_tokens=1) for rules in ("0.23", "0.33"))
    assert (old.drafts, old.lookahead_tokens) == (True, 0)
    assert (new.drafts, new.lookahead_tokens) == (False, 1)
    block = new.state_block
    done = new.prefill(block + 1)
    assert done.checkpoints == (block,)
    longer = 2 * block
    assert hit_after(new, done, longer, block).cached_tokens == 0  # the hash needs one token more
    assert hit_after(new, done, longer, block + 1).cached_tokens == block


def test_a_resent_prompt_goes_on_at_its_last_block():
    new = caching()
    for prompt in (529, 1056, 1057, 5000):
        assert prefix_hit(new, prompt, prompt).cached_tokens == (prompt - 1) // 528 * 528


@pytest.mark.parametrize(("shared", "reused"), [(1500, 1056), (1600, 1584), (500, 0)])
def test_the_second_request_of_a_prefix_keeps_a_state_for_the_others(shared, reused):
    found = workload_hits(caching(), Workload(6, shared, 700))
    assert found.cached_tokens == (0, 0, *(reused,) * 4)
    assert found.junction_tokens == reused
    assert ("keeps its state at" in found.explanation) == (reused > 0)


def test_no_prompt_starves():
    small = caching(model="nemotron-3-nano-30b-a3b", max_num_batched_tokens=1024)
    assert small.state_block > small.budget_tokens
    assert reason_without_hits(small) is None
