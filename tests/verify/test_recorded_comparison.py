"""Scenarios on which a random comparison once found a difference, against what vLLM said to them.

`tests/data/compared.jsonl.gz` holds what `tools/record_compared.py` recorded.
"""

from __future__ import annotations

import pytest

from tests.groups import in_groups
from tests.recorded import recorded
from workbench.scenario import Scenario
from workbench.verify import check
from workbench.verify.process import Outcome

ROWS = recorded("compared")


def label(row):
    model, rules = row["scenario"]["model"], row["scenario"]["rules"]
    return f"{rules}-{model if isinstance(model, str) else model['architectures'][0]}"


@in_groups
@pytest.mark.parametrize("row", ROWS, ids=label)
def test_the_plan_is_what_vllm_decided(row):
    scenario = Scenario(**row["scenario"])
    found = check(scenario, Outcome(row["answers"], refusal=row["refusal"]), scenario.rules)
    assert found.differences == ()
    assert found.rows


def test_no_row_needs_a_file_of_where_it_was_recorded():
    models = [row["scenario"].get(field) for row in ROWS for field in ("model", "draft_model")]
    assert not [one for one in models if isinstance(one, str) and one.startswith(("/", ".", "~"))]
