"""Compare several vLLM installations with the rules, and keep the report.

    tools/verify_releases.py ~/vllm-0.23/bin/python ~/vllm-0.33/bin/python --count 1000

Asks about `vllm serve MODEL` with nothing else set, for every model of the catalog on an H100 and
on one other device, and about random scenarios of the catalog; with `--configs`, about a folder of
config.json files too, whether they can be read here or not. Every answer is a line of a file in
`--answers`, written when it comes: a run that was stopped goes on where it was, and `--judge` only
compares what was answered again, without any vLLM. Writes benchmarks/results/verify.json: how many
scenarios agree, of which kind the others are, and each of them with its judgement from
tools/verify_judgements.json. The exit status is 1 if a difference has none. See
tools/vllm_environment.py for the Pythons.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import Any

from verify_summary import summary, summary_text

from workbench.core.devices import DEVICES
from workbench.core.errors import ConfigError, WorkbenchError
from workbench.core.what_if.releases import nearest_rules
from workbench.core.what_if.verification import Check
from workbench.models import catalog_names, load_model
from workbench.scenario import Scenario
from workbench.scenario.scenario import random_scenarios
from workbench.verify import check, installed_version, questions
from workbench.verify.process import Host, Outcome, VllmProcess

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "verify.json"
USUAL = "H100"
FOLDER_SHARE = 5
"""One of the folder's random scenarios per so many of the catalog."""


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pythons", nargs="+", help="a Python that has vLLM")
    parser.add_argument("--count", type=int, default=200, help="random scenarios of each kind")
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--configs", type=Path, help="a folder of config.json files")
    parser.add_argument("--answers", type=Path, default=ROOT / "test-output" / "verify")
    parser.add_argument("--again", help="ask again where the answer's line has this text")
    parser.add_argument("--judge", action="store_true", help="ask nothing")
    parser.add_argument("--result", type=Path, default=RESULT)
    options = parser.parse_args()
    options.answers.mkdir(parents=True, exist_ok=True)
    reports = [_report(python, options) for python in options.pythons]
    options.result.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"reports": reports}, indent=1)
    options.result.write_text(text + "\n", encoding="utf-8")
    return int(any(one["judgement"] is None for report in reports for one in report["differences"]))


def _report(python: str, options: argparse.Namespace) -> dict[str, Any]:
    installed = installed_version(python)
    rules = nearest_rules(installed.version)
    scenarios = _kept_scenarios(options.answers / f"{rules}.scenarios.jsonl", rules, options)
    answers = Answers(options.answers / f"{rules}.answers.jsonl", options.again)
    if not options.judge:
        _ask(python, [one for _, one in scenarios], answers)
    checks = [(name, _check(one, answers, rules)) for name, one in scenarios]
    found = summary(rules, [(name, one) for name, one in checks if one is not None])
    print(f"\nvLLM {installed.version}, rules {rules}\n{summary_text(found)}")
    environment = {name: getattr(installed, name) for name in ("python", "torch", "transformers")}
    head = {"vllm": installed.version, "rules": rules, "date": str(datetime.now(UTC).date())}
    head |= {"environment": environment}
    missing = sum(one is None for _, one in checks)
    return {**head, "seed": options.seed, "stand_ins": answers.stand_ins, "open": missing, **found}


def _kept_scenarios(
    path: Path, rules: str, options: argparse.Namespace
) -> list[tuple[str, Scenario]]:
    """Return the scenarios that were drawn for this folder of answers, with their sets."""
    if not path.exists():
        lines = [{"set": name, **one.stated()} for name, one in _drawn(rules, options)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    read = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(one.pop("set"), Scenario(**{**one, "rules": rules})) for one in read]


def _drawn(rules: str, options: argparse.Namespace) -> Iterator[tuple[str, Scenario]]:
    others = cycle(name for name in DEVICES if name != USUAL)
    for model in catalog_names():
        for device in (USUAL, next(others)):
            yield "default usage", Scenario(model=model, rules=rules, device=device)
    for one in random_scenarios(options.count, options.seed, rules):
        yield "random, catalog", one
    if options.configs is not None:
        configs = [str(path) for path in sorted(options.configs.glob("*.json"))]
        for path in configs:
            yield "default usage, folder", Scenario(model=path, rules=rules, device=USUAL)
        readable = [path for path in configs if _is_read(path)]
        count = options.count // FOLDER_SHARE if readable else 0
        for one in random_scenarios(count, options.seed, rules, readable):
            yield "random, folder", one


def _is_read(path: str) -> bool:
    """Return whether there is a reader for this config.json: what is drawn depends on its model."""
    try:
        load_model(path)
    except ConfigError:
        return False
    return True


class Answers:
    """A file with one line per answer, found by the question and the machine."""

    def __init__(self, path: Path, again: str | None) -> None:
        self.path = path
        self.outcomes: dict[str, Outcome] = {}
        self.stand_ins: dict[str, str] = {}
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for line in lines:
            entry = json.loads(line)
            self.stand_ins |= entry["stand_ins"]
            if again is None or again not in line:
                self.outcomes[entry["key"]] = Outcome(**entry["outcome"])

    @staticmethod
    def key(host: Host, question: dict[str, Any]) -> str:
        """Return what an answer is found by."""
        text = json.dumps([vars(host), question], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def keep(self, key: str, outcome: Outcome, stand_ins: dict[str, str]) -> None:
        """Write an answer."""
        self.outcomes[key] = outcome
        new = {name: what for name, what in stand_ins.items() if name not in self.stand_ins}
        self.stand_ins |= new
        line = json.dumps({"key": key, "outcome": vars(outcome), "stand_ins": new})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def _ask(python: str, scenarios: list[Scenario], answers: Answers) -> None:
    """Ask what is not answered yet, in one process per machine."""
    hosts: dict[Host, dict[str, dict[str, Any]]] = {}
    for one in scenarios:
        host, question = Host.of(one), _question(one)
        if question is not None and (key := answers.key(host, question)) not in answers.outcomes:
            hosts.setdefault(host, {})[key] = question
    count = sum(map(len, hosts.values()))
    print(f"{python}: {count} questions on {len(hosts)} machines", flush=True)
    for host, missing in sorted(hosts.items(), key=lambda pair: -len(pair[1])):
        with VllmProcess(python, host) as process:
            for key, question in missing.items():
                answers.keep(key, process.ask(question), process.installed.stand_ins)


def _question(scenario: Scenario) -> dict[str, Any] | None:
    """Return the question; None where the scenario does not give one."""
    try:
        return questions([scenario])[0]
    except WorkbenchError:
        return None


def _check(scenario: Scenario, answers: Answers, rules: str) -> Check | None:
    """Return the comparison; None where there is no answer yet."""
    try:
        question = questions([scenario])[0]
    except WorkbenchError as error:
        return Check(scenario.stated(), failure=f"no question: {error}")
    outcome = answers.outcomes.get(answers.key(Host.of(scenario), question))
    return None if outcome is None else check(scenario, outcome, rules)


if __name__ == "__main__":
    sys.exit(main())
