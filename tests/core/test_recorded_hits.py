"""Hits of prompts that share prefixes, as vLLM's KVCacheManager gave them.

`tests/data/prefix_hits.jsonl.gz` holds what `tools/record_hits.py` recorded.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.core.test_drafter_groups import label, planned
from tests.recorded import recorded
from workbench.core.prefix.hits import caching_of, hit_after

RECORDED = recorded("prefix_hits")


def shared_tokens(prompt, other):
    """Return the tokens that two prompts begin with, which are runs of [number, tokens]."""
    found = 0
    for (kind, count), (other_kind, other_count) in zip(prompt, other, strict=False):
        if kind != other_kind:
            break
        found += min(count, other_count)
        if count != other_count:
            break
    return found


def hits(caching, prompts):
    """Return the cached tokens of prompts that come one after the other."""
    earlier, found = [], []
    for runs in prompts:
        tokens = sum(count for _kind, count in runs)
        known = [
            hit_after(caching, one, tokens, shared_tokens(runs, other)) for one, other in earlier
        ]
        cached = max((hit.cached_tokens for hit in known), default=0)
        match = max((hit.attention_tokens or 0 for hit in known), default=0)
        junction = match if match > cached else 0
        earlier.append((caching.prefill(tokens, cached, junction), runs))
        found.append(cached)
    return found


@pytest.mark.parametrize("answer", RECORDED, ids=label)
def test_hits_are_vllms(answer):
    plan = planned(answer)
    assert plan.built_cache().scheduler_block_size == answer["scheduler_block_size"]
    assert plan.built_cache().hash_block_size == answer["hash_block_size"]
    caching = caching_of(plan)
    assert [hits(caching, prompts) for prompts in answer["workloads"]] == answer["hits"]


def test_the_record_has_windows_that_are_found_only_the_second_time():
    found = [hit for answer in RECORDED for hit in answer["hits"] if answer["rules"] == "0.33"]
    assert any(any(second > first == 0 for first, second in pairwise(hit[1:])) for hit in found)


def test_the_record_has_hits_inside_a_block_that_ranks_share():
    shared = [one for one in RECORDED if one["arguments"].get("decode_context_parallel_size")]
    units = {
        hit % answer["scheduler_block_size"]
        for answer in shared
        for hits in answer["hits"]
        for hit in hits
    }
    assert len(units) > 1
