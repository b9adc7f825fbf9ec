"""Record what vLLM decides on every device that has a name, for both ways to start it.

    tools/record_devices.py ~/vllm-0.23/bin/python ~/vllm-0.33/bin/python

Writes tests/data/devices.jsonl.gz: one line per version, device and question, with vLLM's answers
only. Prints how many of them are the workbench's. See tools/vllm_environment.py for the Pythons.
"""

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.core.batch_defaults import LLM, SERVE
from workbench.core.devices import DEVICES
from workbench.scenario import Scenario
from workbench.verify import verify

RESULT = Path(__file__).parents[1] / "tests" / "data" / "devices.jsonl.gz"
QUESTIONS: tuple[dict[str, Any], ...] = (
    *({"model": "llama-3.1-8b", "entry_point": start} for start in (SERVE, LLM)),
    *(
        {"model": "qwen3-next-80b-a3b", "enable_prefix_caching": True, "entry_point": start}
        for start in (SERVE, LLM)
    ),
    {"model": "llama-3.1-8b", "kv_cache_dtype": "fp8"},
    {"model": "gpt-oss-20b"},
    {"model": "deepseek-v3", "tensor_parallel": 8},
)
"""Plain attention, states with FlashInfer's prefill, a quantized cache, sinks, and MLA."""
FIELDS = frozenset(
    {
        *("max_num_batched_tokens", "max_num_seqs", "model_dtype", "backend", "block_size"),
        *("kernel_block_size", "mamba_block_size", "refusal"),
    }
)


def main() -> int:
    """Ask every Python of the command line."""
    lines = [line for python in sys.argv[1:] for line in _answers(python)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    RESULT.write_bytes(gzip.compress(text.encode(), mtime=0))
    return 0


def _answers(python: str) -> Iterator[dict[str, Any]]:
    fields = [{"device": device, **question} for device in DEVICES for question in QUESTIONS]
    report = verify([Scenario(**one) for one in fields], python)
    same = answered = 0
    for given, check in zip(fields, report.checks, strict=True):
        rows = [row for row in check.rows if row.field in FIELDS]
        answered, same = answered + len(rows), same + sum(row.same for row in rows)
        for row in rows:
            if not row.same:
                print(f"{given}: {row.field} is {row.theirs!r}, not {row.ours!r}")
        answers = {row.field: row.theirs for row in rows}
        yield {"rules": report.rules, "scenario": given, "answers": answers, **_failed(check)}
    print(f"vLLM {report.version}, {len(fields)} scenarios: {same:,} of {answered:,} answers match")


def _failed(check: Any) -> dict[str, str]:
    return {"failure": check.failure} if check.failure else {}


if __name__ == "__main__":
    sys.exit(main())
