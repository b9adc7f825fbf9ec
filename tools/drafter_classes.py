"""Record which class of the registry drafts in every recorded plan with a drafter.

    ~/vllm-0.33/bin/python tools/drafter_classes.py

Run by the Python of a vLLM, on any machine (tools/vllm_environment.py makes one). Reads
tests/data/draft_groups.jsonl.gz and writes that release's part of tests/data/drafter_classes.json:
class -> the drafted models and methods, as `SpeculativeConfig` names the class. Then
tools/write_coverage.py counts the classes as compared.
"""

import gzip
import json
import sys
from importlib.metadata import version
from typing import Any

import record_cache_groups
from record_coverage import ROOT

ROWS = ROOT / "tests" / "data" / "draft_groups.jsonl.gz"
TARGET = ROOT / "tests" / "data" / "drafter_classes.json"


def main() -> None:
    """Run from the command line."""
    release = ".".join(version("vllm").split(".")[:2])
    with gzip.open(ROWS, "rt", encoding="utf-8") as file:
        every = [json.loads(line) for line in file]
    rows = [row for row in every if row["rules"] == release and "refused" not in row]
    machine = record_cache_groups.simulated_machine(rows[0])
    found: dict[str, set[str]] = {}
    for row in rows:
        name = _class(row, machine)
        sys.stderr.write(f"{row['name']}: {name}\n")
        if name:
            found.setdefault(name, set()).add(f"{row['name']} ({row['method']})")
    known = json.loads(TARGET.read_text(encoding="utf-8")) if TARGET.exists() else {}
    known[release] = {name: sorted(found[name]) for name in sorted(found)}
    TARGET.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _class(row: dict[str, Any], machine: Any) -> str | None:
    """Return the class of what drafts; None where no model does, and where nothing is built."""
    from vllm_probe import configuration

    try:
        built = configuration.build(record_cache_groups.probe_question(row), machine)
    except Exception as error:  # noqa: BLE001  (the recording says what it refuses)
        sys.stderr.write(f"{row['name']}: {type(error).__name__}: {str(error)[:200]}\n")
        return None
    draft = getattr(built.speculative_config, "draft_model_config", None)
    return draft and draft.hf_config.architectures[0]


if __name__ == "__main__":
    main()
