"""Every recorded answer of vLLM 0.23.0 and 0.33.0 agrees, in every field and every refusal."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.core.conformance import (
    ALIGN_LOCALS,
    OTHER_FIELDS,
    PLAN_FIELDS,
    answer,
    cases,
    model,
    scenario_values,
)
from tests.recorded import DATA
from workbench.core.backend_table import BackendTable
from workbench.core.errors import Refused
from workbench.core.resolve import resolve
from workbench.core.versions import RULE_SETS, V0_23, V0_33
from workbench.interop.batch import resolve_lines
from workbench.scenario import Scenario

RULES = ("0.23", "0.33")
ALL = tuple(case for rules in RULES for case in cases(rules))
CONFIGS = sorted({case["input"]["config"] for case in ALL})
LINES = {"0.23": (1120, 34), "0.33": (641, 30)}
"""Rule set -> (answers, refusals among them)."""
ONLY_0_23 = {"attn_tokens_per_mamba_state", "base_chunk_size", "chunk_size"}
ONLY_0_33 = {"backend_block_alignment"}
"""Local variables of one version's alignment."""


def differences(expected, given):
    """[(field, vLLM's value, ours)] of every field that differs."""
    return [
        (field, expected[field], given.get(field))
        for field in expected
        if expected[field] != given.get(field)
    ]


def disagreements(case):
    """The same for one line; a missing or superfluous refusal counts too."""
    expected = case["output"]
    scenario = Scenario(**scenario_values(case))
    try:
        plan = resolve(model(case["input"]["config"]), scenario)
    except Refused as refusal:
        if "error" not in expected:
            return [("refused", None, refusal.message)]
        quoted = refusal.vllm_text in expected["error"]["message"]
        return [] if quoted else [("error", expected["error"]["message"], refusal.vllm_text)]
    if "error" in expected:
        return [("error", expected["error"]["message"], None)]
    return differences(expected, answer(plan.to_dict(), expected, plan.model.chunk_size))


@pytest.mark.parametrize("rules", RULES)
def test_every_line_and_every_field_is_compared(rules):
    answers = cases(rules)
    refused = sum("error" in case["output"] for case in answers)
    assert (len(answers), refused) == LINES[rules]
    fields = {
        field for case in answers for field in case["output"] if "error" not in case["output"]
    }
    assert fields == set(PLAN_FIELDS) | OTHER_FIELDS
    local = {name for case in answers for name in case["output"].get("align_locals", ())}
    other = ONLY_0_33 if rules == "0.23" else ONLY_0_23
    assert local == set(ALIGN_LOCALS) - other


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("rules", RULES)
def test_every_line_agrees_with_vllm(rules, name):
    lines = [case for case in cases(rules) if case["input"]["config"] == name]
    assert {case["line"]: found for case in lines if (found := disagreements(case))} == {}


OLD_FLASH = BackendTable(
    tuple(
        V0_23.backends[name] if name == "FLASH_ATTN" else record
        for name, record in V0_33.backends.items()
    )
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"mla_granule": 1}, {"block_size"}),
        ({"cpu_block_size": 64}, {"block_size"}),
        ({"prefill_checkpoint_tokens": 32}, {"block_size"}),
        ({"draft_counting": frozenset()}, {"mamba_state_shapes"}),
        ({"kda_dtypes": ("bfloat16", "float32")}, {"mamba_page_bytes_unpadded", "block_size"}),
        ({"backends": OLD_FLASH}, {"supported_kernel_block_sizes", "kernel_block_size"}),
    ],
)
def test_a_planted_wrong_rule_is_found(monkeypatch, change, fields):
    wrong = replace(RULE_SETS["0.33"], **change)
    monkeypatch.setitem(RULE_SETS, "0.33", wrong)
    found = {difference[0] for case in cases("0.33") for difference in disagreements(case)}
    assert fields <= found


def test_a_changed_answer_would_be_noticed():
    case = next(case for case in cases() if "error" not in case["output"])
    for field, value in case["output"].items():
        if field != "align_locals":
            altered = {**case, "output": {**case["output"], field: ("altered", value)}}
            assert [found[0] for found in disagreements(altered)] == [field]
    refused = next(case for case in cases() if "error" in case["output"])
    assert disagreements({**refused, "output": case["output"]})
    assert disagreements({**case, "output": refused["output"]})


def check_published(case, line):
    """One line of batch output against one recorded answer."""
    published = json.loads(line)
    if "error" in case["output"]:
        assert set(published["error"]) == {"code", "message", "field"}
        return
    chunk_size = model(case["input"]["config"]).chunk_size
    assert differences(case["output"], answer(published, case["output"], chunk_size)) == []


@pytest.mark.thorough
def test_the_batch_form_agrees_line_by_line():
    lines = [json.dumps(scenario_values(case)) for case in ALL]
    results = list(resolve_lines(lines))
    assert len(results) == len(lines)
    for case, (line, is_plan) in zip(ALL, results, strict=True):
        assert is_plan == ("error" not in case["output"])
        check_published(case, line)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("every", [24, pytest.param(1, marks=pytest.mark.thorough)])
def test_the_command_line_agrees_line_by_line(every, tmp_path):
    chosen = ALL[::every]
    scenarios = tmp_path / "scenarios.jsonl"
    paths = {name: str(DATA / "models" / f"{name}.json") for name in CONFIGS}
    lines = [scenario_values(case, paths[case["input"]["config"]]) for case in chosen]
    scenarios.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "workbench", "resolve", "--batch", str(scenarios)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    output = done.stdout.splitlines()
    assert len(output) == len(lines)
    for case, line in zip(chosen, output, strict=True):
        check_published(case, line)
    assert any("error" in case["output"] for case in chosen)
    assert subprocess.run([*command, "--strict"], capture_output=True, check=False).returncode == 1
