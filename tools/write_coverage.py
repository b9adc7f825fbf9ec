"""Write workbench/models/coverage.json: which architectures are read as the real vLLM builds them.

    python tools/write_coverage.py

Reads tests/data/coverage.jsonl.gz, which tools/record_coverage.py recorded with each release, and
compares block size, groups (kind, block, page, layers, backends), blocks and how many of the
longest requests fit at once. The plans with drafters, whose classes tools/drafter_classes.py
recorded, are compared by tests/core/test_draft_models.py. Exits with 1, and writes nothing, if a
plan differs from its recorded answer.
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.models.recorded_coverage import (  # noqa: E402
    covered,
    differs,
    drafter_classes,
    outcome,
)
from workbench.core.architectures import MODEL_REGISTRIES  # noqa: E402

TARGET = ROOT / "workbench" / "models" / "coverage.json"
SHORT = 160


def main() -> int:
    """Run from the command line."""
    found: dict[str, dict[str, Any]] = {}
    wrong = []
    for answer in covered():
        release = found.setdefault(
            answer["rules"],
            {"origin": answer["origin"], "exact": {}, "refused": {}, "unchecked": {}},
        )
        name, planned = answer["architecture"], outcome(answer)
        if "refused" in answer:
            release["unchecked"][name] = f"vLLM did not build it here: {answer['refused']}"[:SHORT]
        elif isinstance(planned, str):
            release["refused"][name] = planned[:SHORT]
        elif differs(answer, planned):
            wrong.append(f"{answer['rules']} {name}: {planned}")
        else:
            release["exact"][name] = answer["source"]
    for rules, drafters in drafter_classes().items():
        registered = MODEL_REGISTRIES[rules].drafters
        found[rules]["exact"] |= {
            name: f"as the drafter of {plans[0]}"
            for name, plans in drafters.items()
            if name in registered
        }
    if wrong:
        sys.stderr.write("\n".join(wrong) + "\n")
        return 1
    TARGET.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
