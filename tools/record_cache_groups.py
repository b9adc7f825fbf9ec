"""Record the KV-cache groups of real models, as an installed vLLM makes them, without a GPU.

    ~/vllm-0.33/bin/python tools/record_cache_groups.py < questions.jsonl > answers.jsonl

Run by the Python of that vLLM; the code is that of `workbench verify`. One question per line:
{"config": config.json, "platform": "cuda", "capability": [9, 0], "arguments": {...}} with the
arguments of EngineArgs, kv_cache_memory_bytes among them. "draft_config" is the config.json of a
second checkpoint. One process plays one platform.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROBE_FOLDER = Path(__file__).parents[1] / "workbench" / "verify"
RECORDED = {
    "method": "speculative_method",
    "is_async": "async_scheduling",
    "runner": "model_runner",
    **{name: name for name in ("block_size", "num_blocks", "max_concurrency", "groups")},
    **{name: name for name in ("hash_lookahead_tokens", "drops_a_block", "group_backends")},
}
"""Name in the record -> the probe's answer."""


def main() -> int:
    """Answer every line of standard input."""
    return answer_questions(_answer)


def answer_questions(answer: Callable[[dict[str, Any], Any], dict[str, Any]]) -> int:
    """Write a question and its answer for every line of standard input; return the exit code.

    `answer` takes a question and the platform that this process plays, which is that of the first
    line. What it raises is the answer of vLLM: its type and message stand in `refused`.
    """
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    questions = [json.loads(line) for line in sys.stdin if line.strip()]
    machine = simulated_machine(questions[0])
    for question in questions:
        try:
            given = answer(question, machine)
        except Exception as error:  # noqa: BLE001  (whatever vLLM raises is its answer)
            given = {"refused": {"type": type(error).__name__, "message": str(error)}}
        channel.write(json.dumps({**question, **given}) + "\n")
        channel.flush()
    return 0


def _answer(question: dict[str, Any], machine: Any) -> dict[str, Any]:
    from vllm_probe.answers import answer

    return _recorded(answer(probe_question(question), machine))


def simulated_machine(question: dict[str, Any]) -> Any:
    """Return the platform of a question, which this process plays from now on."""
    sys.path.append(str(PROBE_FOLDER))
    from vllm_probe.machine import play

    machine = play({name: question.get(name) for name in ("platform", "capability", "gfx")})
    sys.path.remove(str(PROBE_FOLDER))
    return machine


def probe_question(question: dict[str, Any]) -> dict[str, Any]:
    """Return the question in the form of the probe."""
    arguments = dict(question["arguments"])
    return {
        "words": [word for name, value in arguments.items() for word in _words(name, value)],
        "environment": {},
        "usage_context": question.get("usage_context", "OPENAI_API_SERVER"),
        "device_memory_bytes": question.get("device_memory_bytes", 0),
        "device_name": question.get("device_name"),
        "ranks_bytes": [arguments.get("kv_cache_memory_bytes", 0)],
        "config": question["config"],
        "draft_config": question.get("draft_config"),
    }


def only_rank(question: dict[str, Any], machine: Any) -> tuple[Any, Any, list[int]]:
    """Return the configuration, its only rank with the specs of its layers, and bytes by rank."""
    from vllm.config import set_current_vllm_config
    from vllm_probe import configuration, models

    given = probe_question(question)
    config = configuration.build(given, machine)
    [rank] = models.ranks(config)
    machine.platform.update_block_size_for_backend(config)
    with set_current_vllm_config(config):
        rank.specs = models.specs_of(rank)
    return config, rank, given["ranks_bytes"]


def _words(name: str, value: Any) -> list[str]:
    flag = name.replace("_", "-") if name != "backend" else "attention-backend"
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    if isinstance(value, list):
        return [f"--{flag}", *map(str, value)]
    return [f"--{flag}", json.dumps(value) if isinstance(value, dict) else str(value)]


def _recorded(given: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of the answers: all of it, a refusal, or why there is none."""
    import vllm

    if "refusal" in given:
        return {"refused": {name: given["refusal"][name] for name in ("type", "message")}}
    if given["unanswered"]:
        return {"unanswered": given["unanswered"]}
    answers = given["answers"]
    return {"vllm": vllm.__version__, **{name: answers[own] for name, own in RECORDED.items()}}


if __name__ == "__main__":
    sys.exit(main())
