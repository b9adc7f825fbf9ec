"""Compare several vLLM installations with the rules, and keep the report.

    tools/verify_releases.py ~/vllm-0.23/bin/python ~/vllm-0.33/bin/python --configs ~/configs

Asks about `vllm serve MODEL` on an H100 with nothing else set, for every model of the catalog, and
about random scenarios of the catalog and of a folder of config.json files. Prints in how many
scenarios each field agrees, and writes benchmarks/results/verify.json: versions, the questions, the
stand-ins for a GPU, every difference. The exit status is 1 if there is one. See
tools/vllm_environment.py for the Pythons.
"""

import argparse
import json
import sys
from pathlib import Path

from workbench.core.errors import ConfigError
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.verification import nearest_rules
from workbench.models import catalog_names, load_model
from workbench.scenario import Scenario
from workbench.scenario.scenario import random_scenarios
from workbench.verify import installed_version, verify
from workbench.views.verify import verification_text

RESULT = Path(__file__).parents[1] / "benchmarks" / "results" / "verify.json"
H100_BYTES = 81_559 * 2**20
"""What `nvidia-smi` shows of an H100 with 80 GB."""


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pythons", nargs="+", help="a Python that has vLLM")
    parser.add_argument("--count", type=int, default=200, help="random scenarios of each kind")
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--configs", type=Path, help="a folder of config.json files")
    parser.add_argument("--result", type=Path, default=RESULT)
    options = parser.parse_args()
    reports = []
    for python in options.pythons:
        rules = nearest_rules(installed_version(python).version, RULE_SETS)
        for name, scenarios in _sets(rules, options).items():
            report = verify(scenarios, python)
            print(f"\n{name}: {verification_text(report).partition('vLLM functions called')[0]}")
            reports.append({"set": name, "seed": options.seed, **report.to_dict()})
    options.result.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"reports": reports}, indent=1)
    options.result.write_text(text + "\n", encoding="utf-8")
    return int(any(report["differences"] for report in reports))


def _sets(rules: str, options: argparse.Namespace) -> dict[str, tuple[Scenario, ...]]:
    """Return the scenarios by the name of their set."""
    count, seed = options.count, options.seed
    defaults = [_default(name, rules) for name in catalog_names()]
    sets = {
        "default usage": tuple(defaults),
        "random, catalog": random_scenarios(count, seed, rules),
    }
    if options.configs is not None:
        configs = [str(path) for path in sorted(options.configs.glob("*.json")) if _is_read(path)]
        sets["random, folder"] = random_scenarios(count, seed, rules, configs)
    return sets


def _is_read(path: Path) -> bool:
    """Return whether there is a reader for this config.json; print why not."""
    try:
        load_model(path)
    except ConfigError as error:
        print(f"{path.name} is skipped: {error}")
        return False
    return True


def _default(model: str, rules: str) -> Scenario:
    return Scenario(model=model, rules=rules, device_memory_bytes=H100_BYTES)


if __name__ == "__main__":
    sys.exit(main())
