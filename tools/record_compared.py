"""Record what an installed vLLM says to scenarios: lines of tests/data/compared.jsonl.gz.

    tools/record_compared.py ~/vllm-0.33/bin/python < scenarios.jsonl > lines.jsonl

Run by the Python of the workbench. One scenario per line, as its fields or as a recorded line; one
without an answer is omitted, and why is printed.
"""

import json
import sys
from pathlib import Path

from workbench.core.what_if.releases import nearest_rules
from workbench.scenario import Scenario
from workbench.verify import installed_version, questions
from workbench.verify.process import Host, VllmProcess

LEFT_OUT = frozenset({"layer_names", "tensors"})
"""Long answers, which other recorded answers hold."""

MODELS = ("model", "draft_model")
"""Fields that can be the path of a config.json."""


def main(python: str) -> int:
    """Answer every line of standard input; return the exit code."""
    rules = nearest_rules(installed_version(python).version)
    hosts: dict[Host, list[Scenario]] = {}
    for line in sys.stdin:
        given = json.loads(line)
        scenario = Scenario(**{**given.get("scenario", given), "rules": rules})
        hosts.setdefault(Host.of(scenario), []).append(scenario)
    for host, scenarios in hosts.items():
        with VllmProcess(python, host) as process:
            for one in scenarios:
                outcome = process.ask(questions([one])[0])
                if outcome.failure is not None or outcome.unanswered:
                    print(one.model, outcome.failure, outcome.unanswered, file=sys.stderr)
                    continue
                given = {k: v for k, v in outcome.answers.items() if k not in LEFT_OUT}
                stated = {**one.stated(), "rules": rules}
                for field in MODELS:
                    path = stated.get(field)
                    if isinstance(path, str) and Path(path).is_file():  # gone when it is read
                        stated[field] = json.loads(Path(path).read_text(encoding="utf-8"))
                row = {"scenario": stated, "answers": given}
                row["refusal"] = outcome.refusal
                print(json.dumps(row, sort_keys=True), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
