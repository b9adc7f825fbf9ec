"""Many checks summed up: how many scenarios agree, of which kind the others are, and each one."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.core.what_if.verification import KINDS, NO_ANSWER, Check
from workbench.views.text import aligned, shortened

JUDGEMENTS = json.loads(
    Path(__file__).with_name("verify_judgements.json").read_text(encoding="utf-8")
)
"""What is known of differences: all of "has" must be in the text of one; the first one counts."""
FOLDER = re.compile(r"/[^'\"\s()]*workbench-vllm-\w+")
WIDTH = 200
"""Characters of a value, a message or a reason that a summary repeats."""


def summary(rules: str, named: Sequence[tuple[str, Check]]) -> dict[str, Any]:
    """Return the kinds of every set, the agreement of every field, and what does not agree."""
    kinds: dict[str, Counter[str]] = {}
    fields: dict[str, Counter[bool]] = {}
    reasons: Counter[str] = Counter()
    for name, check in named:
        kinds.setdefault(name, Counter())[check.kind] += 1
        for row in check.rows:
            fields.setdefault(row.field, Counter())[row.same] += 1
        if check.kind == NO_ANSWER:
            reasons[_cut(check.failure or check.unanswered["model"])] += 1
    return {
        "sets": {name: {kind: found[kind] for kind in KINDS} for name, found in kinds.items()},
        "fields": {name: [same[True], same.total()] for name, same in fields.items()},
        "no_answer": dict(reasons.most_common()),
        "differences": [_difference(rules, check) for _, check in named if check.differences],
    }


def summary_text(found: Mapping[str, Any]) -> str:
    """Return the kinds as a table, then how many differences have each judgement."""
    sets = found["sets"]
    rows = [("", *sets), *((kind, *(str(one[kind]) for one in sets.values())) for kind in KINDS)]
    judged = Counter(one["judgement"] or "NOT JUDGED" for one in found["differences"])
    return "\n".join([*aligned(rows), "", *(f"{n:5} {text}" for text, n in judged.most_common())])


def _difference(rules: str, check: Check) -> dict[str, Any]:
    rows = [
        {"field": row.field, "workbench": _cut(row.ours), "vllm": _cut(row.theirs)}
        for row in check.differences
    ]
    found = {"scenario": _named(check.scenario), "kind": check.kind, "fields": rows}
    text = json.dumps({"rules": rules, **found})
    known = (one["judgement"] for one in JUDGEMENTS if all(part in text for part in one["has"]))
    return {**found, "judgement": next(known, None)}


def _named(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields, with the class of a config object in its place and no folder of a file."""
    return {
        name: value["architectures"][0]
        if isinstance(value, dict) and "architectures" in value
        else Path(value).name
        if name == "model"
        else value
        for name, value in scenario.items()
    }


def _cut(value: object) -> str:
    """Return a value as a short text, without the temporary folder of the model."""
    text = value if isinstance(value, str) else json.dumps(value)
    return shortened(FOLDER.sub("the folder", text), WIDTH)
