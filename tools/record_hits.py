"""Record what the KVCacheManager of an installed vLLM finds again of earlier prompts.

    ~/vllm-0.33/bin/python tools/record_hits.py < questions.jsonl > answers.jsonl

Run by the Python of that vLLM, on any machine. Questions are those of record_cache_groups.py, with
`workloads`: lists of prompts that come one after the other, each a list of [number, tokens]: runs
of tokens, equal where their numbers are. Answers: `hits`, the cached tokens of every prompt.
"""

import inspect
import json
import os
import sys
from typing import Any

import record_cache_groups as groups

VOCABULARY = 50_000
STRIDE = 1_000_003
"""A prime: runs with different numbers differ in their first tokens."""


def main() -> int:
    """Answer every line of standard input."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    questions = [json.loads(line) for line in sys.stdin if line.strip()]
    machine = groups.simulated_machine(questions[0])
    for question in questions:
        channel.write(json.dumps({**question, **_answer(question, machine)}) + "\n")
        channel.flush()
    return 0


def _answer(question: dict[str, Any], machine: Any) -> dict[str, Any]:
    from vllm.config import set_current_vllm_config
    from vllm.utils.hashing import sha256
    from vllm.v1.core import kv_cache_utils
    from vllm_probe import configuration, models, planning

    given = groups.probe_question(question)
    config = configuration.build(given, machine)
    [rank] = models.ranks(config)
    machine.platform.update_block_size_for_backend(config)
    with set_current_vllm_config(config):
        rank.specs = models.specs_of(config)
        cache, _own = planning.caches(config, [rank], given["ranks_bytes"])
        scheduler, unit = kv_cache_utils.resolve_kv_cache_block_sizes(cache, config)
    kv_cache_utils.init_none_hash(sha256)
    ahead = getattr(config, "num_hash_lookahead_tokens", None) or 0
    speculative, budget = config.speculative_config, config.scheduler_config.max_num_batched_tokens
    options = {
        "kv_cache_config": cache,
        "max_model_len": config.model_config.max_model_len,
        "enable_caching": True,
        "use_eagle": bool(speculative and speculative.use_eagle()) and not ahead,
        "scheduler_block_size": scheduler,
        "hash_block_size": unit,
        "max_in_flight_tokens": getattr(config, "max_in_flight_tokens", None),
        "max_num_batched_tokens": budget,
        "num_hash_lookahead_tokens": ahead,
        "num_prefill_lookahead": getattr(config, "num_prefill_lookahead_tokens", 0),
    }
    hashes = kv_cache_utils.get_request_block_hasher
    hasher = hashes(unit, sha256, **_known(hashes, {"num_hash_lookahead_tokens": ahead}))
    hits = [_hits(prompts, options, hasher, budget) for prompts in question["workloads"]]
    return {"scheduler_block_size": scheduler, "hash_block_size": unit, "hits": hits}


def _known(function: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that a function of this release has."""
    names = inspect.signature(function).parameters
    return {name: value for name, value in options.items() if name in names}


def _hits(
    prompts: list[list[list[int]]], options: dict[str, Any], hasher: Any, budget: int
) -> list[int]:
    """Return the cached tokens of prompts that one cache serves, one after the other."""
    from vllm.sampling_params import SamplingParams
    from vllm.v1.core.kv_cache_manager import KVCacheManager
    from vllm.v1.request import Request

    manager = KVCacheManager(**_known(KVCacheManager.__init__, options))
    found = []
    for number, runs in enumerate(prompts):
        tokens = [(kind * STRIDE + at) % VOCABULARY for kind, count in runs for at in range(count)]
        request = Request(
            request_id=str(number),
            prompt_token_ids=tokens,
            sampling_params=SamplingParams(max_tokens=1),
            pooling_params=None,
            block_hasher=hasher,
        )
        blocks, cached, *junction = manager.get_computed_blocks(request)
        found.append(cached)
        if junction:
            request.shared_prefix_boundary = junction[0]
        done, first = cached, (cached, blocks)
        while done < len(tokens):
            step = min(budget, len(tokens) - done)
            manager.allocate_slots(request, step, *first)
            done, first = done + step, ()
            request.num_computed_tokens = done
        manager.free(request)
    return found


if __name__ == "__main__":
    sys.exit(main())
