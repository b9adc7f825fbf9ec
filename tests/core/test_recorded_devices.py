"""What vLLM itself decides on every device that has a name, for both ways to start it."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.recorded import recorded
from workbench.core.devices import DEVICES

LINES = recorded("devices")
RELEASES = sorted({line["rules"] for line in LINES})
OF_BACKEND = frozenset({"backend", "block_size", "kernel_block_size"})


@pytest.mark.parametrize("rules", RELEASES)
def test_every_device_is_recorded_for_both_ways_to_start(rules):
    scenarios = [line["scenario"] for line in LINES if line["rules"] == rules]
    assert {(one["device"], one.get("entry_point", "serve")) for one in scenarios} == {
        (device, start) for device in DEVICES for start in ("serve", "LLM")
    }
    assert not [line for line in LINES if "failure" in line]


@pytest.mark.parametrize("device", DEVICES)
def test_a_plan_gives_vllms_answers(device):
    for line in LINES:
        if line["scenario"]["device"] != device:
            continue
        scenario = wb.Scenario(rules=line["rules"], **line["scenario"])
        if "refusal" in line["answers"]:
            with pytest.raises(wb.Refused):
                wb.resolve(scenario)
            continue
        plan = wb.resolve(scenario)
        # the packages of AITER were missing where most was recorded: the next backend is there
        missing = OF_BACKEND if (plan.backend or "").startswith("ROCM_AITER") else frozenset()
        for field in line["answers"].keys() - missing:
            assert getattr(plan, field) == line["answers"][field], (line, field)
        if missing:
            assert line["answers"]["backend"] in {"TRITON_ATTN", plan.backend}
