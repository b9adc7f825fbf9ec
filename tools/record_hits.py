"""Record what the KVCacheManager of an installed vLLM finds again of earlier prompts.

    ~/vllm-0.33/bin/python tools/record_hits.py < questions.jsonl > answers.jsonl

Run by the Python of that vLLM, on any machine. Questions are those of record_cache_groups.py, with
`workloads`: lists of prompts that come one after the other, each a list of [number, tokens]: runs
of tokens, equal where their numbers are. Answers: `hits`, the cached tokens of every prompt.
"""

import sys
from typing import Any

import record_cache_groups as groups

VOCABULARY = 50_000
STRIDE = 1_000_003
"""A prime: runs with different numbers differ in their first tokens."""


def _answer(question: dict[str, Any], machine: Any) -> dict[str, Any]:
    from vllm.config import set_current_vllm_config
    from vllm.utils.hashing import sha256
    from vllm.v1.core import kv_cache_utils
    from vllm_probe import planning

    config, rank, ranks_bytes = groups.only_rank(question, machine)
    with set_current_vllm_config(config):
        cache, _own = planning.caches(config, [rank], ranks_bytes)
        scheduler, unit = kv_cache_utils.resolve_kv_cache_block_sizes(cache, config)
    kv_cache_utils.init_none_hash(sha256)
    ahead = {"num_hash_lookahead_tokens": planning.hash_lookahead(config)}
    hashes = kv_cache_utils.get_request_block_hasher
    budget = config.scheduler_config.max_num_batched_tokens
    hasher = hashes(unit, sha256, **planning.known(hashes, ahead))
    hits = [
        _hits(prompts, _scheduler(config, cache, (scheduler, unit)), hasher, budget)
        for prompts in question["workloads"]
    ]
    return {"scheduler_block_size": scheduler, "hash_block_size": unit, "hits": hits}


def _scheduler(config: Any, cache: Any, units: tuple[int, int]) -> Any:
    """Return the release's own scheduler, with its manager of blocks."""
    from vllm.v1.core.sched.scheduler import Scheduler

    return Scheduler(config, cache, None, block_size=units[0], hash_block_size=units[1])


def _hits(prompts: list[list[list[int]]], scheduler: Any, hasher: Any, budget: int) -> list[int]:
    """Return the cached tokens of prompts that one cache serves, one after the other."""
    from vllm.sampling_params import SamplingParams
    from vllm.v1.request import Request

    found, manager = [], scheduler.kv_cache_manager
    for number, runs in enumerate(prompts):
        tokens = [(kind * STRIDE + at) % VOCABULARY for kind, count in runs for at in range(count)]
        request = Request(
            request_id=str(number),
            prompt_token_ids=tokens,
            sampling_params=SamplingParams(max_tokens=1),
            pooling_params=None,
            block_hasher=hasher,
        )
        manager.new_step_starts()  # what an earlier step kept is there now
        blocks, cached, *junction = manager.get_computed_blocks(request)
        found.append(cached)
        if junction:
            request.shared_prefix_boundary = junction[0]
        done, first = cached, (cached, blocks)
        while done < len(tokens):
            step = min(budget, len(tokens) - done)
            if scheduler.need_mamba_block_aligned_split:
                known = first[:1] or (0,)
                step = scheduler._mamba_block_aligned_split(request, step, *known)  # noqa: SLF001
            manager.new_step_starts()
            assert manager.allocate_slots(request, step, *first) is not None
            done, first = done + step, ()
            request.num_computed_tokens = done
        manager.free(request)
    return found


if __name__ == "__main__":
    sys.exit(groups.answer_questions(_answer))
