"""Record what installed releases make of parallel engines: tests/data/parallel.jsonl.gz.

    tools/record_parallel.py ~/vllm-0.23/bin/python ~/vllm-0.33/bin/python --count 200

Run by the Python of the workbench, on any machine. Asks about random scenarios of the catalog on
one CUDA device that have pipeline stages, or ranks of another kind than tensor parallelism; every
rank is built in its place. Rows of the queried releases replace theirs.
"""

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

from workbench.core.versions import RULE_SETS
from workbench.core.what_if.verification import nearest_rules
from workbench.scenario import Scenario
from workbench.scenario.scenario import random_scenarios
from workbench.verify import explicit_fields, installed_version, questions
from workbench.verify.process import Host, query

TARGET = Path(__file__).parents[1] / "tests" / "data" / "parallel.jsonl.gz"
PARALLEL = ("pipeline_parallel",)
ONE_HOST: dict[str, Any] = {
    "platform": "cuda",
    "device": None,
    "compute_capability": "9.0",
    "device_memory_bytes": 80 * 2**30,
    "batch_invariant": False,
    "trtllm_kernels": False,
    "backend": None,
    "draft_attention_backend": None,
    "kv_cache_layout": None,
}
"""What all scenarios have, so that one process answers them."""
KEPT = (
    *("block_size", "max_num_batched_tokens", "max_num_seqs", "mamba_page_size_padded"),
    *("stages", "groups", "num_blocks", "max_concurrency", "scheduler_block_size"),
    *("hash_block_size", "max_model_len", "async_scheduling", "model_runner", "cache_layout"),
    *("tensors", "tensor_bytes"),
)
"""Answers that are recorded."""


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pythons", nargs="+", help="a Python that has vLLM")
    parser.add_argument("--count", type=int, default=200, help="scenarios of every release")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rows = []
    if TARGET.exists():
        rows = [json.loads(line) for line in gzip.decompress(TARGET.read_bytes()).splitlines()]
    for python in options.pythons:
        rules = nearest_rules(installed_version(python).version, RULE_SETS)
        rows = [row for row in rows if row["scenario"]["rules"] != rules]
        rows += _recorded(python, _scenarios(rules, options.count, options.seed))
    text = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
    TARGET.write_bytes(gzip.compress(text.encode(), mtime=0))


def _scenarios(rules: str, count: int, seed: int) -> list[Scenario]:
    found: list[Scenario] = []
    plain = Scenario()
    while len(found) < count:
        for one in random_scenarios(count, seed, rules):
            scenario = one.replace(**ONE_HOST)
            if any(getattr(scenario, name) != getattr(plain, name) for name in PARALLEL):
                found.append(scenario)
        seed += 1
    return found[:count]


def _recorded(python: str, scenarios: list[Scenario]) -> list[dict[str, Any]]:
    installed, outcomes = query(python, Host.of(scenarios[0]), questions(scenarios))
    rows = []
    for scenario, found in zip(scenarios, outcomes, strict=True):
        if found.failure is not None or found.unanswered:
            continue
        answers = {name: found.answers[name] for name in KEPT if name in found.answers}
        refused = found.refusal and {name: found.refusal[name] for name in ("type", "message")}
        if refused:
            refused["message"] = refused["message"][:300]
        rows.append(
            {
                "vllm": installed.version,
                "scenario": {**explicit_fields(scenario), "rules": scenario.rules},
                "answers": answers,
                "refusal": refused,
            }
        )
    return rows


if __name__ == "__main__":
    main()
