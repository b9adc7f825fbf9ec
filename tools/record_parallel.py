"""Record what installed releases make of parallel engines: tests/data/parallel.jsonl.gz.

    tools/record_parallel.py ~/vllm-0.23/bin/python ~/vllm-0.33/bin/python --count 200

Run by the Python of the workbench, on any machine. Asks about scenarios of the catalog on one CUDA
device: random ones that have pipeline stages (`stages`), every model over ranks that share the
tokens of a block (`spread`), or over several engines (`engines`). Every stage is built in its
place. Rows of the queried releases with such ranks replace theirs.
"""

import argparse
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from workbench.core.ranks import context_sizes
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.verification import nearest_rules
from workbench.models import catalog_names, load_model
from workbench.scenario import Scenario
from workbench.scenario.scenario import random_scenarios
from workbench.verify import explicit_fields, installed_version, questions
from workbench.verify.process import Host, query

TARGET = Path(__file__).parents[1] / "tests" / "data" / "parallel.jsonl.gz"
STAGES, SPREAD = "pipeline_parallel", "decode_context_parallel"
ENGINES = frozenset({"data_parallel", "enable_expert_parallel"})
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
FITTED = -1
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
    parser.add_argument("--kind", choices=KINDS, default="stages")
    options = parser.parse_args()
    rows = []
    if TARGET.exists():
        rows = [json.loads(line) for line in gzip.decompress(TARGET.read_bytes()).splitlines()]
    for python in options.pythons:
        rules = nearest_rules(installed_version(python).version, RULE_SETS)
        kind = KINDS[options.kind]
        rows = [row for row in rows if row["scenario"]["rules"] != rules or not kind.has(row)]
        rows += _recorded(python, kind.scenarios(rules, options.count, options.seed))
    text = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
    TARGET.write_bytes(gzip.compress(text.encode(), mtime=0))


def _staged(rules: str, count: int, seed: int) -> list[Scenario]:
    found: list[Scenario] = []
    while len(found) < count:
        for one in random_scenarios(count, seed, rules):
            scenario = one.replace(**ONE_HOST)
            plain = scenario.replace(**{STAGES: 1})
            if plain != scenario and not {SPREAD, *ENGINES} & explicit_fields(plain).keys():
                found.append(scenario)
        seed += 1
    return found[:count]


def _spread(rules: str, count: int, seed: int) -> list[Scenario]:
    """Return scenarios of the models in turn, most with ranks that have the same KV heads."""
    rng, names, found = random.Random(seed), catalog_names(), []  # noqa: S311
    for name in (names * (count // len(names) + 1))[:count]:
        ranks = rng.choice((2, 4, 8, 8, 16, 32))
        sizes = context_sizes(load_model(name), ranks)[1:]
        fields = {
            "tensor_parallel": ranks,
            SPREAD: rng.choice(sizes or (2, 3)),
            "enable_prefix_caching": rng.choice((None, True, False)),
            "kv_cache_dtype": rng.choice(("auto", "auto", "fp8")),
            "backend": rng.choice((None, None, None, "FLASHINFER")),
            "max_model_len": rng.choice((None, 32768, -1)),
            "disable_hybrid_kv_cache_manager": rng.random() < 0.2,
            "kv_cache_memory_bytes": 20 * 2**30,
        }
        found.append(Scenario(model=name, rules=rules, **{**ONE_HOST, **fields}))
    return found


def _engines(rules: str, count: int, seed: int) -> list[Scenario]:
    """Return scenarios of the models in turn, over several engines or with whole experts."""
    rng, names, found = random.Random(seed), catalog_names(), []  # noqa: S311
    names = sorted(names, key=lambda name: (not load_model(name).num_experts, rng.random()))
    for name in (names * (count // len(names) + 1))[:count]:
        engines = rng.choice((1, 2, 2, 4, 8, 3))
        fields = {
            "tensor_parallel": rng.choice((1, 2, 4, 8)),
            "data_parallel": engines,
            "enable_expert_parallel": engines == 1 or rng.random() < 0.5,
            STAGES: rng.choice((1, 1, 1, 2)),
            "kv_cache_dtype": rng.choice(("auto", "auto", "fp8")),
            "enable_prefix_caching": rng.choice((None, True, False)),
            "entry_point": rng.choice(("serve",) * 9 + ("LLM",)),
            "kv_cache_memory_bytes": 20 * 2**30,
        }
        found.append(Scenario(model=name, rules=rules, **{**ONE_HOST, **fields}))
    return found


class Kind(NamedTuple):
    """Scenarios that are recorded together, and how their rows are recognized."""

    scenarios: Callable[[str, int, int], list[Scenario]]
    fields: frozenset[str]

    def has(self, row: dict[str, Any]) -> bool:
        """Return whether a row was recorded as one of them."""
        given = row["scenario"].keys()
        return next(one for one in KINDS.values() if given & one.fields) is self


KINDS = {
    "engines": Kind(_engines, ENGINES),
    "spread": Kind(_spread, frozenset({SPREAD})),
    "stages": Kind(_staged, frozenset({STAGES})),
}
"""The first whose fields a row has is its kind."""


def _recorded(python: str, scenarios: list[Scenario]) -> list[dict[str, Any]]:
    installed, outcomes = query(python, Host.of(scenarios[0]), questions(scenarios))
    rows = []
    for scenario, found in zip(scenarios, outcomes, strict=True):
        if found.failure is not None or found.unanswered:
            continue
        answers = {name: found.answers[name] for name in KEPT if name in found.answers}
        if found.refusal and scenario.max_model_len == FITTED:
            answers.pop("max_model_len", None)  # not yet fitted to the memory
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
