"""Engines of several kinds of ranks, against the recorded answers of both releases."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from workbench.core.errors import Refused
from workbench.core.what_if.verification import compare
from workbench.resolution import resolve
from workbench.scenario import Scenario

FILE = Path(__file__).parents[1] / "data" / "parallel.jsonl.gz"
ROWS = [json.loads(line) for line in gzip.decompress(FILE.read_bytes()).splitlines()]


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_the_plan_is_what_vllm_decided(number):
    row = ROWS[number]
    try:
        ours = resolve(Scenario(**row["scenario"]))
    except Refused as refusal:
        ours = refusal
    rows = compare(ours, row["answers"], row["refusal"])
    assert [one for one in rows if not one.same] == []
