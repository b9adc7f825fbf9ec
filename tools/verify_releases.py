"""Compare several vLLM installations with the rules on random scenarios, and keep the report.

    tools/verify_releases.py ~/vllm-0.23/bin/python ~/vllm-0.33/bin/python

Writes benchmarks/results/verify.json: versions, the questions, the stand-ins for a GPU, every
difference. The exit status is 1 if there is one. See tools/vllm_environment.py for the Pythons.
"""

import argparse
import json
import sys
from pathlib import Path

from workbench.core.versions import RULE_SETS
from workbench.core.what_if.verification import nearest_rules
from workbench.scenario.scenario import random_scenarios
from workbench.verify import installed_version, verify

RESULT = Path(__file__).parents[1] / "benchmarks" / "results" / "verify.json"


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pythons", nargs="+", help="a Python that has vLLM")
    parser.add_argument("--count", type=int, default=200, help="scenarios per Python")
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--result", type=Path, default=RESULT)
    options = parser.parse_args()
    reports = []
    for python in options.pythons:
        version = installed_version(python).version
        rules = nearest_rules(version, RULE_SETS)
        report = verify(random_scenarios(options.count, options.seed, rules), python)
        print(
            f"vLLM {version}, rules {rules}: {len(report.checks)} scenarios, "
            f"{len(report.differing)} differ, {len(report.failed)} could not be queried"
        )
        reports.append({"count": options.count, "seed": options.seed, **report.to_dict()})
    options.result.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"reports": reports}, indent=1)
    options.result.write_text(text + "\n", encoding="utf-8")
    return int(any(report["differences"] for report in reports))


if __name__ == "__main__":
    sys.exit(main())
