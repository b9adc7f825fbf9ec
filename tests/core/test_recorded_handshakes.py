"""Pairs of engines that the NIXL workers of vLLM 0.23 and 0.33 accept or refuse.

`tests/data/handshakes.jsonl.gz` holds what `tools/record_handshakes.py` recorded.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

import workbench as wb
from tests.recorded import recorded
from workbench.core.offload.transfer import transfer
from workbench.core.problems import ERROR

RECORDED = recorded("handshakes")
BEFORE = {"transfer_state_kind", "transfer_fingerprint"}
"""What stops an engine or a pair before the recorded check."""


@cache
def plan_of(model, rules, fields):
    return wb.resolve(model=model, rules=rules, **dict(fields))


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
@pytest.mark.parametrize("model", sorted({line["model"] for line in RECORDED}))
def test_the_verdict_and_the_words_are_those_of_the_worker(model, rules):
    lines = [line for line in RECORDED if (line["model"], line["rules"]) == (model, rules)]
    assert len(lines) > 50
    seen = Counter()
    for line in lines:
        sides = [plan_of(model, rules, tuple(line[side].items())) for side in ("prefill", "decode")]
        problems = transfer(*sides).problems
        errors = [one for one in problems if one.severity == ERROR and one.code not in BEFORE]
        assert bool(errors) is bool(line["refused"]), line
        if errors:
            assert errors[0].vllm_text in line["refused"], line
        seen[errors[0].code if errors else "legal"] += 1
    assert seen["legal"]
